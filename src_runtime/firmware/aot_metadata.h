/* Metadata of networks compiled ahead of time; also used by the host. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_AOT_METADATA_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_AOT_METADATA_H_

/* Whether `spelled`, a name in C, stands for `name`: letters and digits are equal, and every other
 * character is equal or a `_`. */
int tvmrt__aot_is_spelled(const char* spelled, const char* name);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_AOT_METADATA_H_ */

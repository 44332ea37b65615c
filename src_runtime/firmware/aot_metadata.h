/* What the metadata of a network compiled ahead of time says; the host's too. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_AOT_METADATA_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_AOT_METADATA_H_

/* Whether `spelled`, a name in C, stands for `name`: it has the same letters and digits, and `_` or the
 * same for all others. */
int tvmrt__aot_is_spelled(const char* spelled, const char* name);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_AOT_METADATA_H_ */

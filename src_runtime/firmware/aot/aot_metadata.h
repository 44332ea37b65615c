/* Metadata of networks compiled ahead of time; also used by the host. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_AOT_METADATA_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_AOT_METADATA_H_

/* Whether `c_name`, a name in C, stands for `name`: letters and digits are equal, and every other
 * character is equal or a `_`. */
int tvmrt__aot_c_names_match(const char* c_name, const char* name);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_AOT_METADATA_H_ */

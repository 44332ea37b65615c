/* Functions that packed_func.c needs from the runtime that it is linked into. */
#ifndef TVMRT_SRC_RUNTIME_FIRMWARE_PACKED_FUNC_H_
#define TVMRT_SRC_RUNTIME_FIRMWARE_PACKED_FUNC_H_

#include <tvm/runtime/crt/packed_func.h>

/* The error of a look-up that returned `rc` and found nothing; with a text on the host. */
int tvmrt__function_missing(const char* name, int rc);

#endif /* TVMRT_SRC_RUNTIME_FIRMWARE_PACKED_FUNC_H_ */

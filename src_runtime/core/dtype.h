/* Names of element types. */
#ifndef TVMRT_SRC_RUNTIME_CORE_DTYPE_H_
#define TVMRT_SRC_RUNTIME_CORE_DTYPE_H_

#include <tvm/runtime/c_runtime_api.h>

#include "../base/error.h"
#include "../firmware/aot/dtype.h"
#include "../platform/compiler.h"

/* Buffer size for the longest type name, including its NUL. */
#define TVMRT_DTYPE_TEXT_BYTES 32

/* The name that front ends use: "float32", "int8x4", "bool", "handle", "custom[129]32". */
TVMRT_SDK void tvmrt__dtype_to_text(DLDataType dtype, char text[TVMRT_DTYPE_TEXT_BYTES]);
/* Type of a name; -1 with a ValueError as error text if the name is invalid. */
TVMRT_SDK int tvmrt__dtype_from_text(const char* text, DLDataType* out);

#endif

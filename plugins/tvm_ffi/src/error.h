/*! \file error.h
 *  \brief Errors of the bridge itself. */
#ifndef TVMRT_PLUGINS_TVM_FFI_ERROR_H_
#define TVMRT_PLUGINS_TVM_FFI_ERROR_H_

#include <stddef.h>

#include "sdk/system.h"

/*! \brief Set the error text; returns -1. */
int bridge_fail(const char* format, ...) TVMRT_PRINTF(1, 2);
/*! \brief Say that there is no memory for this many bytes; returns -1. */
int bridge_fail_memory(size_t bytes);

#endif /* TVMRT_PLUGINS_TVM_FFI_ERROR_H_ */

/*! \file error.h
 * \brief Errors of the bridge. */
#ifndef TVMRT_PLUGINS_TVM_FFI_ERROR_H_
#define TVMRT_PLUGINS_TVM_FFI_ERROR_H_

#include <stddef.h>

#include "sdk/system.h"

/*! \brief Set the error text; returns -1. */
int bridge_fail(const char* format, ...) TVMRT_PRINTF(1, 2);
/*! \brief Report that an allocation of this many bytes failed; returns -1. */
int bridge_fail_memory(size_t bytes);

#endif /* TVMRT_PLUGINS_TVM_FFI_ERROR_H_ */

/*! \file library.h
 * \brief Finds libtvm_ffi and calls its global functions. */
#ifndef TVMRT_PLUGINS_TVM_FFI_LIBRARY_H_
#define TVMRT_PLUGINS_TVM_FFI_LIBRARY_H_

#include "abi.h"

/*!
 * \brief Load libtvm_ffi from a file, unless one is used already, and check its version.
 *
 * Errors:  -1: the library or a function is missing, or the version is unknown. The bridge then
 * stays unchanged.
 */
int bridge_open(const char* path);
/*! \brief Use the libtvm_ffi that the process has loaded or that the system's loader finds; -1 with
 * an error that says what to install if there is none. */
int bridge_require(void);
/*! \brief Call a global function of tvm-ffi; *out is owned. */
int bridge_call_ffi(const char* name, FfiAny* args, int count, FfiAny* out);

#endif /* TVMRT_PLUGINS_TVM_FFI_LIBRARY_H_ */

/*! \file library.h
 *  \brief Finding libtvm_ffi, which another package has loaded. */
#ifndef TVMRT_PYTHON_SRC_FFI_BRIDGE_LIBRARY_H_
#define TVMRT_PYTHON_SRC_FFI_BRIDGE_LIBRARY_H_

#include "abi.h"

/*!
 * \brief Find the functions of libtvm_ffi and check its version.
 *
 * \param path [in] File of the library.
 * \param version [out] Its version.
 *
 * Errors:  -1: no such library, a function is missing, a version that is not known here. The bridge
 *          then stays as it was.
 * Threads: one at a time, before anything else of the bridge is used.
 */
int bridge_open(const char* path, FfiVersion* version);

#endif /* TVMRT_PYTHON_SRC_FFI_BRIDGE_LIBRARY_H_ */

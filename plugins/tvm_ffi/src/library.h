/*! \file library.h
 *  \brief Finding libtvm_ffi, which another package has loaded. */
#ifndef TVMRT_PLUGINS_TVM_FFI_LIBRARY_H_
#define TVMRT_PLUGINS_TVM_FFI_LIBRARY_H_

#include "abi.h"

/*!
 * \brief Find the functions of libtvm_ffi and check its version.
 *
 * \param path [in] File of the library.
 * \param version [out] Its version.
 *
 * Errors:  -1: no such library, a function is missing, a version that is not known here. The bridge
 *          then stays as it was.
 */
int bridge_open(const char* path, FfiVersion* version);
/*! \brief Use the libtvm_ffi that the process has by now, if it has one; whether it is used. */
int bridge_join_loaded(void);
/*! \brief A symbol of the libtvm_ffi that the process has by now; NULL if it has none. */
void* bridge_loaded_symbol(const char* name);

#endif /* TVMRT_PLUGINS_TVM_FFI_LIBRARY_H_ */

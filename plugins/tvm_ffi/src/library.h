/*! \file library.h
 * \brief Finds libtvm_ffi, which another package has loaded. */
#ifndef TVMRT_PLUGINS_TVM_FFI_LIBRARY_H_
#define TVMRT_PLUGINS_TVM_FFI_LIBRARY_H_

#include "abi.h"

/*!
 * \brief Find the functions of libtvm_ffi and check its version.
 *
 * \param path [in] File of the library.
 * \param version [out] Its version.
 *
 * Errors:  -1: the library or a function is missing, or the version is unknown. The bridge then
 * stays unchanged.
 */
int bridge_open(const char* path, FfiVersion* version);
/*! \brief Use a libtvm_ffi that the process has loaded, if any; return whether it is used. */
int bridge_join_loaded(void);
/*! \brief A symbol of the loaded libtvm_ffi; NULL if none is loaded. */
void* bridge_loaded_symbol(const char* name);

#endif /* TVMRT_PLUGINS_TVM_FFI_LIBRARY_H_ */

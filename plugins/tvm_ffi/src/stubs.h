/*! \file stubs.h
 * \brief Stubs for libtvm_ffi, used by the bridge and by libraries if the process has none. */
#ifndef TVMRT_PLUGINS_TVM_FFI_STUBS_H_
#define TVMRT_PLUGINS_TVM_FFI_STUBS_H_

#include "abi.h"

/*! \brief The functions of FfiApi, without libtvm_ffi. */
extern const FfiApi stub_api;

/*!
 * \brief Index of a type by its key, which is registered if it is new.
 *
 * \param fixed [in] Its index if it is predefined, otherwise -1.
 */
int32_t stub_type_index(const TVMByteArray* key, int32_t fixed, int32_t parent);
/*! \brief Description of a type; NULL if the index is unknown. */
const FfiTypeInfoHead* stub_type_info(int32_t type_index);

#endif /* TVMRT_PLUGINS_TVM_FFI_STUBS_H_ */

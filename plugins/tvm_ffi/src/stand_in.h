/*! \file stand_in.h
 *  \brief What libtvm_ffi does for the bridge and for libraries, where a process has none. */
#ifndef TVMRT_PLUGINS_TVM_FFI_STAND_IN_H_
#define TVMRT_PLUGINS_TVM_FFI_STAND_IN_H_

#include "abi.h"

/*! \brief The functions of FfiApi, without libtvm_ffi. */
extern const FfiApi stand_in_api;

/*!
 * \brief The index of a type by its key, which is entered where it is new.
 *
 * \param fixed [in] Its index if that is not chosen here, else -1.
 */
int32_t stand_in_type_index(const TVMByteArray* key, int32_t fixed, int32_t parent);
/*! \brief The description of a type; NULL if there is none of this index. */
const FfiTypeInfoHead* stand_in_type_info(int32_t type_index);

#endif /* TVMRT_PLUGINS_TVM_FFI_STAND_IN_H_ */

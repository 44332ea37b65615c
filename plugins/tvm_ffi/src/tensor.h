/*! \file tensor.h
 *  \brief Tensors and element types, both ways; the memory is shared by DLPack. */
#ifndef TVMRT_PLUGINS_TVM_FFI_TENSOR_H_
#define TVMRT_PLUGINS_TVM_FFI_TENSOR_H_

#include "abi.h"
#include "owned.h"

/*! \brief An element type of the other side as the classic ABI numbers it; -1 if it has no such. */
int bridge_dtype_to_classic(DLDataType dtype, DLDataType* out);
/*! \brief The opposite; every classic type has a counterpart. */
DLDataType bridge_dtype_to_ffi(DLDataType dtype);
/*! \brief A Tensor that shares the memory of an NDArray; *out is owned. */
int bridge_tensor_to_ffi(TVMArrayHandle array, FfiObject** out);
/*!
 * \brief A Tensor that shows the memory of a DLTensor for the time of a call.
 *
 * *owned ends that time. A callee that has kept the Tensor then has one without elements.
 */
int bridge_lend_to_ffi(const DLTensor* tensor, FfiObject** out, Owned* owned);
/*! \brief Whether the elements of a tensor start in the memory of another one. */
int bridge_lies_within(const DLTensor* tensor, const DLTensor* whole);
/*!
 * \brief An NDArray that shares the memory of a Tensor; *out is owned.
 *
 * *out is NULL, with result 0, if its memory is less aligned than an NDArray's has to be.
 */
int bridge_tensor_to_classic(FfiObject* tensor, TVMArrayHandle* out);
/*! \brief A compact view of a DLTensor as the classic ABI describes it; free() it. */
int bridge_view_to_classic(const DLTensor* tensor, DLTensor** out);
/*! \brief An NDArray with a copy of the elements; *out is owned. */
int bridge_copy_to_classic(const DLTensor* view, TVMArrayHandle* out);

#endif /* TVMRT_PLUGINS_TVM_FFI_TENSOR_H_ */

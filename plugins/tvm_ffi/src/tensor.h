/*! \file tensor.h
 * \brief Conversion of tensors and element types; memory is shared through DLPack. */
#ifndef TVMRT_PLUGINS_TVM_FFI_TENSOR_H_
#define TVMRT_PLUGINS_TVM_FFI_TENSOR_H_

#include "abi.h"

/*! \brief Convert a tvm-ffi element type to a classic one; -1 if there is none. */
int bridge_dtype_to_classic(DLDataType dtype, DLDataType* out);
/*! \brief Convert a classic element type; every one has a counterpart. */
DLDataType bridge_dtype_to_ffi(DLDataType dtype);
/*! \brief Make a Tensor that shares the memory of an NDArray; *out is owned. */
int bridge_tensor_to_ffi(TVMArrayHandle array, FfiObject** out);
/*!
 * \brief Make a Tensor over a DLTensor's memory for the duration of a call.
 *
 * *owned ends the loan. A Tensor kept by the callee then has no elements.
 */
int bridge_borrow_to_ffi(const DLTensor* tensor, FfiObject** out, Owned* owned);
/*! \brief Whether a tensor's elements start in the memory of another tensor. */
int bridge_lies_within(const DLTensor* tensor, const DLTensor* container);
/*!
 * \brief Make an NDArray that shares the memory of a Tensor; *out is owned.
 *
 * *out is NULL, with result 0, if the memory is less aligned than an NDArray requires.
 */
int bridge_tensor_to_classic(FfiObject* tensor, TVMArrayHandle* out);
/*! \brief Make a compact view of a DLTensor with a classic element type; free() it. */
int bridge_view_to_classic(const DLTensor* tensor, DLTensor** out);
/*! \brief Make an NDArray with a copy of the elements; *out is owned. */
int bridge_copy_to_classic(const DLTensor* view, TVMArrayHandle* out);

#endif /* TVMRT_PLUGINS_TVM_FFI_TENSOR_H_ */

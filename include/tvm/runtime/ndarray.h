/*!
 * \file tvm/runtime/ndarray.h
 * \brief C++: tensors that the runtime owns. Includes cxx_ndarray.h and the functions for views.
 *
 * Header only, C++11 to C++20. Errors are exceptions (logging.h).
 */
#ifndef TVM_RUNTIME_NDARRAY_H_
#define TVM_RUNTIME_NDARRAY_H_

#include <tvm/runtime/cxx_ndarray.h>
#include <tvm/runtime/packed_func.h>

#endif /* TVM_RUNTIME_NDARRAY_H_ */

/*!
 * \file tvm/runtime/container/array.h
 * \brief C++: TVM's name of tvm/runtime/cxx_array.h.
 */
#ifndef TVM_RUNTIME_CONTAINER_ARRAY_H_
#define TVM_RUNTIME_CONTAINER_ARRAY_H_

#include <tvm/runtime/cxx_array.h>

#endif /* TVM_RUNTIME_CONTAINER_ARRAY_H_ */

/*!
 * \file tvm/runtime/container/array.h
 * \brief C++: tvm/runtime/cxx_array.h, by the name that TVM's programs use.
 */
#ifndef TVM_RUNTIME_CONTAINER_ARRAY_H_
#define TVM_RUNTIME_CONTAINER_ARRAY_H_

#include <tvm/runtime/cxx_array.h>

#endif /* TVM_RUNTIME_CONTAINER_ARRAY_H_ */

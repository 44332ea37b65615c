/*!
 * \file tvm/runtime/container/shape_tuple.h
 * \brief C++: TVM's name of tvm/runtime/cxx_shape_tuple.h.
 */
#ifndef TVM_RUNTIME_CONTAINER_SHAPE_TUPLE_H_
#define TVM_RUNTIME_CONTAINER_SHAPE_TUPLE_H_

#include <tvm/runtime/cxx_shape_tuple.h>

#endif /* TVM_RUNTIME_CONTAINER_SHAPE_TUPLE_H_ */

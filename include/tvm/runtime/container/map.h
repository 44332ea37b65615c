/*!
 * \file tvm/runtime/container/map.h
 * \brief C++: TVM's name of tvm/runtime/cxx_map.h.
 */
#ifndef TVM_RUNTIME_CONTAINER_MAP_H_
#define TVM_RUNTIME_CONTAINER_MAP_H_

#include <tvm/runtime/cxx_map.h>

#endif /* TVM_RUNTIME_CONTAINER_MAP_H_ */

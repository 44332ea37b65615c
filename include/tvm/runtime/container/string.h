/*!
 * \file tvm/runtime/container/string.h
 * \brief C++: TVM's name of tvm/runtime/cxx_string.h.
 */
#ifndef TVM_RUNTIME_CONTAINER_STRING_H_
#define TVM_RUNTIME_CONTAINER_STRING_H_

#include <tvm/runtime/cxx_string.h>

#endif /* TVM_RUNTIME_CONTAINER_STRING_H_ */

/*!
 * \file tvm/runtime/container/string.h
 * \brief C++: tvm/runtime/cxx_string.h, by the name that TVM's programs use.
 */
#ifndef TVM_RUNTIME_CONTAINER_STRING_H_
#define TVM_RUNTIME_CONTAINER_STRING_H_

#include <tvm/runtime/cxx_string.h>

#endif /* TVM_RUNTIME_CONTAINER_STRING_H_ */

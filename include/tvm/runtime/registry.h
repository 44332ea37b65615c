/*!
 * \file tvm/runtime/registry.h
 * \brief C++: the global registry of functions. Includes cxx_registry.h and packed functions.
 *
 * Header only, C++11 to C++20. Errors are exceptions (logging.h).
 */
#ifndef TVM_RUNTIME_REGISTRY_H_
#define TVM_RUNTIME_REGISTRY_H_

#include <tvm/runtime/cxx_registry.h>
#include <tvm/runtime/packed_func.h>

#endif /* TVM_RUNTIME_REGISTRY_H_ */

/*!
 * \file tvm/runtime/module.h
 * \brief C++: loaded libraries and their functions. Includes packed functions.
 *
 * Header only, C++11 to C++20. Errors are exceptions (logging.h).
 */
#ifndef TVM_RUNTIME_MODULE_H_
#define TVM_RUNTIME_MODULE_H_

#include <tvm/runtime/cxx_metadata.h>
#include <tvm/runtime/cxx_module.h>
#include <tvm/runtime/packed_func.h>

#endif /* TVM_RUNTIME_MODULE_H_ */

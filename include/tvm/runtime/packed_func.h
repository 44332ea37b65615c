/*!
 * \file tvm/runtime/packed_func.h
 * \brief C++: packed functions, their arguments and results, with tensors, modules, the registry
 * and containers.
 *
 * Header only, C++11 to C++20. Errors are exceptions (logging.h).
 *
 * Order of inclusion: cxx_ndarray.h and cxx_module.h (classes), cxx_packed_func.h, convert.h,
 * typed_packed_func.h, cxx_registry.h, cxx_array.h, cxx_map.h.
 */
#ifndef TVM_RUNTIME_PACKED_FUNC_H_
#define TVM_RUNTIME_PACKED_FUNC_H_

#include <tvm/runtime/cxx_map.h>

#endif /* TVM_RUNTIME_PACKED_FUNC_H_ */

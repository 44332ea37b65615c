/*!
 * \file tvm/runtime/crt/error_codes.h
 * \brief Error codes of the firmware library: tvm/runtime/error_codes.h.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_CRT_ERROR_CODES_H_
#define TVM_RUNTIME_CRT_ERROR_CODES_H_

#include <tvm/runtime/error_codes.h>

#endif /* TVM_RUNTIME_CRT_ERROR_CODES_H_ */

/*!
 * \file stdint.h
 * \brief Integer types, for a compiler on a machine without the headers of a C library.
 *
 * The headers of this folder declare what generated C and the kernels' headers use, and no more.
 */
#ifndef TVMRT_LIBC_STDINT_H_
#define TVMRT_LIBC_STDINT_H_

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
#if defined(_WIN32)
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef long long intptr_t;
typedef unsigned long long uintptr_t;
#define INT64_C(value) value##LL
#define UINT64_C(value) value##ULL
#else
typedef long int64_t;
typedef unsigned long uint64_t;
typedef long intptr_t;
typedef unsigned long uintptr_t;
#define INT64_C(value) value##L
#define UINT64_C(value) value##UL
#endif

#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT16_MIN (-32768)
#define INT16_MAX 32767
#define UINT16_MAX 65535
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295U
#define INT64_MIN (-INT64_C(9223372036854775807) - 1)
#define INT64_MAX INT64_C(9223372036854775807)
#define UINT64_MAX UINT64_C(18446744073709551615)
#define SIZE_MAX UINT64_MAX

#endif /* TVMRT_LIBC_STDINT_H_ */

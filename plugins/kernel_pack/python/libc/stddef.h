/*!
 * \file stddef.h
 * \brief Sizes and offsets; see stdint.h.
 */
#ifndef TVMRT_LIBC_STDDEF_H_
#define TVMRT_LIBC_STDDEF_H_

#if defined(_WIN32)
typedef unsigned long long size_t;
typedef long long ptrdiff_t;
#else
typedef unsigned long size_t;
typedef long ptrdiff_t;
#endif
#define NULL ((void*)0)
#define offsetof(type, member) ((size_t) & ((type*)0)->member)

#endif /* TVMRT_LIBC_STDDEF_H_ */

/*!
 * \file inttypes.h
 * \brief Formats of 64-bit integers; see stdint.h.
 */
#ifndef TVMRT_LIBC_INTTYPES_H_
#define TVMRT_LIBC_INTTYPES_H_

#include <stdint.h>

#if defined(_WIN32)
#define PRId64 "lld"
#define PRIu64 "llu"
#else
#define PRId64 "ld"
#define PRIu64 "lu"
#endif

#endif /* TVMRT_LIBC_INTTYPES_H_ */

/*!
 * \file stdbool.h
 * \brief Truth values; see stdint.h.
 */
#ifndef TVMRT_LIBC_STDBOOL_H_
#define TVMRT_LIBC_STDBOOL_H_

#define bool _Bool
#define true 1
#define false 0

#endif /* TVMRT_LIBC_STDBOOL_H_ */

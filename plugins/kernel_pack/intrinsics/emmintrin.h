/*!
 * \file emmintrin.h
 * \brief See immintrin.h.
 */
#ifndef TVMRT_INTRINSICS_EMMINTRIN_H_
#define TVMRT_INTRINSICS_EMMINTRIN_H_

#include "immintrin.h"

#endif /* TVMRT_INTRINSICS_EMMINTRIN_H_ */

/*!
 * \file smmintrin.h
 * \brief See immintrin.h.
 */
#ifndef TVMRT_INTRINSICS_SMMINTRIN_H_
#define TVMRT_INTRINSICS_SMMINTRIN_H_

#include "immintrin.h"

#endif /* TVMRT_INTRINSICS_SMMINTRIN_H_ */

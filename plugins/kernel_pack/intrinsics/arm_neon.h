/*!
 * \file arm_neon.h
 * \brief See immintrin.h.
 */
#ifndef TVMRT_INTRINSICS_ARM_NEON_H_
#define TVMRT_INTRINSICS_ARM_NEON_H_

typedef int int8x8_t, int8x16_t, int16x8_t, int16x4x2_t, int32x4_t;
typedef int uint8x16_t, uint8x16x4_t, uint16x8_t, uint32x4_t, uint32x4x2_t;
typedef float float32x4_t;

#endif /* TVMRT_INTRINSICS_ARM_NEON_H_ */

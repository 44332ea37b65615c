/*!
 * \file tile/amx.h
 * \brief The registers of AMX: eight of up to 16 rows of 64 bytes.
 *
 * Their numbers, for pixels from 0 and from 16 on; what the kernels multiply lies in words of 32 bits,
 * pairs of bfloat16 or four bytes:
 *
 *                   channels 0 to 15   16 to 31
 *   weights                6              7
 *   pixels 0    4          0              1
 *   pixels 16   5          2              3
 *
 * The process needs the system's permission, for which levels.h asks.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_AMX_H_
#define TVM_RUNTIME_KERNELS_TILE_AMX_H_

#include <immintrin.h>
#include <stdint.h>

enum { TVMRT_AMX_ROWS = 16, TVMRT_AMX_BYTES = 64 };

/*! \brief What LDTILECFG reads. */
typedef struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} tvmrt_amx_config;

/*! \brief Registers for so many pixels from 0 and from 16 on, and words of each. */
static inline void tvmrt_amx_configure(int first, int more, int words) {
  const uint8_t a = (uint8_t)first, b = (uint8_t)more, k = (uint8_t)words;
  const uint16_t x = (uint16_t)(words * 4);
  const tvmrt_amx_config config = {
      1, 0, {0}, {64, 64, 64, 64, x, x, 64, 64}, {a, a, b, b, a, b, k, k}};
  /* GCC's intrinsics do not say that they read memory */
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

/*! \brief Registers 0 to 3 of so many rows, 4 to 7 of 16, all of 16 words. */
static inline void tvmrt_amx_configure_singles(int rows) {
  const uint8_t a = (uint8_t)rows;
  const tvmrt_amx_config config = {
      1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {a, a, a, a, 16, 16, 16, 16}};
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

#endif /* TVM_RUNTIME_KERNELS_TILE_AMX_H_ */

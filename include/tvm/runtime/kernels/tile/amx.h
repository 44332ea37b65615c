/*!
 * \file tile/amx.h
 * \brief AMX tile registers: eight of up to 16 rows of 64 bytes.
 *
 * Register numbers, for pixels from 0 and from 16 on. The operands are 32-bit words: pairs of
 * bfloat16 or four bytes.
 *
 *                   channels 0 to 15   16 to 31
 *   weights                6              7
 *   pixels 0    4          0              1
 *   pixels 16   5          2              3
 *
 * The process needs the system's permission, which cpu_dispatch.h requests.
 *
 * Before: the compiler's __x86_64__.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_AMX_H_
#define TVM_RUNTIME_KERNELS_TILE_AMX_H_

#if !defined(__x86_64__)
#error "tile/amx.h has instructions of x86-64: compile for __x86_64__"
#else

#include <immintrin.h>
#include <stdint.h>

enum { TVMRT_AMX_ROWS = 16, TVMRT_AMX_BYTES = 64 };

/*! \brief Operand of LDTILECFG. */
typedef struct tvmrt_amx_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} tvmrt_amx_config;

/*! \brief Configure the rows of the registers 0 and 1, of 2 and 3, of 4, and of 5. `words` is the
 * rows of 6 and 7 and the words of 4 and 5; the others have 16 words. */
static inline void tvmrt_amx_configure(int first, int more, int four, int five, int words) {
  const uint8_t a = (uint8_t)first, b = (uint8_t)more, k = (uint8_t)words;
  const uint16_t x = (uint16_t)(words * 4);
  const tvmrt_amx_config config = {
      1, 0, {0}, {64, 64, 64, 64, x, x, 64, 64}, {a, a, b, b, (uint8_t)four, (uint8_t)five, k, k}};
  /* GCC's intrinsics do not declare that they read memory */
  __asm__ volatile("" : : "r"(&config) : "memory");
  _tile_loadconfig(&config);
}

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_AMX_H_ */

/* A model of the AMX registers in C, after the pseudo-code of Intel's manual: included before a
 * kernel's source, it replaces the compiler's intrinsics. Operations that the processor would reject
 * end the program. */
#ifndef AMX_MODEL_H_
#define AMX_MODEL_H_
#ifndef __ASSEMBLER__

#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} amx_model_config;

typedef struct {
  int is_ready;
  amx_model_config config;
  union {
    uint8_t bytes[16][64];
    uint16_t halves[16][32];
    float floats[16][16];
    int32_t ints[16][16];
  } tile[8];
} amx_model_state;

static __thread amx_model_state amx_model;

static inline void amx_model_check(int number) {
  if (!amx_model.is_ready || number < 0 || number > 7) abort();
}

static inline void amx_model_configure(const void* config) {
  memset(&amx_model, 0, sizeof(amx_model));
  memcpy(&amx_model.config, config, sizeof(amx_model.config));
  if (amx_model.config.palette != 1 || amx_model.config.start_row != 0) abort();
  for (int i = 0; i < 16; i++) {
    const int bytes = amx_model.config.bytes[i], rows = amx_model.config.rows[i];
    if (i < 8 ? bytes > 64 || rows > 16 : bytes != 0 || rows != 0) abort();
    if (i < 14 && amx_model.config.reserved[i] != 0) abort();
  }
  amx_model.is_ready = 1;
}

static inline void amx_model_load(int number, const void* base, intptr_t stride) {
  amx_model_check(number);
  memset(&amx_model.tile[number], 0, sizeof(amx_model.tile[number]));
  for (int i = 0; i < amx_model.config.rows[number]; i++) {
    memcpy(amx_model.tile[number].bytes[i], (const uint8_t*)base + i * stride,
           amx_model.config.bytes[number]);
  }
}

static inline void amx_model_store(int number, void* base, intptr_t stride) {
  amx_model_check(number);
  for (int i = 0; i < amx_model.config.rows[number]; i++) {
    memcpy((uint8_t*)base + i * stride, amx_model.tile[number].bytes[i],
           amx_model.config.bytes[number]);
  }
}

static inline void amx_model_zero(int number) {
  amx_model_check(number);
  memset(&amx_model.tile[number], 0, sizeof(amx_model.tile[number]));
}

/* Subnormal operands and results are flushed to zero. */
static inline float amx_model_flushed(float value) {
  return value < 1.17549435e-38f && value > -1.17549435e-38f ? 0.0f : value;
}

static inline float amx_model_half(int number, int row, int column) {
  const uint32_t bits = (uint32_t)amx_model.tile[number].halves[row][column] << 16;
  float value;
  memcpy(&value, &bits, sizeof(value));
  return amx_model_flushed(value);
}

/* Checks the register shapes of a dot product; returns the words of a row of `a`. */
static inline int amx_model_words(int c, int a, int b) {
  amx_model_check(c), amx_model_check(a), amx_model_check(b);
  const amx_model_config* config = &amx_model.config;
  const int words = config->bytes[a] / 4;
  if (c == a || c == b || a == b || config->bytes[a] % 4 != 0 || config->bytes[c] % 4 != 0 ||
      config->rows[a] != config->rows[c] || config->rows[b] != words ||
      config->bytes[b] != config->bytes[c]) {
    abort();
  }
  return words;
}

/* TDPBF16PS: even and odd elements have separate accumulators. */
static inline void amx_model_dot(int c, int a, int b) {
  const int pairs = amx_model_words(c, a, b);
  const amx_model_config* config = &amx_model.config;
  const int columns = config->bytes[c] / 4;
  for (int m = 0; m < config->rows[c]; m++) {
    float sums[16][2] = {{0}};
    for (int k = 0; k < pairs; k++) {
      for (int n = 0; n < columns; n++) {
        for (int i = 0; i < 2; i++) {
          const float x = amx_model_half(a, m, 2 * k + i), w = amx_model_half(b, k, 2 * n + i);
          sums[n][i] = amx_model_flushed(__builtin_fmaf(x, w, sums[n][i]));
        }
      }
    }
    for (int n = 0; n < columns; n++) {
      float* sum = &amx_model.tile[c].floats[m][n];
      *sum =
          amx_model_flushed(amx_model_flushed(*sum) + amx_model_flushed(sums[n][0] + sums[n][1]));
    }
  }
}

/* TDPBUSD and TDPBSSD: dot products of four elements, with wrap-around. */
static inline void amx_model_dot_bytes(int c, int a, int b, int is_signed) {
  const int words = amx_model_words(c, a, b), columns = amx_model.config.bytes[c] / 4;
  for (int m = 0; m < amx_model.config.rows[c]; m++) {
    for (int n = 0; n < columns; n++) {
      uint32_t sum = (uint32_t)amx_model.tile[c].ints[m][n];
      for (int k = 0; k < 4 * words; k++) {
        const uint8_t byte = amx_model.tile[a].bytes[m][k];
        const int x = is_signed ? (int8_t)byte : byte;
        sum += (uint32_t)(x * (int8_t)amx_model.tile[b].bytes[k / 4][4 * n + k % 4]);
      }
      amx_model.tile[c].ints[m][n] = (int32_t)sum;
    }
  }
}

#undef _tile_loadd
#undef _tile_stream_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#undef _tile_dpbusd
#undef _tile_dpbssd
#define _tile_loadconfig amx_model_configure
#define _tile_release() (void)(amx_model.is_ready = 0)
#define _tile_loadd amx_model_load
#define _tile_stored amx_model_store
#define _tile_zero amx_model_zero
#define _tile_stream_loadd amx_model_load
#define _tile_dpbf16ps amx_model_dot
#define _tile_dpbusd(c, a, b) amx_model_dot_bytes(c, a, b, 0)
#define _tile_dpbssd(c, a, b) amx_model_dot_bytes(c, a, b, 1)

#endif
#endif

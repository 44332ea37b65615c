/*!
 * \file random.h
 * \brief Counter-based random numbers; the only state is the number of runs.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror and Shaw, 2011) makes four words from a key and a counter.
 * The key is the seed and a stream; the counter is the index of the block of elements and the run.
 * So an element depends on these four numbers alone, not on threads or other elements.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_RANDOM_H_
#define TVM_RUNTIME_KERNELS_OP_RANDOM_H_

#include <math.h>
#include <stdint.h>

#include "../scalar/math.h"

/*! \brief Parameters of a random sequence. */
typedef struct tvmrt_random {
  uint32_t seed, stream;
  uint32_t run; /*!< Part of the sequence; differs for each run. */
} tvmrt_random;

/*!
 * \brief Return the number of this run, counted from 0 in *runs, which is initially zero.
 *
 * On hosts several threads may count concurrently; each gets a unique number.
 */
static inline uint32_t tvmrt_random_run(uint32_t* runs) {
#if defined(__GNUC__) && !defined(TVMRT_FREESTANDING)
  return __atomic_fetch_add(runs, 1, __ATOMIC_RELAXED);
#else
  return (*runs)++;
#endif
}

/*! \brief Philox4x32-10: replaces the counter in words by its random words under this key. */
static inline void tvmrt_philox(uint32_t words[4], uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; round++) {
    const uint64_t a = (uint64_t)0xd2511f53u * words[0], b = (uint64_t)0xcd9e8d57u * words[2];
    words[0] = (uint32_t)(b >> 32) ^ words[1] ^ key0;
    words[1] = (uint32_t)b;
    words[2] = (uint32_t)(a >> 32) ^ words[3] ^ key1;
    words[3] = (uint32_t)a;
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
}

/* The words of a block of elements. */
static inline void tvmrt_random_block(const tvmrt_random* from, int64_t block, uint32_t words[4]) {
  words[0] = (uint32_t)block;
  words[1] = (uint32_t)((uint64_t)block >> 32);
  words[2] = from->run;
  words[3] = 0u;
  tvmrt_philox(words, from->seed, from->stream);
}

/* 53 bits of two words, as a multiple of 2^-53 below 1. */
static inline double tvmrt_random_f64(uint32_t high, uint32_t low) {
  const uint64_t bits = ((uint64_t)high << 32 | low) >> 11;
  return (double)bits * 1.1102230246251565e-16;
}

/* Four floats in [0, 1), multiples of 2^-24. */
static inline void tvmrt_unit_float32(const uint32_t words[4], float y[4]) {
  for (int i = 0; i < 4; i++) y[i] = (float)(words[i] >> 8) * 5.9604644775390625e-8f;
}

/* Two doubles in [0, 1), multiples of 2^-53. */
static inline void tvmrt_unit_float64(const uint32_t words[4], double y[2]) {
  y[0] = tvmrt_random_f64(words[0], words[1]);
  y[1] = tvmrt_random_f64(words[2], words[3]);
}

/* Four floats of the standard normal distribution, by Box and Muller; at most 6.8. */
static inline void tvmrt_bell_float32(const uint32_t words[4], float y[4]) {
  for (int i = 0; i < 4; i += 2) {
    const float u = (float)words[i] * 2.3283064365386963e-10f + 1.1641532182693481e-10f;
    const float size = sqrtf(-2.0f * tvmrt_log_f32(u > 1.0f ? 1.0f : u));
    const float angle = (float)(words[i + 1] >> 8) * 3.7450702944e-7f; /* 2 pi / 2^24 */
    y[i] = size * tvmrt_cos_f32(angle);
    y[i + 1] = size * tvmrt_sin_f32(angle);
  }
}

/* Two doubles of the standard normal distribution; at most 8.6. */
static inline void tvmrt_bell_float64(const uint32_t words[4], double y[2]) {
  const double u = 1.0 - tvmrt_random_f64(words[0], words[1]);
  const double size = sqrt(-2.0 * log(u));
  const double angle = 6.283185307179586 * tvmrt_random_f64(words[2], words[3]);
  y[0] = size * cos(angle);
  y[1] = size * sin(angle);
}

/* tvmrt_uniform_TYPE(from, low, high, count, y): count values in [low, high), low if both are
 * equal; tvmrt_normal_TYPE(from, mean, scale, count, y): values with that mean and standard
 * deviation. */
#define TVMRT_DEFINE_RANDOM(NAME, TYPE, EACH)                                             \
  static inline void tvmrt_uniform_##NAME(const tvmrt_random* from, TYPE low, TYPE high,  \
                                          int64_t count, TYPE* y) {                       \
    for (int64_t i = 0; i < count; i += EACH) {                                           \
      uint32_t words[4];                                                                  \
      TYPE some[EACH];                                                                    \
      tvmrt_random_block(from, i / EACH, words);                                          \
      tvmrt_unit_##NAME(words, some);                                                     \
      for (int j = 0; j < EACH && i + j < count; j++) {                                   \
        const TYPE z = low + (high - low) * some[j];                                      \
        y[i + j] = z < high ? z : low; /* rounding may have reached high */               \
      }                                                                                   \
    }                                                                                     \
  }                                                                                       \
  static inline void tvmrt_normal_##NAME(const tvmrt_random* from, TYPE mean, TYPE scale, \
                                         int64_t count, TYPE* y) {                        \
    for (int64_t i = 0; i < count; i += EACH) {                                           \
      uint32_t words[4];                                                                  \
      TYPE some[EACH];                                                                    \
      tvmrt_random_block(from, i / EACH, words);                                          \
      tvmrt_bell_##NAME(words, some);                                                     \
      for (int j = 0; j < EACH && i + j < count; j++) y[i + j] = mean + scale * some[j];  \
    }                                                                                     \
  }

TVMRT_DEFINE_RANDOM(float32, float, 4)
TVMRT_DEFINE_RANDOM(float64, double, 2)

#endif /* TVM_RUNTIME_KERNELS_OP_RANDOM_H_ */

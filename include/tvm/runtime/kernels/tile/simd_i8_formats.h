/*!
 * \file tile/simd_i8_formats.h
 * \brief The formats that a processor supports, and the operations of the chosen one; a part of
 * tile/simd_i8.h.
 *
 * Before: tile/simd_i8.h, which defines the names of the formats and includes this file.
 */
#ifndef TVM_RUNTIME_KERNELS_TILE_SIMD_I8_FORMATS_H_
#define TVM_RUNTIME_KERNELS_TILE_SIMD_I8_FORMATS_H_

#if !defined(TVMRT_I8_PLAIN)
#error \
    "tile/simd_i8_formats.h is a part of tile/simd_i8.h, which defines TVMRT_I8_PLAIN: include that"
#else

#include "intrinsics.h"

#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define TVMRT_I8_CAN_VNNI 1
#else
#define TVMRT_I8_CAN_VNNI 0
#endif
/* four-byte dot products in 256 bits, as encoded by AVX-VNNI or AVX-512 VNNI */
#if defined(__AVX2__) && \
    (defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__)))
#define TVMRT_I8_CAN_AVX_VNNI 1
#else
#define TVMRT_I8_CAN_AVX_VNNI 0
#endif
#if defined(__AVX2__)
#define TVMRT_I8_CAN_AVX2 1
#else
#define TVMRT_I8_CAN_AVX2 0
#endif
#if defined(__SSE4_1__)
#define TVMRT_I8_CAN_SSE41 1
#else
#define TVMRT_I8_CAN_SSE41 0
#endif
#if defined(__aarch64__) && defined(__ARM_NEON)
#define TVMRT_I8_CAN_NEON 1
#else
#define TVMRT_I8_CAN_NEON 0
#endif
#if TVMRT_I8_CAN_NEON && defined(__ARM_FEATURE_DOTPROD)
#define TVMRT_I8_CAN_NEON_DOT 1
#else
#define TVMRT_I8_CAN_NEON_DOT 0
#endif
#if TVMRT_I8_CAN_NEON_DOT && defined(__ARM_FEATURE_MATMUL_INT8)
#define TVMRT_I8_CAN_NEON_I8MM 1
#else
#define TVMRT_I8_CAN_NEON_I8MM 0
#endif

#if defined(__arm__) && defined(__ARM_NEON)
#define TVMRT_I8_CAN_NEON32 1
#else
#define TVMRT_I8_CAN_NEON32 0
#endif

#if defined(__riscv_v)
#define TVMRT_I8_CAN_RVV 1
#else
#define TVMRT_I8_CAN_RVV 0
#endif

#if defined(__wasm_simd128__)
#define TVMRT_I8_CAN_WASM 1
#else
#define TVMRT_I8_CAN_WASM 0
#endif

#ifndef TVMRT_I8_FORMAT
#if TVMRT_I8_CAN_VNNI
#define TVMRT_I8_FORMAT TVMRT_I8_X86_VNNI
#elif TVMRT_I8_CAN_AVX_VNNI
#define TVMRT_I8_FORMAT TVMRT_I8_X86_AVX_VNNI
#elif TVMRT_I8_CAN_AVX2
#define TVMRT_I8_FORMAT TVMRT_I8_X86_AVX2
#elif TVMRT_I8_CAN_NEON_I8MM
#define TVMRT_I8_FORMAT TVMRT_I8_NEON_I8MM
#elif TVMRT_I8_CAN_NEON_DOT
#define TVMRT_I8_FORMAT TVMRT_I8_NEON_DOT
#elif TVMRT_I8_CAN_NEON
#define TVMRT_I8_FORMAT TVMRT_I8_NEON
#elif TVMRT_I8_CAN_NEON32
#define TVMRT_I8_FORMAT TVMRT_I8_NEON32
#elif TVMRT_I8_CAN_RVV
#define TVMRT_I8_FORMAT TVMRT_I8_RVV
#elif TVMRT_I8_CAN_WASM
#define TVMRT_I8_FORMAT TVMRT_I8_WASM
#else
#define TVMRT_I8_FORMAT TVMRT_I8_PLAIN
#endif
#endif

#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI && !TVMRT_I8_CAN_VNNI
#error "The weights are packed for AVX-512 VNNI: compile with -march of such a processor."
#elif TVMRT_I8_FORMAT == TVMRT_I8_X86_AVX_VNNI && !TVMRT_I8_CAN_AVX_VNNI
#error "The weights are packed for AVX-VNNI: compile with -mavxvnni or pack for another target."
#elif TVMRT_I8_FORMAT == TVMRT_I8_X86_AVX2 && !TVMRT_I8_CAN_AVX2
#error "The weights are packed for AVX2: compile with -mavx2 or pack for another target."
#elif TVMRT_I8_FORMAT == TVMRT_I8_X86_SSE41 && !TVMRT_I8_CAN_SSE41
#error "The weights are packed for SSE4.1: compile with -msse4.1 or pack for another target."
#elif TVMRT_I8_FORMAT == TVMRT_I8_NEON && !TVMRT_I8_CAN_NEON
#error "The weights are packed for NEON: compile for AArch64 or pack for another target."
#elif TVMRT_I8_FORMAT == TVMRT_I8_NEON_DOT && !TVMRT_I8_CAN_NEON_DOT
#error "The weights are packed for NEON dot products: compile with +dotprod."
#elif TVMRT_I8_FORMAT == TVMRT_I8_NEON_I8MM && !TVMRT_I8_CAN_NEON_I8MM
#error "The weights are packed for NEON matrix products: compile with +dotprod+i8mm."
#elif TVMRT_I8_FORMAT == TVMRT_I8_NEON32 && !TVMRT_I8_CAN_NEON32
#error "The weights are packed for NEON of 32-bit ARM: compile with -march=armv7-a+simd."
#elif TVMRT_I8_FORMAT == TVMRT_I8_RVV && !TVMRT_I8_CAN_RVV
#error "The weights are packed for RISC-V's vectors: compile with -march=rv64gcv."
#elif TVMRT_I8_FORMAT == TVMRT_I8_WASM && !TVMRT_I8_CAN_WASM
#error "The weights are packed for WebAssembly's vectors: compile with -msimd128."
#endif

/* Quads as bytes 0 and 2, and bytes 1 and 3, widened to 16 bits; MADD multiplies vectors of them and
 * adds pairs of products. tvmrt_i8_bytes_load() reads weights as int8 [lane][4]. */
#define TVMRT_DEFINE_I8_EVEN_ODD(MADD)                                                            \
  typedef int16_t tvmrt_i8_shorts __attribute__((vector_size(sizeof(tvmrt_i8_acc))));             \
  typedef uint16_t tvmrt_i8_words __attribute__((vector_size(sizeof(tvmrt_i8_acc))));             \
  typedef struct tvmrt_i8_quad {                                                                  \
    tvmrt_i8_acc even, odd;                                                                       \
  } tvmrt_i8_quad;                                                                                \
  typedef tvmrt_i8_quad tvmrt_i8_weights;                                                         \
  TVMRT_INLINE tvmrt_i8_quad tvmrt_i8_quad_load(const uint8_t* p, int is_signed) {                \
    const tvmrt_i8_words x = (tvmrt_i8_words)tvmrt_i8_four_load(p, is_signed);                    \
    const tvmrt_i8_quad quad = {(tvmrt_i8_acc)(x & 0xFF), (tvmrt_i8_acc)(x >> 8)};                \
    return quad;                                                                                  \
  }                                                                                               \
  TVMRT_INLINE tvmrt_i8_weights tvmrt_i8_bytes_load(const int8_t* p) {                            \
    tvmrt_i8_shorts v;                                                                            \
    memcpy(&v, p, sizeof(v));                                                                     \
    const tvmrt_i8_weights w = {(tvmrt_i8_acc)((v << 8) >> 8), (tvmrt_i8_acc)(v >> 8)};           \
    return w;                                                                                     \
  }                                                                                               \
  TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_dot(tvmrt_i8_acc acc, tvmrt_i8_quad x, tvmrt_i8_weights w) { \
    typedef uint32_t lanes __attribute__((vector_size(sizeof(acc))));                             \
    lanes sum = (lanes)acc + (lanes)MADD(x.even, w.even);                                         \
    /* adding the two products first would keep all products of a tile live at once */            \
    TVMRT_I8_KEEP(sum);                                                                           \
    return (tvmrt_i8_acc)(sum + (lanes)MADD(x.odd, w.odd));                                       \
  }
#if defined(__x86_64__) || defined(__i386__)
#define TVMRT_I8_KEEP(v) __asm__("" : "+x"(v))
#else
#define TVMRT_I8_KEEP(v) (void)0
#endif

/* tvmrt_i8_packed(): packs four vectors to bytes with intrinsics MM of BITS-wide vectors. The packs
 * work within 128 bits, so wide vectors have groups of four in another order. */
#define TVMRT_DEFINE_X86_PACKED(MM, BITS)                                                   \
  TVMRT_INLINE tvmrt_i8_acc tvmrt_i8_packed(tvmrt_i8_acc a, tvmrt_i8_acc b, tvmrt_i8_acc c, \
                                            tvmrt_i8_acc d, const tvmrt_i8_range* range) {  \
    int offset = range->is_signed ? 128 : 0;                                                \
    tvmrt_i8_acc zero = MM##_set1_epi16((short)(range->zero + offset));                     \
    tvmrt_i8_acc ab = MM##_adds_epi16(MM##_packs_epi32(a, b), zero);                        \
    tvmrt_i8_acc cd = MM##_adds_epi16(MM##_packs_epi32(c, d), zero);                        \
    tvmrt_i8_acc v = MM##_packus_epi16(ab, cd);                                             \
    v = MM##_max_epu8(v, MM##_set1_epi8((char)(range->lo + offset)));                       \
    v = MM##_min_epu8(v, MM##_set1_epi8((char)(range->hi + offset)));                       \
    return MM##_xor_si##BITS(v, MM##_set1_epi8((char)offset));                              \
  }

/* ---- AVX-512 VNNI: 16 lanes ---- */

#if TVMRT_I8_FORMAT == TVMRT_I8_X86_VNNI

#include "simd_i8_avx512vnni.h"

/* ---- AVX2 and AVX-VNNI: 8 lanes ---- */

#elif TVMRT_I8_FORMAT == TVMRT_I8_X86_AVX2 || TVMRT_I8_FORMAT == TVMRT_I8_X86_AVX_VNNI

#include "simd_i8_avx2.h"

/* ---- SSE4.1: 4 lanes ---- */

#elif TVMRT_I8_FORMAT == TVMRT_I8_X86_SSE41

#include "simd_i8_sse41.h"

/* ---- ARM: 4 lanes ---- */

#elif TVMRT_I8_ANY_NEON

#include "simd_i8_neon.h"

/* ---- RISC-V: 8 lanes ---- */

#elif TVMRT_I8_FORMAT == TVMRT_I8_RVV

#include "simd_i8_rvv.h"

/* ---- WebAssembly: 4 lanes ---- */

#elif TVMRT_I8_FORMAT == TVMRT_I8_WASM

#include "simd_i8_wasm.h"

#endif

#endif /* required definitions */
#endif /* TVM_RUNTIME_KERNELS_TILE_SIMD_I8_FORMATS_H_ */

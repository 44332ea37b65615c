/*!
 * \file board/rvv.h
 * \brief Shared parts of the integer kernels for the RISC-V vector extension: registers, copying.
 *
 * Loops request all remaining elements and process as many as the registers hold, so the same code
 * serves every vector length. Zve32x suffices: integers of up to 32 bits.
 *
 * The start-up code has to enable vectors (VS of mstatus), or vector instructions trap.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_RVV_H_
#define TVM_RUNTIME_KERNELS_BOARD_RVV_H_

#include <stdint.h>

#include "../scalar/compiler.h"
#include "cpu_features.h"

#if TVMRT_MICRO_RVV
/* Vector registers that assembly clobbers. GCC before 13 neither names nor uses them. */
#if defined(__clang__) || __GNUC__ >= 13
#define TVMRT_MICRO_RVV_CHANGES                                                                  \
  "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", \
      "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27", \
      "v28", "v29", "v30", "v31", "memory"
#else
#define TVMRT_MICRO_RVV_CHANGES "memory"
#endif

/* Around assembly: GCC's link-time optimisation assembles it with the options of the link, which
 * may be those of libraries without vectors. */
#if defined(__clang__)
#define TVMRT_MICRO_RVV_ON ""
#define TVMRT_MICRO_RVV_OFF ""
#else
#define TVMRT_MICRO_RVV_ON ".option push\n.option arch, +zve32x\n"
#define TVMRT_MICRO_RVV_OFF ".option pop\n"
#endif
#endif

/*! \brief Copy n bytes, XORed with `flip`. */
TVMRT_NOINLINE void tvmrt_micro_rvv_copy(uint8_t* to, const uint8_t* from, int32_t n,
                                         int32_t flip) {
#if TVMRT_MICRO_RVV
  int32_t vl;
  __asm volatile(TVMRT_MICRO_RVV_ON
                 "1:\nvsetvli %[vl], %[n], e8, m8, ta, ma\nvle8.v v8, (%[from])\n"
                 "add %[from], %[from], %[vl]\nvxor.vx v8, v8, %[flip]\nsub %[n], %[n], %[vl]\n"
                 "vse8.v v8, (%[to])\nadd %[to], %[to], %[vl]\nbnez %[n], 1b\n" TVMRT_MICRO_RVV_OFF
                 : [to] "+r"(to), [from] "+r"(from), [n] "+r"(n), [vl] "=&r"(vl)
                 : [flip] "r"(flip)
                 : TVMRT_MICRO_RVV_CHANGES);
#else
  for (; n > 0; n--) *to++ = (uint8_t)(*from++ ^ flip);
#endif
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_RVV_H_ */

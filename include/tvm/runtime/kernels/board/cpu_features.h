/*!
 * \file board/cpu_features.h
 * \brief Features of the processor and compiler that the integer kernels of microcontrollers use.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_CPU_FEATURES_H_
#define TVM_RUNTIME_KERNELS_BOARD_CPU_FEATURES_H_

#if defined(__ARM_FEATURE_MVE)
#define TVMRT_MICRO_CAN_MVE 1
#include <arm_mve.h>
#else
#define TVMRT_MICRO_CAN_MVE 0
#endif
#if defined(__ARM_FEATURE_DSP) && defined(__ARM_FEATURE_SIMD32)
#define TVMRT_MICRO_CAN_DSP 1
#include <arm_acle.h>
#else
#define TVMRT_MICRO_CAN_DSP 0
#endif

#if defined(__riscv_zve32x) && __riscv_xlen == 32
#define TVMRT_MICRO_CAN_RVV 1
#else
#define TVMRT_MICRO_CAN_RVV 0
#endif

#ifndef TVMRT_MICRO_ASM
#if (TVMRT_MICRO_CAN_DSP || TVMRT_MICRO_CAN_RVV) && defined(__GNUC__) && defined(__OPTIMIZE__)
#define TVMRT_MICRO_ASM 1
#else
#define TVMRT_MICRO_ASM 0
#endif
#endif
/*! \brief Whether the RISC-V vector extension is used. Kernels use it in inline assembly. */
#if TVMRT_MICRO_CAN_RVV && TVMRT_MICRO_ASM
#define TVMRT_MICRO_RVV 1
#else
#define TVMRT_MICRO_RVV 0
#endif

/*! \brief The clobber list entry for Helium's predicate. Clang has no name for it, so functions
 * with such an assembly block use no other predicate. */
#if defined(__clang__)
#define TVMRT_MICRO_CHANGES_P0
#else
#define TVMRT_MICRO_CHANGES_P0 , "p0"
#endif

/*! \brief Whether 32-bit words may be read and written at any address. */
#if defined(__ARM_FEATURE_UNALIGNED) || defined(__x86_64__) || defined(__aarch64__)
#define TVMRT_MICRO_UNALIGNED 1
#else
#define TVMRT_MICRO_UNALIGNED 0
#endif

/*! \brief Whether the processor has single-precision floating-point instructions. */
#ifndef TVMRT_MICRO_HAS_FPU
#if defined(__ARM_FP) || defined(__riscv_flen) || defined(__x86_64__) || defined(__aarch64__)
#define TVMRT_MICRO_HAS_FPU 1
#else
#define TVMRT_MICRO_HAS_FPU 0
#endif
#endif

/*! \brief Whether the processor has conditional instructions, so that a minimum needs no branch. */
#if (defined(__thumb__) && !defined(__thumb2__)) || defined(__i386__) || \
    (defined(__riscv) && !defined(__riscv_zbb))
#define TVMRT_MICRO_HAS_SELECT 0
#else
#define TVMRT_MICRO_HAS_SELECT 1
#endif

#endif /* TVM_RUNTIME_KERNELS_BOARD_CPU_FEATURES_H_ */

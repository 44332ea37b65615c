/*!
 * \file no_low_overhead_loops.h
 * \brief Keep GCC from converting loops to low-overhead loops (Armv8.1-M).
 *
 * GCC 12 replaces the comparison that ends a loop by a counter, even if a branch after the loop
 * reads the flags of that comparison: the branch goes the wrong way. At -Os and -Oz `for (; n >= 2;
 * n -= 2) two(); if (n == 1) one();` calls one() for any n; loops that exit in the middle of their
 * body are wrong at -O2 and -O3. Files built for a Cortex-M55 or M85 include this header before all
 * functions; for other processors and compilers it is empty.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_NO_LOW_OVERHEAD_LOOPS_H_
#define TVM_RUNTIME_KERNELS_SCALAR_NO_LOW_OVERHEAD_LOOPS_H_

/* GCC 12 also defines the macro for Armv8-M without such instructions: harmless. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__ARM_ARCH_8M_MAIN__)
#pragma GCC optimize("no-branch-count-reg")
#endif

#endif /* TVM_RUNTIME_KERNELS_SCALAR_NO_LOW_OVERHEAD_LOOPS_H_ */

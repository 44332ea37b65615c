/*!
 * \file counted_loops.h
 * \brief Keeps GCC from counting loops down for processors that have instructions for it (Armv8.1-M).
 *
 * GCC 12 puts the count in place of the comparison that ends a loop also where a branch behind the loop
 * reads the flags of that comparison: the branch goes the wrong way. At -Os and -Oz
 * `for (; n >= 2; n -= 2) two(); if (n == 1) one();` does one() whatever n was; loops that end amid their
 * body are wrong at -O2 and -O3. Files that are built for a Cortex-M55 or M85 include this before all
 * functions; for other processors and compilers it is empty.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_COUNTED_LOOPS_H_
#define TVM_RUNTIME_KERNELS_SCALAR_COUNTED_LOOPS_H_

/* GCC 12 defines the same for Armv8-M, which has no such instructions and takes no notice. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__ARM_ARCH_8M_MAIN__)
#pragma GCC optimize("no-branch-count-reg")
#endif

#endif /* TVM_RUNTIME_KERNELS_SCALAR_COUNTED_LOOPS_H_ */

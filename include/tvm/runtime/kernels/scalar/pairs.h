/*!
 * \file scalar/pairs.h
 * \brief Constants that exist twice, so that a network can compare both copies before it uses one.
 */
#ifndef TVM_RUNTIME_KERNELS_SCALAR_PAIRS_H_
#define TVM_RUNTIME_KERNELS_SCALAR_PAIRS_H_

/*! \brief Initialiser of an array of two equal elements; linkers do not merge elements. */
#define TVMRT_TWICE(...) \
  { __VA_ARGS__, __VA_ARGS__ }

/*!
 * \brief Define a constant table of `count` elements at file scope; kernels read name[0].
 *
 * With TVMRT_PAIRED_TABLES, name[1] is a copy. Each table is followed by `#define name name`, which
 * shows generated C that the file has it. Kernels define no other constants of static storage.
 */
#ifdef TVMRT_PAIRED_TABLES
#define TVMRT_TABLE(type, name, count, ...) \
  static const type name[2][count] = TVMRT_TWICE({__VA_ARGS__})
#else
#define TVMRT_TABLE(type, name, count, ...) static const type name[1][count] = {{__VA_ARGS__}}
#endif

#endif /* TVM_RUNTIME_KERNELS_SCALAR_PAIRS_H_ */

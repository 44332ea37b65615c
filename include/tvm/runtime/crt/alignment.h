/*!
 * \file tvm/runtime/crt/alignment.h
 * \brief Alignment of tensors in the memory of firmware executors.
 *
 * C99 and C++ clean.
 */
#ifndef TVM_RUNTIME_CRT_ALIGNMENT_H_
#define TVM_RUNTIME_CRT_ALIGNMENT_H_

/*! \brief Alignment of an executor's memory and of every tensor in it, in bytes; a power of two. If
 * it is overridden, the library must be built with the same value. */
#ifndef TVMRT_GRAPH_ALIGN_BYTES
#define TVMRT_GRAPH_ALIGN_BYTES 16
#endif

/*! \brief A size rounded up to that alignment. */
#define TVMRT_GRAPH_ROUND_UP(num_bytes)                                      \
  (((num_bytes) + (TVMRT_GRAPH_ALIGN_BYTES - 1)) / TVMRT_GRAPH_ALIGN_BYTES * \
   TVMRT_GRAPH_ALIGN_BYTES)

#endif /* TVM_RUNTIME_CRT_ALIGNMENT_H_ */

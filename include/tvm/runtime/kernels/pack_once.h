/*!
 * \file pack_once.h
 * \brief Weights that the first run packs for all later runs.
 *
 * Usually the compiler packs weights. A run does if the library has only the network's order: for
 * weights that the region of a device reads too, and for the fallback code of a failing device.
 */
#ifndef TVM_RUNTIME_KERNELS_PACK_ONCE_H_
#define TVM_RUNTIME_KERNELS_PACK_ONCE_H_

/*! \brief Static memory for packed weights, initially zero, and its state. */
typedef struct tvmrt_packed_weights {
  void* weights;
  int* state; /*!< 0: not packed; 1: a run is packing; 2: packed. */
} tvmrt_packed_weights;

/*!
 * \brief Return the memory for packed weights, and whether the run has to pack them there first.
 *
 * The first run packs into `packed_weights` and calls tvmrt_pack_end(). A concurrent run packs into
 * its `own` memory without waiting; so does every run if the compiler lacks these atomic
 * operations.
 */
static inline void* tvmrt_pack_begin(const tvmrt_packed_weights* packed_weights, void* own,
                                     int* packs) {
#if defined(__GNUC__)
  int state = __atomic_load_n(packed_weights->state, __ATOMIC_ACQUIRE);
  *packs = state != 2;
  if (state == 2) return packed_weights->weights;
  if (state == 0 && __atomic_compare_exchange_n(packed_weights->state, &state, 1, 0,
                                                __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    return packed_weights->weights;
  }
#else
  (void)packed_weights;
#endif
  *packs = 1;
  return own;
}

/*! \brief Mark the weights as packed at `address`, which tvmrt_pack_begin() returned. */
static inline void tvmrt_pack_end(const tvmrt_packed_weights* packed_weights, const void* address) {
#if defined(__GNUC__)
  if (address == packed_weights->weights)
    __atomic_store_n(packed_weights->state, 2, __ATOMIC_RELEASE);
#else
  (void)packed_weights, (void)address;
#endif
}

#endif /* TVM_RUNTIME_KERNELS_PACK_ONCE_H_ */

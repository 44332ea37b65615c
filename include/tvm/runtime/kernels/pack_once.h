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
typedef struct tvmrt_kept {
  void* weights;
  int* state; /*!< 0: not packed; 1: a run is packing; 2: packed. */
} tvmrt_kept;

/*!
 * \brief Return the memory for packed weights, and whether the run has to pack them there first.
 *
 * The first run packs into `kept` and calls tvmrt_pack_end(). A concurrent run packs into its `own`
 * memory without waiting; so does every run if the compiler lacks these atomic operations.
 */
static inline void* tvmrt_pack_begin(const tvmrt_kept* kept, void* own, int* packs) {
#if defined(__GNUC__)
  int state = __atomic_load_n(kept->state, __ATOMIC_ACQUIRE);
  *packs = state != 2;
  if (state == 2) return kept->weights;
  if (state == 0 &&
      __atomic_compare_exchange_n(kept->state, &state, 1, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
    return kept->weights;
  }
#else
  (void)kept;
#endif
  *packs = 1;
  return own;
}

/*! \brief Mark the weights as packed at `place`, which tvmrt_pack_begin() returned. */
static inline void tvmrt_pack_end(const tvmrt_kept* kept, const void* place) {
#if defined(__GNUC__)
  if (place == kept->weights) __atomic_store_n(kept->state, 2, __ATOMIC_RELEASE);
#else
  (void)kept, (void)place;
#endif
}

#endif /* TVM_RUNTIME_KERNELS_PACK_ONCE_H_ */

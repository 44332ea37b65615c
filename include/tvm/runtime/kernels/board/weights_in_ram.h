/*!
 * \file board/weights_in_ram.h
 * \brief Copies of weights in scratch memory. Kernels read all weights again for each few pixels,
 * and flash with wait states is slower than RAM.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_WEIGHTS_IN_RAM_H_
#define TVM_RUNTIME_KERNELS_BOARD_WEIGHTS_IN_RAM_H_

#include <stdint.h>
#include <string.h>

#include "../parallel.h"
#include "../scalar/compiler.h"

/*!
 * \brief Copy weights to scratch memory.
 * \param weights [in] Aligned to 4 bytes.
 * \return The copy; valid until the next operator. The weights themselves without memory for it.
 */
static inline const void* tvmrt_micro_weights_in_ram(const void* weights, int32_t bytes) {
  uint8_t* const copy = (uint8_t*)tvmrt_scratch_alloc(bytes);
  if (copy == NULL) return weights;
  int32_t i = 0;
  for (; i <= bytes - 16; i += 16) {
    memcpy(TVMRT_ALIGNED(copy + i, 4), TVMRT_ALIGNED((const uint8_t*)weights + i, 4), 16);
  }
  for (; i < bytes; i++) copy[i] = ((const uint8_t*)weights)[i];
  return copy;
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_WEIGHTS_IN_RAM_H_ */

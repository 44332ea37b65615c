/* Copies between dense and strided tensors, element by element. */
#ifndef TVMRT_DEVICES_XNNPACK_COPY_H_
#define TVMRT_DEVICES_XNNPACK_COPY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COPY_MAX_RANK 5

/* Whether a tensor of these extents and strides, in elements, has no gaps and lies in the order of its
 * axes. */
bool copy_is_dense(size_t num_dims, const size_t* dims, const int64_t* strides);

/* `to` becomes dense; axis d of `from` has `strides[d]`, in elements of `item` bytes. */
void copy_to_dense(void* to, const void* from, size_t item, size_t num_dims, const size_t* dims,
                   const int64_t* strides);

/* `from` is dense; axis d of `to` has `strides[d]`. */
void copy_from_dense(void* to, const void* from, size_t item, size_t num_dims, const size_t* dims,
                     const int64_t* strides);

#endif /* TVMRT_DEVICES_XNNPACK_COPY_H_ */

/* Copies between dense and strided tensors.
 *
 * Strides count elements. The strided side may broadcast by strides of 0 where it is read. */
#include "copy.h"

#include <string.h>

/* Axes of one element have any stride. */
bool copy_is_dense(size_t num_dims, const size_t* dims, const int64_t* strides) {
  int64_t step = 1;
  size_t d = num_dims;
  while (d-- > 0) {
    if (dims[d] != 1 && strides[d] != step) return false;
    step *= (int64_t)dims[d];
  }
  return true;
}

/* A walk over all elements of a strided tensor in the order of its axes. */
typedef struct {
  size_t num_dims;
  const size_t* dims;
  const int64_t* strides;
  size_t at[COPY_MAX_RANK];
  int64_t offset;
} walk;

/* Rows are copied whole; this goes on to the next one. False behind the last one, with all places
 * back at 0. */
static bool next_row(walk* w) {
  size_t d = w->num_dims - 1;
  while (d-- > 0) {
    w->offset += w->strides[d];
    if (++w->at[d] < w->dims[d]) return true;
    w->offset -= (int64_t)w->dims[d] * w->strides[d];
    w->at[d] = 0;
  }
  return false;
}

/* One walk for both ways, which differ by the direction of each move alone. Bytes are moved as
 * they are, whatever their type. */
static void copy_rows(char* dense, char* strided, size_t item, size_t num_dims, const size_t* dims,
                      const int64_t* strides, bool to_dense) {
  walk w = {.num_dims = num_dims, .dims = dims, .strides = strides};
  const size_t row = num_dims == 0 ? 1 : dims[num_dims - 1];
  const int64_t step = num_dims == 0 ? 1 : strides[num_dims - 1];
  size_t i;
  do {
    for (i = 0; i < row; ++i, dense += item) {
      char* at = strided + (w.offset + (int64_t)i * step) * (int64_t)item;
      if (item == 4) { /* a constant size is a move and no call */
        memcpy(to_dense ? dense : at, to_dense ? at : dense, 4);
      } else {
        memcpy(to_dense ? dense : at, to_dense ? at : dense, item);
      }
    }
  } while (num_dims > 0 && next_row(&w));
}

/* `item`: bytes of an element. */
void copy_to_dense(void* to, const void* from, size_t item, size_t num_dims, const size_t* dims,
                   const int64_t* strides) {
  copy_rows(to, (void*)from, item, num_dims, dims, strides, true); /* which only reads of `from` */
}

/* Every element of `to` must have a place of its own. */
void copy_from_dense(void* to, const void* from, size_t item, size_t num_dims, const size_t* dims,
                     const int64_t* strides) {
  copy_rows((void*)from, to, item, num_dims, dims, strides, false); /* which only reads of `from` */
}

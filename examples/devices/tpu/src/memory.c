/* Device memory: layout of tensors, and copies between device and host.
 *
 * Channels are innermost, in rows padded to the units' width, a layout that no host has. Extents
 * were checked by tpu_refuses(), so sums of words do not overflow. */
#include "tpu.h"

static int64_t round_up(int64_t n) { return (n + TPU_LANES - 1) / TPU_LANES * TPU_LANES; }

/* Missing leading axes have extent 1 and stride 0, so all loops have four. num_words includes the
 * padding. Any rank up to four; a scalar is a row with one used word. */
void tpu_set_layout(const tvmrt_region_tensor* from, tpu_tensor* out) {
  const int missing = TPU_MAX_RANK - from->ndim;
  const int channels = from->ndim == TPU_MAX_RANK ? 1 : TPU_MAX_RANK - 1;
  int64_t stride;
  int d;
  for (d = 0; d < TPU_MAX_RANK; ++d) {
    out->extent[d] = d < missing ? 1 : from->shape[d - missing];
    out->stride[d] = 0;
  }
  stride = round_up(out->extent[channels]);
  if (from->ndim > 0) out->stride[channels] = 1;
  for (d = TPU_MAX_RANK - 1; d >= missing; --d) {
    if (d == channels) continue;
    out->stride[d] = stride;
    stride *= out->extent[d];
  }
  out->num_words = stride;
}

/* Of all tensors; the words that they need together. */
uint64_t tpu_set_layouts(tpu_program* program) {
  uint64_t sum = 0;
  int32_t i;
  for (i = 0; i < program->region->num_tensors; ++i) {
    tpu_set_layout(&program->region->tensors[i], &program->tensors[i]);
    sum += (uint64_t)program->tensors[i].num_words;
  }
  return sum;
}

/* Constants are copied once, here; inputs with each run. Tensors are contiguous and never freed
 * individually. */
void tpu_assign_memory(tpu_program* program) {
  float* at = program->memory;
  int32_t i;
  for (i = 0; i < program->region->num_tensors; ++i) {
    tpu_tensor* t = &program->tensors[i];
    t->words = at;
    at += t->num_words;
    if (program->region->tensors[i].data != NULL) {
      tpu_copy_in(t, program->region->tensors[i].data);
    }
  }
}

/* False after the last word. An axis at its end restarts at 0. */
bool tpu_step(tpu_walk* w) {
  int d;
  for (d = TPU_MAX_RANK - 1; d >= 0; --d) {
    w->word += w->t->stride[d];
    if (++w->at[d] < w->t->extent[d]) return true;
    w->word -= w->t->stride[d] * w->t->extent[d];
    w->at[d] = 0;
  }
  return false;
}

/* Copies the tensor's elements; the padding of rows stays 0. */
void tpu_copy_in(const tpu_tensor* to, const float* from) {
  tpu_walk w = {to, {0}, 0};
  do to->words[w.word] = *from++;
  while (tpu_step(&w));
}

/* Copies the tensor's elements without the padding. */
void tpu_copy_out(const tpu_tensor* from, float* to) {
  tpu_walk w = {from, {0}, 0};
  do *to++ = from->words[w.word];
  while (tpu_step(&w));
}

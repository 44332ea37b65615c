/*!
 * \file recurrent.h
 * \brief LSTM, GRU and RNN in float32: the recurrence of one direction over a sequence.
 *
 * The input's contribution to the gates, x [steps][batch][gates * hidden], is computed beforehand
 * for all steps by one matmul, biases included. Each step here multiplies the previous state with
 * the recurrence weights with the register tile. One loop over the hidden units follows, with all
 * gates in registers.
 *
 * Weights: the recurrence matrix, transposed to [hidden][gates * hidden], packed as matmul_f32.h
 * describes. Gates are in ONNX's order: LSTM i o f c, GRU z r h.
 *
 * Hidden units that do not fill a vector are computed in a padded copy. So small cells are as fast
 * per unit as large ones.
 *
 * A cell is instantiated once per file for each choice of activations, which are functions or
 * macros of one float that compilers can vectorise:
 *
 *   TVMRT_DEFINE_LSTM_F32(my_lstm, tvmrt_sigmoid_f32, tvmrt_tanh_f32, tvmrt_tanh_f32, 0)
 *   TVMRT_DEFINE_GRU_F32(my_gru, tvmrt_sigmoid_f32, tvmrt_tanh_f32)
 *   TVMRT_DEFINE_RNN_F32(my_rnn, tvmrt_tanh_f32)
 *
 * These cells run on the calling thread. Two threads share the steps of large ones, see
 * recurrent_shared.h.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_RECURRENT_H_
#define TVM_RUNTIME_KERNELS_OP_RECURRENT_H_

#include <math.h>

#include "../tile/gemm_f32.h"

/*! \brief One direction of a recurrent layer; strides are in floats. */
typedef struct tvmrt_recurrent_f32_layer {
  int32_t batch;
  int32_t hidden;
  /*! \brief Whether each sequence is processed from its last step to the first. */
  int32_t reverse;
  /*! \brief Strides of steps, and of rows of the batch. */
  int64_t x_step, x_row;
  int64_t y_step, y_row;
  /*! \brief Maximum magnitude of an activation's input; INFINITY for none. */
  float clip;
  /*! \brief Rows of a block of packed weights, a multiple of a tile's; 0: equal. */
  int32_t packed;
} tvmrt_recurrent_f32_layer;

/* Weights, states and results of one call; see the cells. The number of steps is here, so that the
 * layer is constant even if that number is dynamic. */
typedef struct tvmrt_recurrent_f32_job {
  int32_t steps;
  const float* x;
  const float* r;
  const float* r_hidden;
  const float* bias;
  const float* peephole;
  const float* h0;
  const float* c0;
  const int32_t* lengths;
  float* y;
  float* h;
  float* c;
  float* sums;
} tvmrt_recurrent_f32_job;

/*!
 * \brief Pack weights [rows][hidden] that are computed at run time, in the order of the tiles:
 * [block][hidden][rows of a block], the last block zero-padded.
 */
static inline void tvmrt_pack_rows_f32(const float* r, int rows, int hidden, int block,
                                       float* packed) {
  for (int first = 0; first < rows; first += block) {
    for (int k = 0; k < hidden; ++k) {
      for (int i = 0; i < block; ++i) {
        *packed++ = first + i < rows ? r[(int64_t)(first + i) * hidden + k] : 0.0f;
      }
    }
  }
}

/* sums[b][first .. end] = bias + h[b] * r for all rows of the batch; the state is dense. */
static inline int tvmrt_recurrent_f32_columns(const tvmrt_recurrent_f32_layer* layer,
                                              const tvmrt_tiles_f32* tiles, const float* h,
                                              const float* r, const float* bias, int first, int end,
                                              int sums_row, float* sums) {
  tvmrt_segment_f32 segment = {h, 0};
  tvmrt_tile_row_f32_args row;
  memset(&row, 0, sizeof(row));
  row.tiles = tiles;
  row.tile.segments = &segment;
  row.tile.segment_count = 1;
  row.tile.run = layer->hidden;
  row.tile.x_stride = layer->hidden;
  row.packed = layer->packed > 0 ? layer->packed : tiles->block;
  row.tile.w_stride = row.packed;
  row.tile.out_stride = sums_row;
  row.tile.lo = -INFINITY;
  row.tile.hi = INFINITY;
  row.w = r;
  row.w_block = (int64_t)layer->hidden * row.packed;
  row.bias = bias;
  row.out = sums;
  return tvmrt_tile_row_f32(&row, 0, layer->batch, first, end);
}

/* States before the first step: the given ones or zeros. */
static inline void tvmrt_recurrent_f32_start(const tvmrt_recurrent_f32_layer* layer,
                                             const float* given, float* state) {
  const size_t bytes = (size_t)layer->batch * (size_t)layer->hidden * sizeof(float);
  if (given) {
    memcpy(state, given, bytes);
  } else {
    memset(state, 0, bytes);
  }
}

/* Valid steps of one row's sequence, clamped to the number of steps. */
static inline int tvmrt_recurrent_f32_length(const tvmrt_recurrent_f32_job* job, int b) {
  if (!job->lengths || job->lengths[b] > job->steps) return job->steps;
  return job->lengths[b] < 0 ? 0 : job->lengths[b];
}

/* Fill results past the end of each sequence with zeros. */
static inline void tvmrt_recurrent_f32_pad(const tvmrt_recurrent_f32_layer* layer,
                                           const tvmrt_recurrent_f32_job* job) {
  if (!job->lengths) return;
  for (int b = 0; b < layer->batch; b++) {
    for (int t = tvmrt_recurrent_f32_length(job, b); t < job->steps; t++) {
      memset(job->y + t * layer->y_step + b * layer->y_row, 0,
             (size_t)layer->hidden * sizeof(float));
    }
  }
}

/* The index in the sequence of row b that step s processes; -1 past its end. */
static inline int tvmrt_recurrent_f32_index(const tvmrt_recurrent_f32_layer* layer,
                                            const tvmrt_recurrent_f32_job* job, int b, int s) {
  const int length = tvmrt_recurrent_f32_length(job, b);
  if (s >= length) return -1;
  return layer->reverse ? length - 1 - s : s;
}

/* Copy row b's new state to the result at index t. */
static inline void tvmrt_recurrent_f32_result(const tvmrt_recurrent_f32_layer* layer,
                                              const tvmrt_recurrent_f32_job* job, int b, int t) {
  memcpy(job->y + t * layer->y_step + b * layer->y_row, job->h + (int64_t)b * layer->hidden,
         (size_t)layer->hidden * sizeof(float));
}

#define TVMRT_RECURRENT_CLIP(v, bound) ((v) > (bound) ? (bound) : (v) < -(bound) ? -(bound) : (v))

enum { TVMRT_RECURRENT_LANES = TVMRT_SIMD_LANES_F32 };

/* Load the last n units of each gate, from gates `hidden` apart to padded ones a vector apart. */
TVMRT_INLINE void tvmrt_recurrent_f32_load(float* to, const float* from, int hidden, int gates,
                                           int n) {
  for (int g = 0; g < gates; g++) {
    TVMRT_F32V(store)(to + g * TVMRT_RECURRENT_LANES, TVMRT_F32V(load_n)(from + g * hidden, n));
  }
}

/* Store the first n units of one padded gate. */
TVMRT_INLINE void tvmrt_recurrent_f32_store(float* to, const float* from, int n) {
  TVMRT_F32V(store_n)(to, TVMRT_F32V(load)(from), n);
}

/* clang-format off */
/* Define NAME_units(), which replaces the states of units [begin, end) in one row of the batch: x and
 * s are the row's inputs and sums, `row` is the offset of its states. */
#define TVMRT_RECURRENT_UNITS(NAME)                                                                \
  TVMRT_INLINE void NAME##_units(const tvmrt_recurrent_f32_layer* layer,                           \
                                 const tvmrt_recurrent_f32_job* job, int begin, int end,           \
                                 int input_forget, const float* x, float* s, int64_t row)

/* Define the cell NAME, whose arguments follow: a matmul for all gates, then NAME_units(). */
#define TVMRT_DEFINE_RECURRENT_CELL(NAME, GATES, INPUT_FORGET, ...)                                \
  TVMRT_NOINLINE int NAME(__VA_ARGS__) {                                                           \
    const int hidden = layer->hidden, columns = (GATES) * hidden;                                  \
    tvmrt_recurrent_f32_start(layer, job->h0, job->h);                                             \
    if ((GATES) == 4) tvmrt_recurrent_f32_start(layer, job->c0, job->c); /* an LSTM's cells */     \
    tvmrt_recurrent_f32_pad(layer, job);                                                           \
    for (int s = 0; s < job->steps; s++) {                                                         \
      if (tvmrt_recurrent_f32_columns(layer, tiles, job->h, job->r, NULL, 0, columns, columns,     \
                                      job->sums) != 0)                                             \
        return -1;                                                                                 \
      for (int b = 0; b < layer->batch; b++) {                                                     \
        const int t = tvmrt_recurrent_f32_index(layer, job, b, s);                                 \
        if (t < 0) continue;                                                                       \
        NAME##_units(layer, job, 0, hidden, INPUT_FORGET,                                          \
                     job->x + t * layer->x_step + b * layer->x_row,                                \
                     job->sums + (int64_t)b * columns, (int64_t)b * hidden);                       \
        tvmrt_recurrent_f32_result(layer, job, b, t);                                              \
      }                                                                                            \
    }                                                                                              \
    return 0;                                                                                      \
  }
/* clang-format on */

/*!
 * \brief Define an LSTM with the activations F (gates), G (cell input), H (cell output), with
 * peepholes if P is 1 and without if it is 0:
 *
 *   int NAME(layer, tiles, job, input_forget)
 *
 * job->x, r, h0, c0 (NULL: zeros), peephole ([3][hidden]: i o f), lengths (steps of each row, or
 * NULL), y, h and c (last states, dense [batch][hidden]), sums (scratch memory of batch * 4 *
 * hidden floats). None may overlap. input_forget: the forget gate is 1 - i. Returns 0, or -1 if the
 * tiles do not cover the batch.
 */
/* clang-format off */
#define TVMRT_DEFINE_LSTM_F32(NAME, F, G, H, P)                                                    \
  /* A vector of units; the gates of x, s and p are `gap` apart. */                                \
  TVMRT_INLINE void NAME##_block(int gap, float clip, int input_forget,                            \
                                 const float* TVMRT_RESTRICT x, const float* TVMRT_RESTRICT s,     \
                                 const float* TVMRT_RESTRICT p, float* TVMRT_RESTRICT c,           \
                                 float* TVMRT_RESTRICT h) {                                        \
    for (int j = 0; j < TVMRT_RECURRENT_LANES; j++) {                                              \
      const float old = c[j];                                                                      \
      const float ui = x[j] + s[j] + ((P) ? p[j] * old : 0.0f);                                    \
      const float uf = x[2 * gap + j] + s[2 * gap + j] + ((P) ? p[2 * gap + j] * old : 0.0f);      \
      const float uc = x[3 * gap + j] + s[3 * gap + j];                                            \
      const float in = F(TVMRT_RECURRENT_CLIP(ui, clip));                                          \
      const float keep = input_forget ? 1.0f - in : F(TVMRT_RECURRENT_CLIP(uf, clip));             \
      const float cell = keep * old + in * G(TVMRT_RECURRENT_CLIP(uc, clip));                      \
      const float uo = x[gap + j] + s[gap + j] + ((P) ? p[gap + j] * cell : 0.0f);                 \
      c[j] = cell;                                                                                 \
      h[j] = F(TVMRT_RECURRENT_CLIP(uo, clip)) * H(cell);                                          \
    }                                                                                              \
  }                                                                                                \
  TVMRT_NOINLINE void NAME##_row(int hidden, int begin, int end, float clip, int input_forget,     \
                                 const float* x, const float* s, const float* p, float* c,         \
                                 float* h) {                                                       \
    const int tail = (end - begin) % TVMRT_RECURRENT_LANES, whole = end - tail;                    \
    for (int j = begin; j < whole; j += TVMRT_RECURRENT_LANES) {                                   \
      NAME##_block(hidden, clip, input_forget, x + j, s + j,                                       \
                   (P) ? p + j : NULL, c + j, h + j);                                              \
    }                                                                                              \
    if (tail) {                                                                                    \
      float xt[4 * TVMRT_RECURRENT_LANES], st[4 * TVMRT_RECURRENT_LANES];                          \
      float pt[3 * TVMRT_RECURRENT_LANES], ct[TVMRT_RECURRENT_LANES], ht[TVMRT_RECURRENT_LANES];   \
      tvmrt_recurrent_f32_load(xt, x + whole, hidden, 4, tail);                                    \
      tvmrt_recurrent_f32_load(st, s + whole, hidden, 4, tail);                                    \
      tvmrt_recurrent_f32_load(ct, c + whole, hidden, 1, tail);                                    \
      if (P) tvmrt_recurrent_f32_load(pt, p + whole, hidden, 3, tail);                             \
      NAME##_block(TVMRT_RECURRENT_LANES, clip, input_forget, xt, st,                              \
                   (P) ? pt : NULL, ct, ht);                                                       \
      tvmrt_recurrent_f32_store(c + whole, ct, tail);                                              \
      tvmrt_recurrent_f32_store(h + whole, ht, tail);                                              \
    }                                                                                              \
  }                                                                                                \
  TVMRT_RECURRENT_UNITS(NAME) {                                                                    \
    NAME##_row(layer->hidden, begin, end, layer->clip, input_forget, x, s, job->peephole,          \
               job->c + row, job->h + row);                                                        \
  }                                                                                                \
  TVMRT_DEFINE_RECURRENT_CELL(NAME, 4, input_forget, const tvmrt_recurrent_f32_layer* layer,       \
                              const tvmrt_tiles_f32* tiles, const tvmrt_recurrent_f32_job* job,    \
                              int input_forget)

/* Define NAME_row: UPDATE, a function of (gap, clip, x, s, h), computes the new states of a row's
 * units, one vector at a time; the GATES gates of x and s are `gap` apart. */
#define TVMRT_DEFINE_RECURRENT_ROW(NAME, UPDATE, GATES)                                            \
  TVMRT_NOINLINE void NAME##_row(int hidden, int begin, int end, float clip, const float* x,       \
                                 const float* s, float* h) {                                       \
    const int tail = (end - begin) % TVMRT_RECURRENT_LANES, whole = end - tail;                    \
    for (int j = begin; j < whole; j += TVMRT_RECURRENT_LANES) {                                   \
      UPDATE(hidden, clip, x + j, s + j, h + j);                                                   \
    }                                                                                              \
    if (tail) {                                                                                    \
      float xt[(GATES) * TVMRT_RECURRENT_LANES], st[(GATES) * TVMRT_RECURRENT_LANES];              \
      float ht[TVMRT_RECURRENT_LANES];                                                             \
      tvmrt_recurrent_f32_load(xt, x + whole, hidden, GATES, tail);                                \
      tvmrt_recurrent_f32_load(st, s + whole, hidden, GATES, tail);                                \
      tvmrt_recurrent_f32_load(ht, h + whole, hidden, 1, tail);                                    \
      UPDATE(TVMRT_RECURRENT_LANES, clip, xt, st, ht);                                             \
      tvmrt_recurrent_f32_store(h + whole, ht, tail);                                              \
    }                                                                                              \
  }

/*!
 * \brief Define a GRU with the activations F (gates) and G (hidden):
 *
 *   int NAME(layer, tiles, job)
 *
 * There are two forms. If job->r_hidden is NULL, the reset gate scales the product with the state
 * (ONNX's linear_before_reset): r holds all three gates; bias (or NULL) is 2 * hidden zeros, then
 * the hidden gate's recurrence bias, zero-padded to whole blocks. Otherwise r holds the gates z and
 * r, and r_hidden the hidden gate, which is multiplied with the scaled state. job->sums: scratch
 * memory of batch * 4 * hidden floats. Other members are as for the LSTM.
 */
#define TVMRT_DEFINE_GRU_F32(NAME, F, G)                                                           \
  /* A vector of units: gate z replaces its sum, gate r scales h or the hidden gate's sum. */      \
  TVMRT_INLINE void NAME##_gates(int gap, float clip, const float* TVMRT_RESTRICT x,               \
                                 float* TVMRT_RESTRICT s, const float* TVMRT_RESTRICT h,           \
                                 float* TVMRT_RESTRICT scaled) {                                   \
    float update[TVMRT_RECURRENT_LANES], reset[TVMRT_RECURRENT_LANES];                             \
    for (int j = 0; j < TVMRT_RECURRENT_LANES; j++) {                                              \
      const float uz = x[j] + s[j], ur = x[gap + j] + s[gap + j];                                  \
      update[j] = F(TVMRT_RECURRENT_CLIP(uz, clip));                                               \
      reset[j] = F(TVMRT_RECURRENT_CLIP(ur, clip));                                                \
    }                                                                                              \
    for (int j = 0; j < TVMRT_RECURRENT_LANES; j++) s[j] = update[j];                              \
    if (scaled) {                                                                                  \
      for (int j = 0; j < TVMRT_RECURRENT_LANES; j++) scaled[j] = reset[j] * h[j];                 \
    } else {                                                                                       \
      for (int j = 0; j < TVMRT_RECURRENT_LANES; j++) s[2 * gap + j] *= reset[j];                  \
    }                                                                                              \
  }                                                                                                \
  TVMRT_INLINE void NAME##_update(int gap, float clip, const float* TVMRT_RESTRICT x,              \
                                  const float* TVMRT_RESTRICT s, float* TVMRT_RESTRICT h) {        \
    for (int j = 0; j < TVMRT_RECURRENT_LANES; j++) {                                              \
      const float u = x[2 * gap + j] + s[2 * gap + j], old = h[j];                                 \
      const float now = G(TVMRT_RECURRENT_CLIP(u, clip));                                          \
      h[j] = now + s[j] * (old - now);                                                             \
    }                                                                                              \
  }                                                                                                \
  TVMRT_NOINLINE void NAME##_reset(int hidden, int begin, int end, float clip, const float* x,     \
                                   float* s, const float* h, float* scaled) {                      \
    const int tail = (end - begin) % TVMRT_RECURRENT_LANES, whole = end - tail;                    \
    for (int j = begin; j < whole; j += TVMRT_RECURRENT_LANES) {                                   \
      NAME##_gates(hidden, clip, x + j, s + j, h + j,                                              \
                   scaled ? scaled + j : NULL);                                                    \
    }                                                                                              \
    if (tail) {                                                                                    \
      float xt[2 * TVMRT_RECURRENT_LANES], st[3 * TVMRT_RECURRENT_LANES];                          \
      float ht[TVMRT_RECURRENT_LANES], out[TVMRT_RECURRENT_LANES];                                 \
      const int gates = scaled ? 2 : 3;                                                            \
      tvmrt_recurrent_f32_load(xt, x + whole, hidden, 2, tail);                                    \
      tvmrt_recurrent_f32_load(st, s + whole, hidden, gates, tail);                                \
      tvmrt_recurrent_f32_load(ht, h + whole, hidden, 1, tail);                                    \
      NAME##_gates(TVMRT_RECURRENT_LANES, clip, xt, st, ht,                                        \
                   scaled ? out : NULL);                                                           \
      for (int g = 0; g < gates; g++) {                                                            \
        tvmrt_recurrent_f32_store(s + g * hidden + whole, st + g * TVMRT_RECURRENT_LANES, tail);   \
      }                                                                                            \
      if (scaled) tvmrt_recurrent_f32_store(scaled + whole, out, tail);                            \
    }                                                                                              \
  }                                                                                                \
  TVMRT_DEFINE_RECURRENT_ROW(NAME, NAME##_update, 3)                                               \
  TVMRT_NOINLINE int NAME(const tvmrt_recurrent_f32_layer* layer, const tvmrt_tiles_f32* tiles,    \
                          const tvmrt_recurrent_f32_job* job) {                                    \
    const int hidden = layer->hidden, linear = job->r_hidden == NULL;                              \
    const int columns = linear ? 3 * hidden : 2 * hidden;                                          \
    float* scaled = job->sums + (int64_t)layer->batch * 3 * hidden;                                \
    tvmrt_recurrent_f32_start(layer, job->h0, job->h);                                             \
    tvmrt_recurrent_f32_pad(layer, job);                                                           \
    for (int s = 0; s < job->steps; s++) {                                                         \
      if (tvmrt_recurrent_f32_columns(layer, tiles, job->h, job->r, job->bias, 0, columns,         \
                                      3 * hidden, job->sums) != 0)                                 \
        return -1;                                                                                 \
      for (int b = 0; b < layer->batch; b++) {                                                     \
        const int t = tvmrt_recurrent_f32_index(layer, job, b, s);                                 \
        NAME##_reset(hidden, 0, hidden, layer->clip, job->x + (t < 0 ? 0 : t) * layer->x_step + b * layer->x_row, \
                     job->sums + (int64_t)b * 3 * hidden, job->h + (int64_t)b * hidden,            \
                     linear ? NULL : scaled + (int64_t)b * hidden);                                \
      }                                                                                            \
      if (!linear && tvmrt_recurrent_f32_columns(layer, tiles, scaled, job->r_hidden, NULL, 0,     \
                                                 hidden, 3 * hidden,                               \
                                                 job->sums + 2 * hidden) != 0)                     \
        return -1;                                                                                 \
      for (int b = 0; b < layer->batch; b++) {                                                     \
        const int t = tvmrt_recurrent_f32_index(layer, job, b, s);                                 \
        if (t < 0) continue;                                                                       \
        NAME##_row(hidden, 0, hidden, layer->clip,                                                 \
                   job->x + t * layer->x_step + b * layer->x_row,                                  \
                   job->sums + (int64_t)b * 3 * hidden, job->h + (int64_t)b * hidden);             \
        tvmrt_recurrent_f32_result(layer, job, b, t);                                              \
      }                                                                                            \
    }                                                                                              \
    return 0;                                                                                      \
  }

/*!
 * \brief Define a plain RNN with the activation F: int NAME(layer, tiles, job).
 *
 * job->sums: scratch memory of batch * hidden floats. Other members are as for the LSTM.
 */
#define TVMRT_DEFINE_RNN_F32(NAME, F)                                                              \
  TVMRT_INLINE void NAME##_block(int gap, float clip, const float* TVMRT_RESTRICT x,               \
                                 const float* TVMRT_RESTRICT s, float* TVMRT_RESTRICT h) {         \
    (void)gap;                                                                                     \
    for (int j = 0; j < TVMRT_RECURRENT_LANES; j++) {                                              \
      const float u = x[j] + s[j];                                                                 \
      h[j] = F(TVMRT_RECURRENT_CLIP(u, clip));                                                     \
    }                                                                                              \
  }                                                                                                \
  TVMRT_DEFINE_RECURRENT_ROW(NAME, NAME##_block, 1)                                                \
  TVMRT_RECURRENT_UNITS(NAME) {                                                                    \
    (void)input_forget;                                                                            \
    NAME##_row(layer->hidden, begin, end, layer->clip, x, s, job->h + row);                        \
  }                                                                                                \
  TVMRT_DEFINE_RECURRENT_CELL(NAME, 1, 0, const tvmrt_recurrent_f32_layer* layer,                  \
                              const tvmrt_tiles_f32* tiles, const tvmrt_recurrent_f32_job* job)
/* clang-format on */

#endif /* TVM_RUNTIME_KERNELS_OP_RECURRENT_H_ */

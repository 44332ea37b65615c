/*!
 * \file board/depthwise_wide_i8.h
 * \brief Depthwise convolution of 8-bit tensors on microcontrollers, kernels of 4 to 7 columns.
 *
 * The ring (board/ring.h) holds rows as int16: [channel][row of the ring][column]. A word is two
 * neighbouring columns, which SMLAD multiplies with two weights of a kernel row. A window begins with
 * the lower column of a word, or, with stride 1, with the upper one: it meets the same words with the
 * weights one column later. Four neighbouring outputs are summed at a time. The sums of a row of four
 * channels lie in scratch in front of the ring: [column, to a multiple of four][4].
 *
 * Packed weights: int8 [channel][kernel row][word][2], in quads (board/i8.h), aligned to 4 bytes.
 * Words are w0 w1, w1 w2, w2 w3 and so on: those of even number are for windows that begin with a
 * lower column, the others for the upper ones. A row has 5 or 7 weights, the last of which may be 0.
 * Weights, bias and factors: per channel, to a multiple of four channels.
 */
#ifndef TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_WIDE_I8_H_
#define TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_WIDE_I8_H_

#include "i8.h"
#include "quad_bytes_i8.h"
#include "ring.h"
#include "rows.h"

/*! \brief Most rows of a kernel. */
#define TVMRT_MICRO_WIDE_ROWS 16

/*! \brief What the steps of a layer share. */
typedef struct tvmrt_micro_wide {
  const tvmrt_micro_conv_i8* conv;
  const tvmrt_micro_data* data;
  int16_t* ring;
  int32_t* sums;
} tvmrt_micro_wide;

/*! \brief Where columns of four channels are read, and where they go. */
typedef struct tvmrt_micro_wide_columns {
  const uint8_t* x;
  int32_t step; /* bytes from one pixel to the next; 0 in padding */
  int16_t* to;
  int32_t plane;
} tvmrt_micro_wide_columns;

/*! \brief Copies n columns of some channels, at most four. */
TVMRT_NOINLINE void tvmrt_micro_wide_some(tvmrt_micro_wide_columns* at, int32_t n, int32_t channels,
                                          int is_signed) {
  const int32_t flip = is_signed ? 0x80 : 0; /* (v ^ 0x80) - 0x80 extends the sign */
  for (; n > 0; n--, at->to++, at->x += at->step) {
    for (int32_t i = 0; i < channels; i++) {
      at->to[i * at->plane] = (int16_t)((at->x[i] ^ flip) - flip);
    }
  }
}

#if TVMRT_MICRO_ASM
/* Two columns of four channels; the order of bytes gives channels 0 and 2, then 1 and 3. */
#define TVMRT_MICRO_WIDE_COPY(WIDEN)                                                       \
  __asm volatile(                                                                          \
      "1:\nldr %[e], [%[x]]\nldr %[f], [%[x], %[step]]\n"                                  \
      "add %[x], %[x], %[step], lsl #1\n" WIDEN " %[g], %[e], ror #8\n" WIDEN              \
      " %[e], %[e]\n" WIDEN " %[h], %[f], ror #8\n" WIDEN                                  \
      " %[f], %[f]\n"                                                                      \
      "pkhbt %[t], %[e], %[f], lsl #16\npkhtb %[f], %[f], %[e], asr #16\n"                 \
      "str %[f], [%[to], %[plane], lsl #1]\nstr %[t], [%[to]]\n"                           \
      "pkhbt %[t], %[g], %[h], lsl #16\npkhtb %[h], %[h], %[g], asr #16\n"                 \
      "str %[t], [%[to], %[plane]]\nstr %[h], [%[to], %[planes]]\n"                        \
      "adds %[to], %[to], #4\nsubs %[n], %[n], #2\nbgt 1b\n"                               \
      : [e] "=&r"(e), [f] "=&r"(f), [g] "=&r"(g), [h] "=&r"(h), [t] "=&r"(t), [x] "+r"(x), \
        [to] "+r"(to), [n] "+r"(pairs)                                                     \
      : [step] "r"(at->step), [plane] "r"(2 * at->plane), [planes] "r"(6 * at->plane)      \
      : "cc", "memory")
#endif

/*! \brief Copies n columns of four channels; `odd`: the first one is the upper column of a word. */
TVMRT_NOINLINE void tvmrt_micro_wide_copy(tvmrt_micro_wide_columns* at, int32_t n, int32_t odd,
                                          int is_signed) {
#if TVMRT_MICRO_ASM
  if (odd && n > 0) {
    tvmrt_micro_wide_some(at, 1, 4, is_signed);
    n--;
  }
  int32_t pairs = n & ~1;
  if (pairs > 0) {
    const uint8_t* x = at->x;
    int16_t* to = at->to;
    uint32_t e, f, g, h, t;
    if (is_signed) {
      TVMRT_MICRO_WIDE_COPY("sxtb16");
    } else {
      TVMRT_MICRO_WIDE_COPY("uxtb16");
    }
    at->x = x;
    at->to = to;
  }
  n &= 1;
#else
  (void)odd;
#endif
  tvmrt_micro_wide_some(at, n, 4, is_signed);
}

/*! \brief Where a row, counted from the first row of padding on, lies in a channel's plane. */
TVMRT_INLINE int32_t tvmrt_micro_wide_at(const tvmrt_micro_shape* s, int32_t h) {
  return h % s->kept.ring.slots * s->kept.ring.columns;
}

/*! \brief Copies an input row into the ring, in which columns of padding are; a slot is a row. */
TVMRT_NOINLINE void tvmrt_micro_wide_copy_row(const void* layer, int32_t image, int32_t slot) {
  const tvmrt_micro_wide* const d = (const tvmrt_micro_wide*)layer;
  const tvmrt_micro_conv_i8* const c = d->conv;
  const tvmrt_micro_shape* const s = &c->shape;
  const tvmrt_micro_ring* const ring = &s->kept.ring;
  const int32_t from = tvmrt_micro_find_row(s, image, slot), pad = tvmrt_micro_padding(s);
  const uint8_t zero = (uint8_t)c->x_zero, padding[4] = {zero, zero, zero, zero};
  int16_t* to = d->ring + tvmrt_micro_wide_at(s, slot) + pad;
  for (int32_t channel = 0; channel < s->in_c; channel += 4, to += 4 * ring->plane) {
    const int32_t left = s->in_c - channel;
    tvmrt_micro_wide_columns at = {padding, 0, to, ring->plane};
    if (from >= 0) {
      at.x = (const uint8_t*)d->data->x + from + channel;
      at.step = s->x_stride;
    }
    if (left < 4) {
      tvmrt_micro_wide_some(&at, ring->inside, left, c->x_signed);
    } else {
      tvmrt_micro_wide_copy(&at, ring->inside, pad & 1, c->x_signed);
    }
  }
}

/*! \brief What four neighbouring sums of a channel are made of. */
typedef struct tvmrt_micro_wide_window {
  const int32_t* at; /* elements from x to each kernel row, and -1 */
  const int16_t* x;  /* of the channel, the first of the columns */
  const int8_t* w;   /* of the channel */
  int32_t bias;
} tvmrt_micro_wide_window;

/*
 * tvmrt_micro_wide_four(sums, win, taps, stride): four neighbouring sums of a channel, 4 apart.
 */
#if TVMRT_MICRO_ASM

/* What every kernel row begins and ends with; x is where the row is from its plane on. The first two
 * quads of weights are in p and r. */
#define TVMRT_MICRO_WIDE_BEGIN \
  "1:\nadd %[x], %[plane], %[x], lsl #1\nldrd %[p], %[r], [%[w]], #8\nldrd %[u], %[v], [%[x]]\n"
#define TVMRT_MICRO_WIDE_END "ldr %[x], [%[at], #4]!\ncmp %[x], #0\nbge 1b\n"
/* Two words of weights of a quad. */
#define TVMRT_MICRO_WIDE_WORDS(QUAD) "sxtb16 %[q], %[" QUAD "], ror #8\nsxtb16 %[p], %[" QUAD "]\n"
/* The first two words of weights, and what begins in both halves of words u and v. */
#define TVMRT_MICRO_WIDE_FIRST                                    \
  TVMRT_MICRO_WIDE_WORDS("p")                                     \
  "smlad %[a], %[u], %[p], %[a]\nsmlatb %[b], %[u], %[p], %[b]\n" \
  "smlad %[c], %[v], %[p], %[c]\nsmlatb %[d], %[v], %[p], %[d]\n" \
  "ldr %[u], [%[x], #8]\n"                                        \
  "smlad %[b], %[v], %[q], %[b]\nsmlad %[d], %[u], %[q], %[d]\n"
/* The next two; word V is in front of U. */
#define TVMRT_MICRO_WIDE_NEXT(QUAD, U, V, NEXT)                                         \
  TVMRT_MICRO_WIDE_WORDS(QUAD)                                                          \
  "smlad %[a], %[" V "], %[p], %[a]\nsmlad %[b], %[" U                                  \
  "], %[q], %[b]\n"                                                                     \
  "smlad %[c], %[" U "], %[p], %[c]\nldr %[" V "], [%[x], #" NEXT "]\nsmlad %[d], %[" V \
  "], %[q], %[d]\n"
/* The last weight, which the windows of a and c have in the lower halves of U and V. */
#define TVMRT_MICRO_WIDE_LAST(U, V) \
  "smlabt %[a], %[" U "], %[q], %[a]\nsmlabt %[c], %[" V "], %[q], %[c]\n"
/* Stride 2: windows begin with words that follow each other, of which u and v are the first two.
 * p and q are weights that follow each other, too. */
#define TVMRT_MICRO_WIDE_PAIRS(SECOND, THIRD, MULTIPLY)                                            \
  "smlad %[a], %[u], %[p], %[a]\n" MULTIPLY                                                        \
  " %[a], %[v], %[q], %[a]\n"                                                                      \
  "smlad %[b], %[v], %[p], %[b]\nldrd %[u], %[v], [%[x], #" SECOND "]\n" MULTIPLY                  \
  " %[b], %[u], %[q], %[b]\nsmlad %[c], %[u], %[p], %[c]\n" MULTIPLY                               \
  " %[c], %[v], %[q], %[c]\nsmlad %[d], %[v], %[p], %[d]\nldr %[u], [%[x], #" THIRD "]\n" MULTIPLY \
  " %[d], %[u], %[q], %[d]\n"
/* The last weight of a row of five. */
#define TVMRT_MICRO_WIDE_LASTS                                     \
  "sxtb16 %[q], %[r], ror #8\nldrd %[u], %[v], [%[x], #8]\n"       \
  "smlabt %[a], %[u], %[q], %[a]\nsmlabt %[b], %[v], %[q], %[b]\n" \
  "ldrd %[u], %[v], [%[x], #16]\n"                                 \
  "smlabt %[c], %[u], %[q], %[c]\nsmlabt %[d], %[v], %[q], %[d]\n"

#define TVMRT_MICRO_WIDE_RUN(ROW)                                                         \
  __asm volatile(                                                                         \
      TVMRT_MICRO_WIDE_BEGIN ROW TVMRT_MICRO_WIDE_END                                     \
      : [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d), [p] "=&r"(p), [q] "=&r"(q),   \
        [r] "=&r"(r), [u] "=&r"(u), [v] "=&r"(v), [x] "+r"(x), [at] "+r"(at), [w] "+r"(w) \
      : [plane] "r"(win->x)                                                               \
      : "cc", "memory")

TVMRT_INLINE void tvmrt_micro_wide_four(int32_t* sums, const tvmrt_micro_wide_window* win, int taps,
                                        int32_t stride) {
  const int32_t* at = win->at;
  const int8_t* w = win->w;
  int32_t a = win->bias, b = a, c = a, d = a, x = *at;
  uint32_t p, q, r, u, v;
  if (taps == 5 && stride == 1) {
    TVMRT_MICRO_WIDE_RUN(TVMRT_MICRO_WIDE_FIRST TVMRT_MICRO_WIDE_NEXT("r", "u", "v", "12")
                             TVMRT_MICRO_WIDE_LAST("u", "v"));
  } else if (taps == 5) {
    TVMRT_MICRO_WIDE_RUN("sxtb16 %[p], %[p]\nsxtb16 %[q], %[r]\n" TVMRT_MICRO_WIDE_PAIRS(
        "8", "16", "smlad") TVMRT_MICRO_WIDE_LASTS);
  } else if (stride == 1) {
    TVMRT_MICRO_WIDE_RUN(TVMRT_MICRO_WIDE_FIRST TVMRT_MICRO_WIDE_NEXT(
        "r", "u", "v", "12") "ldr %[r], [%[w]], #4\n" TVMRT_MICRO_WIDE_NEXT("r", "v", "u", "16")
                             TVMRT_MICRO_WIDE_LAST("v", "u"));
  } else {
    TVMRT_MICRO_WIDE_RUN("sxtb16 %[p], %[p]\nsxtb16 %[q], %[r]\n" TVMRT_MICRO_WIDE_PAIRS(
        "8", "16",
        "smlad") "ldr %[r], [%[w]], #4\nldrd %[u], %[v], [%[x], #8]\n" TVMRT_MICRO_WIDE_WORDS("r")
                             TVMRT_MICRO_WIDE_PAIRS("16", "24", "smlabt"));
  }
  sums[0] = a;
  sums[4] = b;
  sums[8] = c;
  sums[12] = d;
}
#else
/*! \brief Where a weight of a row is: the first of its word, the last one the second. */
TVMRT_INLINE int32_t tvmrt_micro_wide_place(int32_t tap, int32_t taps) {
  if (tap == taps - 1) return 2 * tap - 1;
  return tap / 2 * 4 + tap % 2;
}

TVMRT_INLINE void tvmrt_micro_wide_four(int32_t* sums, const tvmrt_micro_wide_window* win, int taps,
                                        int32_t stride) {
  const int8_t* w = win->w;
  int32_t a = win->bias, b = a, c = a, d = a;
  for (const int32_t* at = win->at; *at >= 0; at++, w += 2 * (taps - 1)) {
    const int16_t* x = win->x + *at;
    for (int32_t tap = 0; tap < taps; tap++, x++) {
      const int32_t weight = w[tvmrt_micro_wide_place(tap, taps)];
      a += x[0] * weight;
      b += x[stride] * weight;
      c += x[2 * stride] * weight;
      d += x[3 * stride] * weight;
    }
  }
  sums[0] = a;
  sums[4] = b;
  sums[8] = c;
  sums[12] = d;
}
#endif

/*! \brief The sums of an output row of one channel, whose plane begins with the window's x. */
TVMRT_INLINE void tvmrt_micro_wide_sums(int32_t* sums, tvmrt_micro_wide_window win, int32_t columns,
                                        int taps, int32_t stride) {
  for (; columns > 0; columns -= 4, sums += 16, win.x += 4 * stride) {
    tvmrt_micro_wide_four(sums, &win, taps, stride);
  }
}

/*! \brief The sums of an output row of four channels. */
TVMRT_INLINE void tvmrt_micro_wide_quad(const tvmrt_micro_wide* d, const int32_t* at,
                                        int32_t channel, int taps) {
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const int32_t plane = s->kept.ring.plane, weights = s->kernel[0] * (taps - 1) * 2;
  const int32_t* const bias = d->data->bias + channel;
  tvmrt_micro_wide_window win = {at, d->ring + channel * plane,
                                 (const int8_t*)d->data->weights + channel * weights, 0};
  for (int32_t i = 0; i < 4; i++, win.x += plane, win.w += weights) {
    win.bias = bias[i];
    if (s->stride[1] == 1) {
      tvmrt_micro_wide_sums(d->sums + i, win, s->out[1], taps, 1);
    } else {
      tvmrt_micro_wide_sums(d->sums + i, win, s->out[1], taps, 2);
    }
  }
}

TVMRT_NOINLINE void tvmrt_micro_wide_quad_5(const tvmrt_micro_wide* d, const int32_t* at,
                                            int32_t channel) {
  tvmrt_micro_wide_quad(d, at, channel, 5);
}

TVMRT_NOINLINE void tvmrt_micro_wide_quad_7(const tvmrt_micro_wide* d, const int32_t* at,
                                            int32_t channel) {
  tvmrt_micro_wide_quad(d, at, channel, 7);
}

/*! \brief The bytes of four channels of an output row. */
TVMRT_NOINLINE void tvmrt_micro_wide_bytes(const tvmrt_micro_wide* d, uint8_t* y,
                                           const tvmrt_micro_factor* factors) {
  tvmrt_micro_quad_bytes(d->conv, y, d->sums, 4, factors);
}

/*! \brief An output row; a step makes one. */
TVMRT_INLINE void tvmrt_micro_wide_row(const tvmrt_micro_wide* d, int32_t row, int32_t slot,
                                       int taps) {
  const tvmrt_micro_shape* const s = &d->conv->shape;
  const tvmrt_micro_data* const data = d->data;
  const int32_t pixel = row * s->out[1];
  int32_t at[TVMRT_MICRO_WIDE_ROWS + 1];
  for (int32_t kh = 0; kh < s->kernel[0]; kh++) {
    at[kh] = tvmrt_micro_wide_at(s, slot + kh * s->dilation[0]);
  }
  at[s->kernel[0]] = -1;
  for (int32_t channel = 0; channel < s->out_c; channel += 4) {
    const int32_t left = s->out_c - channel;
    if (taps == 5) {
      tvmrt_micro_wide_quad_5(d, at, channel);
    } else {
      tvmrt_micro_wide_quad_7(d, at, channel);
    }
    if (data->epilogue == NULL && left >= 4) {
      uint8_t* const y = (uint8_t*)data->y + pixel * s->y_stride + channel;
      tvmrt_micro_wide_bytes(d, y, (const tvmrt_micro_factor*)data->factors + channel);
    } else {
      tvmrt_micro_finish(d->conv, data, d->sums, 4, pixel, s->out[1], channel, left < 4 ? left : 4);
    }
  }
}

static inline void tvmrt_micro_wide_row_5(const void* layer, int32_t row, int32_t rows,
                                          int32_t slot) {
  (void)rows;
  tvmrt_micro_wide_row((const tvmrt_micro_wide*)layer, row, slot, 5);
}

static inline void tvmrt_micro_wide_row_7(const void* layer, int32_t row, int32_t rows,
                                          int32_t slot) {
  (void)rows;
  tvmrt_micro_wide_row((const tvmrt_micro_wide*)layer, row, slot, 7);
}

/*! \brief A layer whose scratch begins there. */
TVMRT_INLINE tvmrt_micro_wide tvmrt_micro_wide_layer(const tvmrt_micro_conv_i8* c,
                                                     const tvmrt_micro_data* data,
                                                     uint8_t* scratch) {
  const int32_t sums = (c->shape.out[1] + 3) / 4 * 64;
  const tvmrt_micro_wide d = {c, data, (int16_t*)(void*)(scratch + sums), (int32_t*)(void*)scratch};
  return d;
}

/*! \brief What a layer does in a step, by rows of 5 or 7 weights. */
TVMRT_INLINE tvmrt_micro_steps tvmrt_micro_wide_steps(const tvmrt_micro_shape* s, int taps) {
  const tvmrt_micro_steps steps = {tvmrt_micro_wide_copy_row,
                                   taps == 5 ? tvmrt_micro_wide_row_5 : tvmrt_micro_wide_row_7,
                                   s->kept.ring.slots, s->stride[0], 1};
  return steps;
}

/*! \brief tvmrt_micro_depthwise_5_i8_run() by rows of 5 or 7 weights. */
TVMRT_INLINE int tvmrt_micro_wide_run(const tvmrt_micro_conv_i8* c, const tvmrt_micro_data* data,
                                      int taps) {
  const tvmrt_micro_shape* const s = &c->shape;
  uint8_t* const scratch = (uint8_t*)tvmrt_scratch_alloc(s->scratch);
  if (scratch == NULL) return -1;
  const tvmrt_micro_wide d = tvmrt_micro_wide_layer(c, data, scratch);
  tvmrt_micro_fill(d.ring, scratch + s->scratch, (uint16_t)c->x_zero * 0x00010001u);
  tvmrt_micro_walk_ring(s, tvmrt_micro_wide_steps(s, taps), &d);
  return tvmrt_scratch_free(scratch);
}

/*! \brief tvmrt_micro_depthwise_5_i8_rows() by rows of 5 or 7 weights. */
TVMRT_INLINE int tvmrt_micro_wide_rows(const tvmrt_micro_conv_i8* whole,
                                       const tvmrt_micro_data* data, const tvmrt_micro_rows* at,
                                       uint8_t* scratch, int taps) {
  const tvmrt_micro_conv_i8 part = tvmrt_micro_ring_part(whole, at);
  const tvmrt_micro_shape* const s = &part.shape;
  const tvmrt_micro_wide d = tvmrt_micro_wide_layer(&part, data, scratch);
  if (at->first == 0) {
    tvmrt_micro_fill(d.ring, scratch + s->scratch, (uint16_t)part.x_zero * 0x00010001u);
  }
  tvmrt_micro_walk_rows(&whole->shape, at, tvmrt_micro_wide_steps(s, taps), 1, &d);
  return 0;
}

/*!
 * \brief y = depthwise convolution of x, by a kernel of 4 or 5 columns; _7_: of 6 or 7.
 *
 * \param c    [in] Shape; in_c is out_c, columns are not dilated and their stride is 1 or 2.
 * \param data [in] The tensors; shift is not used. y may be x only as board/ring.h says.
 *
 * Values and threads as tvmrt_micro_conv_i8_run(). Errors: 0, or -1 where there is no scratch.
 */
static inline int tvmrt_micro_depthwise_5_i8_run(const tvmrt_micro_conv_i8* c,
                                                 const tvmrt_micro_data* data) {
  return tvmrt_micro_wide_run(c, data, 5);
}

static inline int tvmrt_micro_depthwise_7_i8_run(const tvmrt_micro_conv_i8* c,
                                                 const tvmrt_micro_data* data) {
  return tvmrt_micro_wide_run(c, data, 7);
}

/*! \brief Some rows of it, for chains; as tvmrt_micro_depthwise_3x3_i8_rows(). */
static inline int tvmrt_micro_depthwise_5_i8_rows(const tvmrt_micro_conv_i8* whole,
                                                  const tvmrt_micro_data* data,
                                                  const tvmrt_micro_rows* at, uint8_t* scratch) {
  return tvmrt_micro_wide_rows(whole, data, at, scratch, 5);
}

static inline int tvmrt_micro_depthwise_7_i8_rows(const tvmrt_micro_conv_i8* whole,
                                                  const tvmrt_micro_data* data,
                                                  const tvmrt_micro_rows* at, uint8_t* scratch) {
  return tvmrt_micro_wide_rows(whole, data, at, scratch, 7);
}

#endif /* TVM_RUNTIME_KERNELS_BOARD_DEPTHWISE_WIDE_I8_H_ */

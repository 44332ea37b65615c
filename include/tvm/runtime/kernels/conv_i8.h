/*!
 * \file conv_i8.h
 * \brief Convolution of 8-bit tensors, 1-D to 3-D, dense, grouped or depthwise.
 *
 * Memory is channels-last: [N][D][H][W][C] with a pixel stride, so that input and output may be
 * channel slices of wider tensors. 1-D and 2-D convolutions have the missing extents 1. A matrix
 * product is a 1 x 1 convolution of M pixels, K input and N output channels. The tiles come from
 * tile_i8.h (dense and grouped) or depthwise_i8.h.
 *
 * How the windows are read follows from the shape alone (tvmrt_conv_i8_mode), and so does the
 * length of the segments by which weights are packed:
 *
 *     mode    when                                    segments       run in bytes
 *     direct  no horizontal padding, taps contiguous  KD * KH        KW * IC
 *             and dilated (KW > 1) or groups > 1      KD * KH * KW   IC / groups
 *     ring    horizontal padding or strided channels  as direct, on padded copies of the rows
 *     gather  the run would be shorter than 4 bytes   1              KD * KH * KW * IC / groups,
 *                                                                    zeros to a multiple of 4
 *
 * Example: 3 x 3, IC 3, OC 64, padding 1, stride 2 on AVX-512 VNNI with OB 4: ring mode, 3 segments
 * with run 9, which are 3 quads each (bytes 0-3, 4-7 and 5-8; in the last only the byte 8 has a
 * weight), one block of channels: 3 * 3 quads * 4 vectors * 64 bytes = 2304 bytes of weights.
 */
#ifndef TVM_RUNTIME_KERNELS_CONV_I8_H_
#define TVM_RUNTIME_KERNELS_CONV_I8_H_

#include <tvm/runtime/c_backend_api.h>

#include "parallel.h"
#include "rows_i8.h"
#include "tile_i8.h"

/*! \brief Bytes of packed weights that are kept in the second-level cache while the image passes
 * by. */
#ifndef TVMRT_I8_WEIGHTS_IN_CACHE
#define TVMRT_I8_WEIGHTS_IN_CACHE (512 * 1024)
#endif
/*! \brief Bytes of input or of int32 sums that one sweep over the channels reuses from the
 * first-level cache. */
#ifndef TVMRT_I8_CHUNK_BYTES
#define TVMRT_I8_CHUNK_BYTES (16 * 1024)
#endif

/*! \brief Shape of a convolution and how it is cut into tiles. Extents of images are {depth,
 * height, width}. */
typedef struct tvmrt_conv_i8 {
  int32_t batch;
  int32_t in[3];
  int32_t in_c; /*!< Input channels of all groups together. */
  int32_t out[3];
  int32_t out_c; /*!< Output channels of all groups together. */
  int32_t kernel[3];
  int32_t stride[3];
  int32_t dilation[3];
  int32_t pad[3]; /*!< Padding at the start; negative crops. The end follows from `out`. */
  int32_t groups;
  int64_t x_stride;    /*!< Bytes from one input pixel to the next; at least in_c. */
  int64_t y_stride[4]; /*!< Elements of the output from one batch, plane, row, pixel to the next. */
  int64_t y_pixel;     /*!< Elements of a pixel of the tensor; y_stride[3] if none is skipped. */
  int32_t x_signed;    /*!< 1: int8, 0: uint8; as in the tiles. */
  int32_t x_zero;      /*!< Zero point of the input, which padding has. */
  int32_t depthwise;   /*!< Channels in a block if depthwise, see depthwise_i8.h; 0: dense. */
  int32_t weights_step; /*!< Bytes of packed weights of a block; only for depthwise. */
  int32_t spare_row;    /*!< Kernel row that a depthwise tile reads twice, or -1. */
  /*! {segment, first byte} of each quad that is counted twice, see tile_i8.h. */
  int32_t extra[TVMRT_TILE_I8_MAX_EXTRAS][2];
  int32_t extras; /*!< Number of those quads. */
  int32_t ob;     /*!< Vectors of channels in a block; only for dense. */
  int32_t wt;     /*!< Pixels in a tile. */
  /*! tile[0]: ob vectors, tile[1]: the vectors left over in the last block of a group; each for wt
     pixels and for tvmrt_conv_i8_width() % wt. Those that do not occur are NULL. */
  tvmrt_tile_i8 tile[2][2];
  int32_t threads; /*!< 1: on the caller only; 0: on all workers where the work is worth it. */
} tvmrt_conv_i8;

/*! \brief The tensors of one call; borrowed. */
typedef struct tvmrt_conv_i8_data {
  const void* x;
  const int8_t* weights; /*!< Packed, see tile_i8.h. */
  const int32_t* bias;   /*!< Folded; [groups][channels of a group padded to whole vectors]. */
  const float* scale;    /*!< Laid out like bias; NULL with an epilogue that needs none. */
  const int32_t* shift;  /*!< Laid out like bias, or NULL. */
  void* y;
  const tvmrt_i8_range* range; /*!< Output as bytes. Not used with an epilogue. */
  tvmrt_i8_epilogue epilogue;  /*!< NULL: y = rescaled bytes. */
  const void* ctx;             /*!< For the epilogue. */
  int32_t y_bytes;             /*!< Size of one element of y: 1 or 4. */
} tvmrt_conv_i8_data;

typedef enum tvmrt_conv_i8_mode_kind {
  TVMRT_CONV_I8_DIRECT,
  TVMRT_CONV_I8_RING,
  TVMRT_CONV_I8_GATHER
} tvmrt_conv_i8_mode_kind;

static inline int32_t tvmrt_i8_ceil_div(int32_t a, int32_t b) { return (a + b - 1) / b; }

/*! \brief 1 if every tap is a segment of its own, 0 if every kernel row is. */
static inline int tvmrt_conv_i8_per_tap(const tvmrt_conv_i8* c) {
  if (c->depthwise) return c->kernel[0] * c->kernel[1] == 1;
  return c->groups > 1 || (c->dilation[2] > 1 && c->kernel[2] > 1);
}

/*! \brief Bytes of a segment before anything is gathered; depthwise tiles use none of it. */
static inline int32_t tvmrt_conv_i8_natural_run(const tvmrt_conv_i8* c) {
  if (c->depthwise) return 4;
  return tvmrt_conv_i8_per_tap(c) ? c->in_c / c->groups : c->kernel[2] * c->in_c;
}

/*! \brief How the windows of this shape are read. */
static inline tvmrt_conv_i8_mode_kind tvmrt_conv_i8_mode(const tvmrt_conv_i8* c) {
  int32_t reach = (c->out[2] - 1) * c->stride[2] + (c->kernel[2] - 1) * c->dilation[2] - c->pad[2];
  if (tvmrt_conv_i8_natural_run(c) < 4) return TVMRT_CONV_I8_GATHER;
  if (c->pad[2] > 0 || reach >= c->in[2]) return TVMRT_CONV_I8_RING;
  if (!c->depthwise && !tvmrt_conv_i8_per_tap(c) && c->kernel[2] > 1 && c->x_stride != c->in_c) {
    return TVMRT_CONV_I8_RING;
  }
  return TVMRT_CONV_I8_DIRECT;
}

static inline int32_t tvmrt_conv_i8_taps(const tvmrt_conv_i8* c) {
  return c->kernel[0] * c->kernel[1] * c->kernel[2];
}

static inline int32_t tvmrt_conv_i8_segments(const tvmrt_conv_i8* c) {
  if (tvmrt_conv_i8_natural_run(c) < 4) return 1;
  return c->kernel[0] * c->kernel[1] * (tvmrt_conv_i8_per_tap(c) ? c->kernel[2] : 1) +
         (c->depthwise && c->spare_row >= 0);
}

static inline int32_t tvmrt_conv_i8_run_bytes(const tvmrt_conv_i8* c) {
  int32_t run = tvmrt_conv_i8_natural_run(c);
  return run < 4 ? tvmrt_i8_ceil_div(tvmrt_conv_i8_taps(c) * (c->in_c / c->groups), 4) * 4 : run;
}

/*! \brief 1 if all output pixels lie behind one another with the windows of a single row. */
static inline int tvmrt_conv_i8_flat(const tvmrt_conv_i8* c) {
  int plain = tvmrt_conv_i8_mode(c) == TVMRT_CONV_I8_DIRECT && tvmrt_conv_i8_taps(c) == 1;
  for (int i = 0; i < 3; i++)
    plain = plain && c->stride[i] == 1 && c->pad[i] == 0 && c->in[i] == c->out[i];
  return plain && c->y_stride[2] == c->out[2] * c->y_stride[3] &&
         c->y_stride[1] == c->out[1] * c->y_stride[2] &&
         (c->batch == 1 || c->y_stride[0] == c->out[0] * c->y_stride[1]);
}

/*! \brief Length in pixels of the rows that are cut into tiles. */
static inline int32_t tvmrt_conv_i8_width(const tvmrt_conv_i8* c) {
  return tvmrt_conv_i8_flat(c) ? c->batch * c->out[0] * c->out[1] * c->out[2] : c->out[2];
}

/*! \brief Output channels of a block. */
static inline int32_t tvmrt_conv_i8_block_channels(const tvmrt_conv_i8* c) {
  return c->depthwise ? c->depthwise : c->ob * TVMRT_I8_LANES;
}

/*! \brief Output channels of a group, padded to whole vectors (depthwise: to whole blocks). */
static inline int32_t tvmrt_conv_i8_padded(const tvmrt_conv_i8* c) {
  int32_t unit = c->depthwise ? c->depthwise : TVMRT_I8_LANES;
  return tvmrt_i8_ceil_div(c->out_c / c->groups, unit) * unit;
}

/*! \brief Everything that one task keeps while it walks over its part of the output. */
typedef struct tvmrt_conv_i8_walk {
  const tvmrt_conv_i8* conv;
  const tvmrt_conv_i8_data* data;
  tvmrt_tile_i8_args args;
  tvmrt_conv_i8_mode_kind mode;
  int32_t width, rows, chunk,
      chunks;                    /* pixels in a row, rows, pixels in a chunk, chunks in a row */
  int32_t blocks;                /* blocks of channels in a group */
  int64_t channel_bytes;         /* packed weights of one channel */
  int32_t ring_width, ring_rows; /* pixels in a padded row, number of padded rows */
  const uint8_t* small[64 / sizeof(void*)]; /* scratch where 64 bytes do: a few segments */
  const uint8_t** segment;                  /* scratch: starts of the segments */
  uint8_t* ring;                            /* scratch: the padded rows, then a row of padding */
  uint8_t* patches;                         /* scratch: gathered windows */
  int32_t* sums;                            /* scratch: sums of the windows of a chunk */
  int32_t* acc;                             /* scratch: int32 sums of a chunk */
  int64_t acc_stride;
  int32_t plane, next_row; /* the ring holds the rows before next_row of this input plane */
} tvmrt_conv_i8_walk;

static inline void tvmrt_conv_i8_plan(tvmrt_conv_i8_walk* w, const tvmrt_conv_i8* c,
                                      const tvmrt_conv_i8_data* data) {
  int32_t padded = tvmrt_conv_i8_padded(c);
  int32_t run = tvmrt_conv_i8_run_bytes(c);
  int64_t wide = (int64_t)c->kernel[0] * c->kernel[1] * c->stride[2] * c->in_c;
  int64_t least;
  memset(w, 0, sizeof(*w));
  w->conv = c;
  w->data = data;
  w->mode = tvmrt_conv_i8_mode(c);
  w->width = tvmrt_conv_i8_width(c);
  w->rows = tvmrt_conv_i8_flat(c) ? 1 : c->batch * c->out[0] * c->out[1];
  w->blocks = tvmrt_i8_ceil_div(padded, tvmrt_conv_i8_block_channels(c));
  w->acc_stride = (int64_t)c->groups * padded;
  if (w->mode == TVMRT_CONV_I8_GATHER) wide = run;
  if (c->depthwise) wide = 1; /* no channel is read twice */
  if (data->epilogue != NULL && w->acc_stride * 4 > wide) wide = w->acc_stride * 4;
  least = TVMRT_I8_CHUNK_BYTES / wide / c->wt * c->wt;
  w->chunk = least < 2 * c->wt ? 2 * c->wt : (int32_t)least;
  if (w->chunk > w->width) w->chunk = w->width;
  w->chunks = tvmrt_i8_ceil_div(w->width, w->chunk);
  w->args.segments = tvmrt_conv_i8_segments(c);
  w->args.run = run;
  w->channel_bytes = ((int64_t)w->args.segments * tvmrt_i8_ceil_div(run, 4) + c->extras) *
                     (TVMRT_I8_QUAD_BYTES / TVMRT_I8_LANES);
  w->args.extra = c->extra[0];
  w->args.extras = c->extras;
  if (c->depthwise) w->channel_bytes = c->weights_step / c->depthwise;
  w->args.x_pixel = w->mode == TVMRT_CONV_I8_RING ? c->in_c : c->x_stride;
  w->args.x_step = c->stride[2] * c->x_stride;
  if (w->mode == TVMRT_CONV_I8_GATHER) w->args.x_step = run;
  if (w->mode == TVMRT_CONV_I8_RING) {
    w->args.x_step = (int64_t)c->stride[2] * c->in_c;
    w->ring_width = (c->out[2] - 1) * c->stride[2] + (c->kernel[2] - 1) * c->dilation[2] + 1;
    w->ring_rows =
        c->kernel[0] > 1 ? c->kernel[0] * c->kernel[1] : (c->kernel[1] - 1) * c->dilation[1] + 1;
  }
  w->args.range = data->epilogue != NULL ? NULL : data->range;
  w->plane = -1;
}

/*! \brief Bytes of a row of padding: as much as the segments of one output row can reach. */
static inline int64_t tvmrt_conv_i8_pad_row_bytes(const tvmrt_conv_i8_walk* w) {
  const tvmrt_conv_i8* c = w->conv;
  if (w->mode == TVMRT_CONV_I8_RING) return (int64_t)w->ring_width * c->in_c;
  if (w->mode == TVMRT_CONV_I8_GATHER || tvmrt_conv_i8_flat(c)) return 0;
  return (int64_t)c->in[2] * c->x_stride;
}

static inline int64_t tvmrt_i8_round_up_64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

/*! \brief Bytes of each part of a task's scratch, in the order in which they lie in memory. */
typedef struct tvmrt_conv_i8_scratch {
  int64_t segment, ring, pad_row, patches, sums, acc;
} tvmrt_conv_i8_scratch;

static inline tvmrt_conv_i8_scratch tvmrt_conv_i8_measure(const tvmrt_conv_i8_walk* w) {
  const tvmrt_conv_i8* c = w->conv;
  tvmrt_conv_i8_scratch s = {0, 0, 0, 0, 0, 0};
  s.segment = tvmrt_i8_round_up_64((int64_t)w->args.segments * (int64_t)sizeof(*w->segment));
  s.ring = w->ring_rows * tvmrt_i8_round_up_64((int64_t)w->ring_width * c->in_c);
  s.pad_row = tvmrt_i8_round_up_64(tvmrt_conv_i8_pad_row_bytes(w));
  if (w->mode == TVMRT_CONV_I8_GATHER) {
    s.patches = tvmrt_i8_round_up_64((int64_t)w->chunk * w->args.run);
  }
  if (w->data->shift != NULL) s.sums = tvmrt_i8_round_up_64((int64_t)w->chunk * 4);
  if (w->data->epilogue != NULL) s.acc = w->chunk * w->acc_stride * 4;
  return s;
}

/*! \brief Bytes that one task asks of tvmrt_scratch_alloc(); 0 where its stack is enough. */
static inline int64_t tvmrt_conv_i8_scratch_bytes(const tvmrt_conv_i8_walk* w) {
  const tvmrt_conv_i8_scratch s = tvmrt_conv_i8_measure(w);
  const int64_t bytes = s.segment + s.ring + s.pad_row + s.patches + s.sums + s.acc;
  return bytes <= (int64_t)sizeof(w->small) ? 0 : bytes;
}

/*!
 * \brief Lays out the scratch of a task.
 * \param block [out] What to give back, or NULL.
 * \return 0, or -1 with the text of tvmrt_scratch_alloc().
 */
static inline int tvmrt_conv_i8_alloc(tvmrt_conv_i8_walk* w, void** block) {
  const tvmrt_conv_i8_scratch s = tvmrt_conv_i8_measure(w);
  const int64_t bytes = tvmrt_conv_i8_scratch_bytes(w);
  uint8_t* p = (uint8_t*)w->small;
  *block = NULL;
  if (bytes > 0) {
    p = (uint8_t*)tvmrt_scratch_alloc(bytes);
    if (p == NULL) return -1;
    *block = p;
  }
  w->segment = (const uint8_t**)(void*)p;
  w->args.segment = w->segment;
  w->ring = p + s.segment;
  w->patches = w->ring + s.ring + s.pad_row;
  w->sums = (int32_t*)(void*)(w->patches + s.patches);
  w->acc = (int32_t*)(void*)(w->patches + s.patches + s.sums);
  memset(w->ring + s.ring, w->conv->x_zero, (size_t)s.pad_row);
  return 0;
}

static inline uint8_t* tvmrt_conv_i8_ring_row(const tvmrt_conv_i8_walk* w, int32_t slot) {
  return w->ring + slot * tvmrt_i8_round_up_64((int64_t)w->ring_width * w->conv->in_c);
}

static inline const uint8_t* tvmrt_conv_i8_input_row(const tvmrt_conv_i8_walk* w, int32_t plane,
                                                     int32_t h) {
  const tvmrt_conv_i8* c = w->conv;
  return (const uint8_t*)w->data->x + ((int64_t)plane * c->in[1] + h) * c->in[2] * c->x_stride;
}

/*! \brief Copies `pixels` pixels of one row from column `first` on, with padding where there is no
 * such column. */
static inline void tvmrt_conv_i8_copy_row(const tvmrt_conv_i8* c, uint8_t* to, const uint8_t* row,
                                          int32_t first, int32_t pixels) {
  int32_t left = first < 0 ? (-first < pixels ? -first : pixels) : 0;
  int32_t end = c->in[2] - first < pixels ? c->in[2] - first : pixels;
  memset(to, c->x_zero, (size_t)left * (size_t)c->in_c);
  if (end > left) {
    const uint8_t* from = row + (int64_t)(first + left) * c->x_stride;
    if (c->x_stride == c->in_c) {
      memcpy(to + (int64_t)left * c->in_c, from, (size_t)(end - left) * (size_t)c->in_c);
    } else {
      for (int32_t i = left; i < end; i++, from += c->x_stride) {
        memcpy(to + (int64_t)i * c->in_c, from, (size_t)c->in_c);
      }
    }
  } else {
    end = left;
  }
  memset(to + (int64_t)end * c->in_c, c->x_zero, (size_t)(pixels - end) * (size_t)c->in_c);
}

/*! \brief The padded copy of input row h of a plane: made now unless the ring has it. */
static inline const uint8_t* tvmrt_conv_i8_padded_row(tvmrt_conv_i8_walk* w, int32_t plane,
                                                      int32_t h, int32_t slot) {
  const tvmrt_conv_i8* c = w->conv;
  int32_t from = h;
  if (c->kernel[0] > 1) { /* rows of several planes: none is kept */
    uint8_t* to = tvmrt_conv_i8_ring_row(w, slot);
    tvmrt_conv_i8_copy_row(c, to, tvmrt_conv_i8_input_row(w, plane, h), -c->pad[2], w->ring_width);
    return to;
  }
  if (plane != w->plane) {
    w->plane = plane;
    w->next_row = c->dilation[1] > 1 ? 0 : h;
  }
  if (w->next_row < h) from = w->next_row > h - w->ring_rows ? w->next_row : h - w->ring_rows + 1;
  for (; w->next_row <= h && from <= h; from++) {
    tvmrt_conv_i8_copy_row(c, tvmrt_conv_i8_ring_row(w, from % w->ring_rows),
                           tvmrt_conv_i8_input_row(w, plane, from), -c->pad[2], w->ring_width);
  }
  if (w->next_row <= h) w->next_row = h + 1;
  return tvmrt_conv_i8_ring_row(w, h % w->ring_rows);
}

/*! \brief Where the segments of output row `row` start; `row` counts [batch][depth][height]. */
static inline void tvmrt_conv_i8_set_segments(tvmrt_conv_i8_walk* w, int32_t row) {
  const tvmrt_conv_i8* c = w->conv;
  int32_t taps = tvmrt_conv_i8_per_tap(c) ? c->kernel[2] : 1;
  int64_t tap_step =
      c->dilation[2] * (w->mode == TVMRT_CONV_I8_RING ? (int64_t)c->in_c : c->x_stride);
  int32_t top = row % c->out[1] * c->stride[1] - c->pad[1];
  int32_t front = row / c->out[1] % c->out[0] * c->stride[0] - c->pad[0];
  int32_t batch = row / c->out[1] / c->out[0];
  const uint8_t* none = tvmrt_conv_i8_ring_row(w, w->ring_rows);
  const uint8_t** segment = w->segment;
  if (w->mode == TVMRT_CONV_I8_GATHER) {
    segment[0] = w->patches;
    return;
  }
  for (int32_t kd = 0; kd < c->kernel[0]; kd++) {
    int32_t d = front + kd * c->dilation[0];
    for (int32_t kh = 0; kh < c->kernel[1]; kh++) {
      int32_t h = top + kh * c->dilation[1];
      const uint8_t* start = none;
      if (d >= 0 && d < c->in[0] && h >= 0 && h < c->in[1]) {
        int32_t plane = batch * c->in[0] + d;
        start = w->mode == TVMRT_CONV_I8_RING
                    ? tvmrt_conv_i8_padded_row(w, plane, h, kd * c->kernel[1] + kh)
                    : tvmrt_conv_i8_input_row(w, plane, h) - c->pad[2] * c->x_stride;
      }
      for (int32_t t = 0; t < taps; t++) *segment++ = start + t * tap_step;
    }
  }
  if (c->depthwise && c->spare_row >= 0) *segment = w->segment[c->spare_row];
}

/*! \brief Copies the windows of a chunk for one group: [pixel][kd][kh][kw][channel of the group],
 * then zeros. */
static inline void tvmrt_conv_i8_gather(tvmrt_conv_i8_walk* w, int32_t row, int32_t first,
                                        int32_t pixels, int32_t group) {
  const tvmrt_conv_i8* c = w->conv;
  const int32_t channels = c->in_c / c->groups;
  int32_t top = row % c->out[1] * c->stride[1] - c->pad[1];
  int32_t front = row / c->out[1] % c->out[0] * c->stride[0] - c->pad[0];
  int32_t batch = row / c->out[1] / c->out[0];
  for (int32_t p = 0; p < pixels; p++) {
    uint8_t* to = w->patches + (int64_t)p * w->args.run;
    int32_t left = (first + p) * c->stride[2] - c->pad[2];
    memset(to + w->args.run - 4, 0, 4);
    for (int32_t tap = 0; tap < tvmrt_conv_i8_taps(c); tap++, to += channels) {
      int32_t x = left + tap % c->kernel[2] * c->dilation[2];
      int32_t h = top + tap / c->kernel[2] % c->kernel[1] * c->dilation[1];
      int32_t d = front + tap / c->kernel[2] / c->kernel[1] * c->dilation[0];
      int inside = x >= 0 && x < c->in[2] && h >= 0 && h < c->in[1] && d >= 0 && d < c->in[0];
      const uint8_t* from =
          tvmrt_conv_i8_input_row(w, batch * c->in[0] + (inside ? d : 0), inside ? h : 0) +
          (inside ? x : 0) * c->x_stride + (int64_t)group * channels;
      for (int32_t i = 0; i < channels; i++) to[i] = inside ? from[i] : (uint8_t)c->x_zero;
    }
  }
}

/*! \brief Element offset of an output pixel. */
static inline int64_t tvmrt_conv_i8_y_offset(const tvmrt_conv_i8_walk* w, int32_t row,
                                             int32_t pixel) {
  const tvmrt_conv_i8* c = w->conv;
  int64_t batch = row / c->out[1] / c->out[0];
  return batch * c->y_stride[0] + row / c->out[1] % c->out[0] * c->y_stride[1] +
         row % c->out[1] * c->y_stride[2] + pixel * c->y_stride[3];
}

/*! \brief Bytes from the starts of the segments to the window of a row's pixel, for one group. */
static inline int64_t tvmrt_conv_i8_x_offset(const tvmrt_conv_i8_walk* w, int32_t pixel,
                                             int32_t group) {
  if (w->mode == TVMRT_CONV_I8_GATHER) return 0;
  return pixel * w->args.x_step + (int64_t)group * (w->conv->in_c / w->conv->groups);
}

/*! \brief 1 if any of n numbers is not 0. */
static inline int tvmrt_i8_any(const int32_t* v, int32_t n) {
  int32_t any = 0;
  for (int32_t i = 0; i < n; i++) any |= v[i];
  return any != 0;
}

/*! \brief All pixels of a chunk for one block of channels. */
static inline void tvmrt_conv_i8_block(tvmrt_conv_i8_walk* w, int32_t row, int32_t first,
                                       int32_t pixels, int32_t block) {
  const tvmrt_conv_i8* c = w->conv;
  const tvmrt_conv_i8_data* data = w->data;
  const int32_t group = block / w->blocks;
  const int32_t of_group = c->out_c / c->groups;
  const int32_t most = tvmrt_conv_i8_block_channels(c);
  const int32_t in_group = block % w->blocks * most;
  const int32_t padded_end = tvmrt_conv_i8_padded(c);
  const int last = in_group + most > (c->depthwise ? of_group : padded_end);
  const int32_t left = of_group - in_group;
  const int64_t padded = (int64_t)group * tvmrt_conv_i8_padded(c) + in_group;
  const int64_t offset = tvmrt_conv_i8_x_offset(w, first, group) + (c->depthwise ? in_group : 0);
  uint8_t* y;
  int64_t y_step;
  w->args.weights = data->weights + padded * w->channel_bytes;
  w->args.bias = data->bias + padded;
  w->args.scale = data->scale != NULL ? data->scale + padded : NULL;
  w->args.shift = data->shift != NULL ? data->shift + padded : NULL;
  w->args.channels = left < most ? left : most;
  if (data->epilogue != NULL) {
    w->args.y_step = w->acc_stride;
    y = (uint8_t*)(w->acc + padded);
    y_step = 4 * w->acc_stride;
  } else {
    w->args.y_step = c->y_stride[3];
    y = (uint8_t*)data->y + tvmrt_conv_i8_y_offset(w, row, first) + (int64_t)group * of_group +
        in_group;
    y_step = c->y_stride[3];
  }
  const int32_t in_block = padded_end - in_group < most ? padded_end - in_group : most;
  const int shifted = w->args.shift != NULL && tvmrt_i8_any(w->args.shift, in_block);
  const int32_t* sums = shifted ? w->sums : NULL;
  int32_t p = 0;
  for (; p + c->wt <= pixels; p += c->wt) {
    c->tile[last][0](&w->args, offset + p * w->args.x_step, y + p * y_step,
                     sums != NULL ? sums + p : NULL);
  }
  if (p < pixels) {
    c->tile[last][1](&w->args, offset + p * w->args.x_step, y + p * y_step,
                     sums != NULL ? sums + p : NULL);
  }
}

/*! \brief Hands the sums of some blocks of one group to the epilogue. */
static inline void tvmrt_conv_i8_finish(const tvmrt_conv_i8_walk* w, int32_t row, int32_t first,
                                        int32_t pixels, int32_t block0, int32_t block1) {
  const tvmrt_conv_i8* c = w->conv;
  int32_t group = block0 / w->blocks;
  int32_t in_group = block0 % w->blocks * tvmrt_conv_i8_block_channels(c);
  int32_t end = (block1 - group * w->blocks) * tvmrt_conv_i8_block_channels(c);
  int32_t of_group = c->out_c / c->groups;
  int64_t y = tvmrt_conv_i8_y_offset(w, row, first);
  tvmrt_i8_rows rows;
  rows.acc = w->acc + (int64_t)group * tvmrt_conv_i8_padded(c) + in_group;
  rows.acc_stride = w->acc_stride;
  rows.pixel_step = c->y_stride[3] / c->y_pixel;
  rows.pixel = y / c->y_pixel;
  rows.pixels = pixels;
  rows.channel = group * of_group + in_group;
  rows.channels = (end < of_group ? end : of_group) - in_group;
  rows.y = (uint8_t*)w->data->y + (y + rows.channel) * w->data->y_bytes;
  rows.y_stride = c->y_stride[3];
  w->data->epilogue(&rows, w->data->ctx);
}

/*! \brief One chunk of pixels for the blocks [block0, block1). */
static inline void tvmrt_conv_i8_chunk(tvmrt_conv_i8_walk* w, int32_t row, int32_t first,
                                       int32_t block0, int32_t block1) {
  int32_t pixels = w->width - first < w->chunk ? w->width - first : w->chunk;
  int32_t begin = block0;
  int32_t group = -1;
  for (int32_t block = block0; block < block1; block++) {
    if (block / w->blocks != group) {
      group = block / w->blocks;
      begin = block;
      if (w->mode == TVMRT_CONV_I8_GATHER) tvmrt_conv_i8_gather(w, row, first, pixels, group);
      if (w->data->shift != NULL) {
        int64_t offset = tvmrt_conv_i8_x_offset(w, first, group);
        tvmrt_i8_window_sums(&w->args, offset, pixels, w->conv->x_signed, w->sums);
      }
    }
    tvmrt_conv_i8_block(w, row, first, pixels, block);
    if (w->data->epilogue != NULL && (block + 1 == block1 || (block + 1) % w->blocks == 0)) {
      tvmrt_conv_i8_finish(w, row, first, pixels, begin, block + 1);
    }
  }
}

/*! \brief One of the shares into which a convolution is cut. */
typedef struct tvmrt_conv_i8_share {
  int32_t index, count;
  int32_t by_channels; /* 1: the blocks of channels are shared out, 0: the pixels */
} tvmrt_conv_i8_share;

/*! \brief Computes one share on this thread. \return 0, or -1 with a text if out of memory. */
static inline int tvmrt_conv_i8_part(const tvmrt_conv_i8* c, const tvmrt_conv_i8_data* data,
                                     tvmrt_conv_i8_share share) {
  tvmrt_conv_i8_walk w;
  void* scratch;
  int32_t chunk0 = 0, chunk1, block0 = 0, block1, at_once;
  tvmrt_conv_i8_plan(&w, c, data);
  chunk1 = w.rows * w.chunks;
  block1 = c->groups * w.blocks;
  if (share.by_channels) {
    block0 = (int32_t)((int64_t)block1 * share.index / share.count);
    block1 = (int32_t)((int64_t)block1 * (share.index + 1) / share.count);
  } else if (share.count > 1) {
    chunk0 = (int32_t)((int64_t)chunk1 * share.index / share.count);
    chunk1 = (int32_t)((int64_t)chunk1 * (share.index + 1) / share.count);
  }
  if (chunk0 == chunk1 || block0 == block1) return 0;
  if (tvmrt_conv_i8_alloc(&w, &scratch) != 0) return -1;
  at_once =
      (int32_t)(TVMRT_I8_WEIGHTS_IN_CACHE / (w.channel_bytes * tvmrt_conv_i8_block_channels(c)));
  if (at_once < 1) at_once = 1;
  for (int32_t b = block0; b < block1; b += at_once) {
    const int32_t end = block1 - b < at_once ? block1 : b + at_once;
    int32_t row = -1;
    w.plane = -1;
    for (int32_t chunk = chunk0; chunk < chunk1; chunk++) {
      if (chunk / w.chunks != row) {
        row = chunk / w.chunks;
        tvmrt_conv_i8_set_segments(&w, row);
      }
      tvmrt_conv_i8_chunk(&w, row, chunk % w.chunks * w.chunk, b, end);
    }
  }
  return tvmrt_scratch_free(scratch);
}

typedef struct tvmrt_conv_i8_job {
  const tvmrt_conv_i8* conv;
  const tvmrt_conv_i8_data* data;
  int32_t by_channels;
} tvmrt_conv_i8_job;

static inline int tvmrt_conv_i8_task(int task, TVMParallelGroupEnv* env, void* closure) {
  const tvmrt_conv_i8_job* job = (const tvmrt_conv_i8_job*)closure;
  const tvmrt_conv_i8_share share = {task, env->num_task, job->by_channels};
  return tvmrt_conv_i8_part(job->conv, job->data, share);
}

/*! \brief Shares a convolution out among the workers where it is worth it. */
static inline int tvmrt_conv_i8_launch(const tvmrt_conv_i8* c, const tvmrt_conv_i8_data* data) {
  const int64_t inputs = (int64_t)c->batch * c->in[0] * c->in[1] * c->in[2];
  const int64_t outputs = (int64_t)c->batch * c->out[0] * c->out[1] * c->out[2];
  const int64_t each = (int64_t)tvmrt_conv_i8_taps(c) * (c->depthwise ? 1 : c->in_c / c->groups);
  const int32_t of_block = tvmrt_conv_i8_block_channels(c);
  const int32_t blocks = c->groups * tvmrt_i8_ceil_div(tvmrt_conv_i8_padded(c), of_block);
  const int few_rows = c->batch * c->out[0] * c->out[1] < 4 && tvmrt_conv_i8_width(c) < 16 * c->wt;
  tvmrt_conv_i8_job job = {c, data, 0};
  /* Each thread reads what is not shared out in full: better the smaller of image and weights. */
  job.by_channels = blocks >= 4 && (each * c->out_c > inputs * c->in_c || few_rows);
  /* Four multiply-adds of bytes take the time of one of floats. */
  return tvmrt_launch(tvmrt_conv_i8_task, &job, outputs * c->out_c * each / 4,
                      TVMRT_PARALLEL_MIN_MACS);
}

/*!
 * \brief y = convolution of x.
 *
 * \param c    [in] Shape and tiles; best a `static const` that the compiler sees. Its tiles fit its
 *             ob, wt and x_signed.
 * \param data [in] The tensors. x and y do not overlap.
 *
 * Values:  exact int32 sums (they must fit), then as tile_i8.h says or as the epilogue does.
 * Errors:  0, or -1 with a text if there is no memory for scratch or a task failed.
 * Threads: thread-safe; uses the workers of the runtime unless c->threads is 1.
 */
static inline int tvmrt_conv_i8_run(const tvmrt_conv_i8* c, const tvmrt_conv_i8_data* data) {
  const tvmrt_conv_i8_share all = {0, 1, 0};
  if (c->threads == 1) return tvmrt_conv_i8_part(c, data, all);
  return tvmrt_conv_i8_launch(c, data);
}

#endif /* TVM_RUNTIME_KERNELS_CONV_I8_H_ */

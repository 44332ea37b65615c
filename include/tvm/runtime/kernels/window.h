/*!
 * \file window.h
 * \brief Sliding windows over channels-last images, and the reading of the rows under them.
 *
 * Images are [batch][depth][height][width] pixels; 1-D and 2-D layers have the missing extents 1.
 * The compiler (tvmrt.compiler.codegen.window.window_plan) computes everything that depends on a
 * layer's shape and prints it as constants of tvmrt_window and tvmrt_row_plan.
 *
 * A window is read as contiguous segments:
 *
 *     source       when                                     segments      elements of a segment
 *     direct       no horizontal padding, adjacent columns  KD * KH       KW * channels
 *                  columns with gaps (dilated, x_stride)     KD * KH * KW  channels
 *     line buffer  horizontal padding                       as direct, on padded copies of the rows
 *     im2col       segments would be too short              1             KD * KH * KW * channels,
 *                                                                         rounded up
 *
 * If columns have gaps and padding is large, the pixels of a row are computed in `runs` that use
 * the same kernel columns. Columns in the padding are skipped, and rows without a line buffer are
 * read in place.
 *
 * NCHW input of few channels, such as an RGB image, is interleaved as it is copied into the line
 * buffer. x_stride is 1 then, and no transposed image is stored.
 *
 * The line buffer keeps the last rows that a task has read, so that each is copied once. Example: 3
 * x 3, 64 floats a pixel, 56 columns, padding 1: 3 rows of 58 * 64 floats. Their first and last
 * column are written once.
 */
#ifndef TVM_RUNTIME_KERNELS_WINDOW_H_
#define TVM_RUNTIME_KERNELS_WINDOW_H_

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*! \brief A window and the images that it slides over. Triples are {depth, height, width}. */
typedef struct tvmrt_window {
  int32_t batch;
  int32_t in[3];
  int32_t out[3];
  int32_t kernel[3];
  int32_t stride[3];
  int32_t dilation[3];
  int32_t pad[3];   /*!< At the start; negative crops. The end follows from `out`. */
  int32_t x_stride; /*!< Pixel stride of the input in elements. */
  int32_t y_stride; /*!< Pixel stride of the output in elements. */
} tvmrt_window;

typedef enum tvmrt_row_source {
  TVMRT_SOURCE_DIRECT,
  TVMRT_SOURCE_LINE_BUFFER,
  TVMRT_SOURCE_IM2COL
} tvmrt_row_source;

/*! \brief How the input rows under a window are read. Members of the line buffer ("Line buffer:") are 0
 * without one. */
typedef struct tvmrt_row_plan {
  tvmrt_row_source source;
  int32_t element;  /*!< Bytes of an element. */
  int32_t run;      /*!< Elements of a segment. */
  int32_t segments; /*!< Maximum segments of a window. */
  int32_t taps;     /*!< Segments of a kernel row: 1 if its columns touch. */
  int64_t x_pixel;  /*!< Pixel stride in elements of the rows as read. */
  int64_t x_step;   /*!< Elements between the windows of neighbouring output pixels. */
  int32_t skip;     /*!< First column of the input that is read. */
  int32_t runs;     /*!< Whether rows are computed in runs of pixels with equal kernel columns. */
  int32_t slots[2]; /*!< Line buffer: slots[0] planes of slots[1] rows each. */
  int32_t pitch;    /*!< Line buffer: bytes of a row. */
  int32_t left;     /*!< Line buffer: columns of left padding. */
  int32_t columns;  /*!< Line buffer: columns of the input that are copied. */
  int32_t copied;   /*!< Line buffer: copied elements per pixel. */
  int32_t floats;   /*!< Floats per pixel rounded to bfloat16 pairs when copied; else 0. */
  int32_t fill;     /*!< Line buffer: byte value of padding. */
  int64_t at_row_numbers; /*!< Scratch offset in bytes of the line buffer's row numbers. */
  int64_t at_line_buffer; /*!< Scratch offset in bytes of its rows. */
  int64_t scratch;        /*!< Scratch bytes of each task; 0 if its stack suffices. */
  int64_t line; /*!< Pixels per row of a copy of several rows as one long row; 0 if contiguous. */
  int64_t line_step; /*!< Row stride of the input in elements for such a copy. */
#ifndef TVMRT_NO_NCHW_INPUT
  int64_t
      channel_stride; /*!< Line buffer: channel stride of NCHW input in floats; 0: channels are innermost. */
#endif
} tvmrt_row_plan;

/*! \brief Reader of a task's input rows. */
typedef struct tvmrt_row_reader {
  const tvmrt_window* window;
  const tvmrt_row_plan* rows;
  const uint8_t* x;     /* pixel 0 of image 0 */
  int32_t* row_numbers; /* row number in each slot, or -1 */
  uint8_t* line_buffer;
} tvmrt_row_reader;

/*! \brief Set up the line buffer in the task's scratch; the padding in its rows is constant. */
static inline void tvmrt_row_reader_init(tvmrt_row_reader* r, const tvmrt_window* window,
                                         const tvmrt_row_plan* rows, const void* x, void* scratch) {
  const int32_t pixel = rows->copied * rows->element;
  const int32_t left = rows->left * pixel, right = left + rows->columns * pixel;
  r->window = window;
  r->rows = rows;
  r->x = (const uint8_t*)x;
  r->row_numbers = NULL;
  r->line_buffer = NULL;
  if (rows->source != TVMRT_SOURCE_LINE_BUFFER) return;
  r->row_numbers = (int32_t*)(void*)((uint8_t*)scratch + rows->at_row_numbers);
  r->line_buffer = (uint8_t*)scratch + rows->at_line_buffer;
  for (int32_t slot = 0; slot < rows->slots[0] * rows->slots[1]; slot++) {
    uint8_t* row = r->line_buffer + (int64_t)slot * rows->pitch;
    r->row_numbers[slot] = -1;
    memset(row, rows->fill, (size_t)left);
    memset(row + right, rows->fill, (size_t)(rows->pitch - right));
  }
}

/*! \brief Switch to a part of the channels; `x` is its pixel 0. Rows of other channels are
 * dropped. */
static inline void tvmrt_row_reader_select_channels(tvmrt_row_reader* r, const void* x) {
  if (r->x == (const uint8_t*)x) return;
  r->x = (const uint8_t*)x;
  if (r->row_numbers == NULL) return;
  memset(r->row_numbers, -1,
         (size_t)(r->rows->slots[0] * r->rows->slots[1]) * sizeof(*r->row_numbers));
}

/*! \brief Address of the existing input row (d, h) of an image. */
static inline const uint8_t* tvmrt_input_row(const tvmrt_row_reader* r, int32_t image, int32_t d,
                                             int32_t h) {
  const tvmrt_window* w = r->window;
  const int64_t row = ((int64_t)image * w->in[0] + d) * w->in[1] + h;
  return r->x + (row * w->in[2] + r->rows->skip) * w->x_stride * r->rows->element;
}

#ifndef TVMRT_NO_NCHW_INPUT
/* Interleave NCHW pixels; compilers have shuffles for three channels. */
static inline void tvmrt_copy_nchw_pixels(const tvmrt_row_reader* r, uint8_t* to,
                                          const uint8_t* from) {
  const int32_t columns = r->rows->columns, channels = r->rows->copied;
  const int64_t spacing = r->rows->channel_stride;
  const float* x = (const float*)(const void*)from;
  float* y = (float*)(void*)to;
  if (channels == 3) {
    const float *second = x + spacing, *third = second + spacing;
    for (int32_t i = 0; i < columns; i++) {
      y[3 * i] = x[i];
      y[3 * i + 1] = second[i];
      y[3 * i + 2] = third[i];
    }
    return;
  }
  for (int32_t c = 0; c < channels; c++, x += spacing) {
    for (int32_t i = 0; i < columns; i++) y[(int64_t)i * channels + c] = x[i];
  }
}
#endif

static inline void tvmrt_copy_pixels(const tvmrt_row_reader* r, uint8_t* to, const uint8_t* from) {
#ifndef TVMRT_NO_NCHW_INPUT
  if (r->rows->channel_stride > 0) {
    tvmrt_copy_nchw_pixels(r, to, from);
    return;
  }
#endif
  const size_t pixel = (size_t)r->rows->copied * (size_t)r->rows->element;
  const int64_t step = (int64_t)r->window->x_stride * r->rows->element;
  if ((int64_t)pixel == step) {
    memcpy(to, from, (size_t)r->rows->columns * pixel);
    return;
  }
#ifndef TVMRT_NO_WIDE_LOOPS
  /* groups of 8 and of 16 floats: calling memcpy() for each would take longer than the copy */
  if (pixel == 32) {
    for (int32_t i = 0; i < r->rows->columns; i++, to += 32, from += step) memcpy(to, from, 32);
    return;
  }
  if (pixel == 64) {
    for (int32_t i = 0; i < r->rows->columns; i++, to += 64, from += step) memcpy(to, from, 64);
    return;
  }
#endif
  for (int32_t i = 0; i < r->rows->columns; i++, to += pixel, from += step) memcpy(to, from, pixel);
}

/*! \brief Copy `columns` pixels of a row into the line buffer. */
typedef void (*tvmrt_copy_fn)(const tvmrt_row_reader* r, uint8_t* to, const uint8_t* from);

/*!
 * \brief Input row (d, h) of an image from the first column that a window reads, padding included;
 * NULL if all of it is padding. `copy` fills the line buffer.
 */
static inline const uint8_t* tvmrt_read_row_by(tvmrt_copy_fn copy, const tvmrt_row_reader* r,
                                               int32_t image, int32_t d, int32_t h) {
  const tvmrt_window* w = r->window;
  const tvmrt_row_plan* rows = r->rows;
  if (d < 0 || d >= w->in[0] || h < 0 || h >= w->in[1]) return NULL;
  const uint8_t* from = tvmrt_input_row(r, image, d, h);
  if (rows->source != TVMRT_SOURCE_LINE_BUFFER) return from;
  const int32_t slot = d % rows->slots[0] * rows->slots[1] + h % rows->slots[1];
  const int32_t row = (image * w->in[0] + d) * w->in[1] + h;
  uint8_t* to = r->line_buffer + (int64_t)slot * rows->pitch;
  if (r->row_numbers[slot] != row) {
    r->row_numbers[slot] = row;
    copy(r, to + (int64_t)rows->left * rows->copied * rows->element, from);
  }
  return to;
}

/*! \brief tvmrt_read_row_by() with a plain copy. */
static inline const uint8_t* tvmrt_read_row(const tvmrt_row_reader* r, int32_t image, int32_t d,
                                            int32_t h) {
  return tvmrt_read_row_by(tvmrt_copy_pixels, r, image, d, h);
}

/*! \brief Coordinates of an output row; rows are counted over images and planes. */
typedef struct tvmrt_row_position {
  int32_t image;
  int32_t d, h; /* input row under the window's first row; may be padding */
} tvmrt_row_position;

static inline tvmrt_row_position tvmrt_locate_row(const tvmrt_window* w, int64_t row) {
  const int64_t plane = row / w->out[1];
  tvmrt_row_position at;
  at.image = (int32_t)(plane / w->out[0]);
  at.d = (int32_t)(plane % w->out[0]) * w->stride[0] - w->pad[0];
  at.h = (int32_t)(row % w->out[1]) * w->stride[1] - w->pad[1];
  return at;
}

static inline int64_t tvmrt_window_rows(const tvmrt_window* w) {
  return (int64_t)w->batch * w->out[0] * w->out[1];
}

#endif /* TVM_RUNTIME_KERNELS_WINDOW_H_ */

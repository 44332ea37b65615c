/*!
 * \file nms.h
 * \brief Non-maximum suppression: the best boxes of each class that overlap no better one too much.
 */
#ifndef TVM_RUNTIME_KERNELS_OP_NMS_H_
#define TVM_RUNTIME_KERNELS_OP_NMS_H_

#include <math.h>
#include <stdint.h>

#include "../scalar/compiler.h"

/*! \brief Sizes of a layer, and the criteria for keeping boxes. */
typedef struct tvmrt_nms_layer {
  int32_t batch;
  int32_t classes;
  int32_t boxes;
  /*! \brief Boxes are {x, y, width, height} around a centre; else two opposite corners {y, x}. */
  int32_t centred;
  /*! \brief Maximum boxes per class and image. */
  int64_t max_boxes;
  /*! \brief Maximum output rows, the size of the buffer. */
  int64_t rows;
  /*! \brief Boxes overlap if their intersection is more than this part of their union. */
  float overlap;
  /*! \brief Only boxes with a higher score are considered; -INFINITY: all. */
  float score;
} tvmrt_nms_layer;

/* Lower and upper edge, left and right edge. */
typedef struct tvmrt_nms_box {
  float y0, x0, y1, x1;
} tvmrt_nms_box;

static inline tvmrt_nms_box tvmrt_nms_box_at(const float* b, int centred) {
  tvmrt_nms_box box;
  if (centred) {
    box.x0 = b[0] - b[2] / 2.0f;
    box.x1 = b[0] + b[2] / 2.0f;
    box.y0 = b[1] - b[3] / 2.0f;
    box.y1 = b[1] + b[3] / 2.0f;
  } else {
    box.y0 = b[0] < b[2] ? b[0] : b[2];
    box.y1 = b[0] < b[2] ? b[2] : b[0];
    box.x0 = b[1] < b[3] ? b[1] : b[3];
    box.x1 = b[1] < b[3] ? b[3] : b[1];
  }
  return box;
}

static inline int tvmrt_nms_overlaps(const tvmrt_nms_box* a, const tvmrt_nms_box* b,
                                     float max_boxes) {
  const float y0 = a->y0 > b->y0 ? a->y0 : b->y0, y1 = a->y1 < b->y1 ? a->y1 : b->y1;
  const float x0 = a->x0 > b->x0 ? a->x0 : b->x0, x1 = a->x1 < b->x1 ? a->x1 : b->x1;
  const float area_a = (a->y1 - a->y0) * (a->x1 - a->x0);
  const float area_b = (b->y1 - b->y0) * (b->x1 - b->x0);
  float both;
  if (!(y1 > y0 && x1 > x0)) return 0;
  both = (y1 - y0) * (x1 - x0);
  if (!(area_a > 0.0f && area_b > 0.0f)) return 0;
  return both / (area_a + area_b - both) > max_boxes;
}

/* Whether box a is selected after b: lower score, or on a tie the higher index. */
static inline int tvmrt_nms_later(const float* scores, int32_t a, int32_t b) {
  return scores[a] < scores[b] || (scores[a] == scores[b] && a > b);
}

static inline void tvmrt_nms_sink(const float* scores, int32_t* heap, int32_t size, int32_t root) {
  const int32_t item = heap[root];
  for (int32_t child = 2 * root + 1; child < size; child = 2 * root + 1) {
    if (child + 1 < size && tvmrt_nms_later(scores, heap[child], heap[child + 1])) ++child;
    if (!tvmrt_nms_later(scores, item, heap[child])) break;
    heap[root] = heap[child];
    root = child;
  }
  heap[root] = item;
}

/* One class of one image: rows of {image, class, box} from `out` on; returns their number, or -1 if
 * there are more than `capacity`. */
static inline int64_t tvmrt_nms_class(const tvmrt_nms_layer* p, const float* boxes,
                                      const float* scores, int64_t image, int64_t class_id,
                                      int64_t capacity, int32_t* heap, int64_t* out) {
  int32_t left = 0;
  int64_t num_kept = 0;
  /* a NaN is never higher */
  for (int32_t i = 0; i < p->boxes; ++i) {
    if (scores[i] > p->score) heap[left++] = i;
  }
  for (int32_t i = left / 2 - 1; i >= 0; --i) tvmrt_nms_sink(scores, heap, left, i);
  while (left > 0 && num_kept < p->max_boxes) {
    const int32_t best = heap[0];
    const tvmrt_nms_box box = tvmrt_nms_box_at(boxes + 4 * (int64_t)best, p->centred);
    int64_t i = 0;
    heap[0] = heap[--left];
    if (left > 0) tvmrt_nms_sink(scores, heap, left, 0);
    for (; i < num_kept; ++i) {
      const tvmrt_nms_box other = tvmrt_nms_box_at(boxes + 4 * out[3 * i + 2], p->centred);
      if (tvmrt_nms_overlaps(&box, &other, p->overlap)) break;
    }
    if (i < num_kept) continue;
    if (num_kept == capacity) return -1;
    out[3 * num_kept] = image;
    out[3 * num_kept + 1] = class_id;
    out[3 * num_kept + 2] = best;
    ++num_kept;
  }
  return num_kept;
}

/*!
 * \brief All classes of all images.
 * \param boxes [batch][boxes][4]
 * \param scores [batch][classes][boxes]
 * \param heap Scratch for `boxes` integers.
 * \param out Rows of {image, class, box}.
 * \return The number of rows; rows + 1 if the buffer is too small.
 */
static inline int64_t tvmrt_nms(const tvmrt_nms_layer* p, const float* boxes, const float* scores,
                                int32_t* heap, int64_t* out) {
  int64_t rows = 0;
  for (int32_t image = 0; image < p->batch; ++image) {
    for (int32_t c = 0; c < p->classes; ++c) {
      const int64_t row = (int64_t)image * p->classes + c;
      const int64_t num_kept =
          tvmrt_nms_class(p, boxes + (int64_t)image * p->boxes * 4, scores + row * p->boxes, image,
                          c, p->rows - rows, heap, out + 3 * rows);
      if (num_kept < 0) return p->rows + 1;
      rows += num_kept;
    }
  }
  return rows;
}

#endif /* TVM_RUNTIME_KERNELS_OP_NMS_H_ */

"""Post-processing of a detector's head: a number of boxes that the image decides, two outputs.

The head is FastestDet's, [1, 5 + classes, H, W]: objectness, box (tanh and sigmoid are still to be
taken), classes. The result are up to ``most`` boxes in order of their score, the rest zero, and how
many there are. A box is dropped if it overlaps a better one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tvmrt.custom import C, Kernel, OpenCL, Tensor, TensorType

# The same text in both languages: where a candidate's numbers lie, its score, its box.
SHARED = r"""
static float score_of(GLOBAL const float *cell, INT channel, INT classes, INT *best) {
  *best = 0;
  for (INT k = 1; k < classes; ++k) {
    if (cell[(5 + k) * channel] > cell[(5 + *best) * channel]) *best = k;
  }
  return POW(cell[0], 0.6f) * POW(cell[(5 + *best) * channel], 0.4f);
}
static void box_of(GLOBAL const float *cell, INT channel, INT row, INT column, INT rows,
                   INT columns, float *box) {
  const float x = ((float)column + TANH(cell[1 * channel])) / (float)columns;
  const float y = ((float)row + TANH(cell[2 * channel])) / (float)rows;
  const float w = 0.5f / (1.0f + EXP(-cell[3 * channel]));
  const float h = 0.5f / (1.0f + EXP(-cell[4 * channel]));
  box[0] = x - w, box[1] = y - h, box[2] = x + w, box[3] = y + h;
}
static float side(float a0, float a1, float b0, float b1) {
  const float low = a0 > b0 ? a0 : b0, high = a1 < b1 ? a1 : b1;
  return high > low ? high - low : 0.0f;
}
static float overlap_of(const float *a, GLOBAL const float *b) {
  const float both = side(a[0], a[2], b[0], b[2]) * side(a[1], a[3], b[1], b[3]);
  return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both);
}
/* Takes the best candidate that is left until there is none; scores[] are used up. */
static INT detect(GLOBAL const float *head, INT channel, INT pixel, INT classes, INT rows,
                  INT columns, GLOBAL float *boxes, INT most, float threshold, float overlap,
                  float *scores, INT *kinds) {
  INT found = 0;
  for (INT i = 0; i < rows * columns; ++i) {
    scores[i] = score_of(head + i * pixel, channel, classes, kinds + i);
  }
  for (INT i = 0; i < 6 * most; ++i) boxes[i] = 0.0f;
  while (found < most) {
    INT best = 0, apart = 1;
    float box[4];
    for (INT i = 1; i < rows * columns; ++i) {
      if (scores[i] > scores[best]) best = i;
    }
    if (!(scores[best] > threshold)) break;
    box_of(head + best * pixel, channel, best / columns, best % columns, rows, columns, box);
    for (INT i = 0; i < found; ++i) apart = apart && !(overlap_of(box, boxes + 6 * i) > overlap);
    if (apart) {
      GLOBAL float *out = boxes + 6 * found++;
      for (INT i = 0; i < 4; ++i) out[i] = box[i];
      out[4] = scores[best], out[5] = (float)kinds[best];
    }
    scores[best] = -1.0f;
  }
  return found;
}
"""

C_BODY = (
    r"""
#include <math.h>
#define GLOBAL
#define INT int64_t
#define POW powf
#define TANH tanhf
#define EXP expf
"""
    + SHARED
    + r"""
static int32_t planes(const float *head, const tvmrt_shape *s, float *boxes,
                      const tvmrt_shape *boxes_s, int32_t *count, const tvmrt_shape *count_s,
                      int32_t most, float threshold, float overlap, void *scratch) {
  const int64_t cells = s->dim[2] * s->dim[3];
  float *scores = (float *)((int64_t *)scratch + cells);
  (void)boxes_s, (void)count_s;
  *count = (int32_t)detect(head, cells, 1, s->dim[1] - 5, s->dim[2], s->dim[3], boxes, most,
                           threshold, overlap, scores, (int64_t *)scratch);
  return 0;
}
static int32_t pixels(const float *head, const tvmrt_shape *s, float *boxes,
                      const tvmrt_shape *boxes_s, int32_t *count, const tvmrt_shape *count_s,
                      int32_t most, float threshold, float overlap, void *scratch) {
  const int64_t cells = s->dim[2] * s->dim[3];
  float *scores = (float *)((int64_t *)scratch + cells);
  (void)boxes_s, (void)count_s;
  *count = (int32_t)detect(head, 1, s->dim[1], s->dim[1] - 5, s->dim[2], s->dim[3], boxes, most,
                           threshold, overlap, scores, (int64_t *)scratch);
  return 0;
}
"""
)

OPENCL_BODY = (
    r"""
#define GLOBAL __global
#define INT int
#define POW pow
#define TANH tanh
#define EXP exp
"""
    + SHARED
    + r"""
__kernel void planes(__global const float *head, __global float *boxes, __global int *count,
                     int most, float threshold, float overlap) {
  float scores[ROWS * COLUMNS];
  int kinds[ROWS * COLUMNS];
  *count = detect(head, ROWS * COLUMNS, 1, CLASSES, ROWS, COLUMNS, boxes, most, threshold, overlap,
                  scores, kinds);
}
"""
)


def reference(
    head: np.ndarray, *, most: int, threshold: float, overlap: float
) -> tuple[np.ndarray, np.ndarray]:
    """By the definition, in numpy."""
    rows, columns = head.shape[2:]
    cells = head[0].reshape(head.shape[1], -1)
    kinds = cells[5:].argmax(0)
    scores = cells[0] ** 0.6 * cells[5:].max(0) ** 0.4
    row, column = np.divmod(np.arange(rows * columns), columns)
    x, y = (column + np.tanh(cells[1])) / columns, (row + np.tanh(cells[2])) / rows
    w, h = 0.5 / (1 + np.exp(-cells[3:5]))
    corners = np.stack([x - w, y - h, x + w, y + h], 1)
    kept: list[int] = []
    for i in np.argsort(-scores, kind="stable"):
        fits = len(kept) < most and scores[i] > threshold
        if fits and all(_overlap(corners[i], corners[j]) <= overlap for j in kept):
            kept.append(int(i))
    boxes = np.zeros((most, 6), np.float32)
    boxes[: len(kept)] = np.column_stack([corners, scores, kinds])[kept]
    return boxes, np.array([len(kept)], np.int32)


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    both = np.prod(np.maximum(sides, 0))
    return float(both / (np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - both))


def options(head: TensorType, boxes: TensorType, count: TensorType, **scalars: Any) -> str:
    _, channels, rows, columns = head.shape
    return f"-DCLASSES={channels - 5} -DROWS={rows} -DCOLUMNS={columns}"


detection = Kernel(
    "DetectionPostProcess",
    domain="example.detection",
    doc="The best boxes of a detector's head that do not overlap, and their number.",
    inputs=[Tensor("head", "float32", layouts=("NCHW", "NHWC"))],
    outputs=[Tensor("boxes", "float32"), Tensor("count", "int32")],
    scalars={"most": "int", "threshold": ("float", 0.65), "overlap": ("float", 0.45)},
    shape=lambda head, *, most, **scalars: [(most, 6), (1,)],
    reference=reference,
    c=C(
        C_BODY,
        {("float32", "NCHW"): "planes", ("float32", "NHWC"): "pixels"},
        scratch=lambda head, boxes, count, **scalars: 12 * head.shape[2] * head.shape[3],
    ),
    opencl=OpenCL(OPENCL_BODY, "planes", build_options=options, global_size=lambda *t, **s: [1]),
)

"""Squash: x / (1 + |x|)."""

import numpy as np

from tvmrt.custom import C, Kernel, Tensor

BODY = r"""
static int32_t squash(const float *x, const tvmrt_shape *x_shape, float *y,
                      const tvmrt_shape *y_shape) {
  (void)y_shape;
  for (int64_t i = 0; i < x_shape->size; ++i) y[i] = x[i] / (1.0f + (x[i] < 0 ? -x[i] : x[i]));
  return 0;
}
"""

squash = Kernel(
    "Squash",
    domain="example.wheel",
    doc="x / (1 + |x|), element by element.",
    inputs=[Tensor("x", "float32", layouts="any")],
    outputs=[Tensor("y", "float32", layouts="any")],
    reference=lambda x: x / (1 + np.abs(x)),
    c=C(BODY, "squash"),
)

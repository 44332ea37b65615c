"""A convolution of one's own in place of the built-in one, in the graphs that ask for it.

It takes plain two-dimensional convolutions in float32; all others stay with the built-in operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmrt.custom import C, Kernel, OpenCL, Tensor, TensorType, UnsupportedNode

C_BODY = r"""
#define AT(shape, n, c, h, w) \
  ((((n) * (shape)->dim[1] + (c)) * (shape)->dim[2] + (h)) * (shape)->dim[3] + (w))

static float window(const float *x, const tvmrt_shape *xs, const float *w, const tvmrt_shape *ws,
                    int64_t n, int64_t m, int64_t top, int64_t left) {
  float sum = 0.0f;
  for (int64_t c = 0; c < ws->dim[1]; ++c) {
    for (int64_t i = 0; i < ws->dim[2]; ++i) {
      for (int64_t j = 0; j < ws->dim[3]; ++j) {
        const int64_t h = top + i, v = left + j;
        if (h < 0 || h >= xs->dim[2] || v < 0 || v >= xs->dim[3]) continue;
        sum += x[AT(xs, n, c, h, v)] * w[AT(ws, m, c, i, j)];
      }
    }
  }
  return sum;
}
static int32_t direct_conv(const float *x, const tvmrt_shape *xs, const float *w,
                           const tvmrt_shape *ws, const float *b, const tvmrt_shape *bs, float *y,
                           const tvmrt_shape *ys, int32_t stride, int32_t pad) {
  (void)bs;
  for (int64_t n = 0; n < ys->dim[0]; ++n) {
    for (int64_t m = 0; m < ys->dim[1]; ++m) {
      for (int64_t i = 0; i < ys->dim[2]; ++i) {
        for (int64_t j = 0; j < ys->dim[3]; ++j) {
          const float sum = window(x, xs, w, ws, n, m, i * stride - pad, j * stride - pad);
          y[AT(ys, n, m, i, j)] = sum + (b ? b[m] : 0.0f);
        }
      }
    }
  }
  return 0;
}
"""

OPENCL_BODY = r"""
__kernel void direct_conv(__global const float *x, __global const float *w,
#ifdef BIAS
                          __global const float *b,
#endif
                          __global float *y, int stride, int pad) {
  const int m = get_global_id(0), i = get_global_id(1), j = get_global_id(2);
  for (int n = 0; n < N; ++n) {
    float sum = 0.0f;
    for (int c = 0; c < C; ++c) {
      for (int k = 0; k < K * L; ++k) {
        const int h = i * stride - pad + k / L, v = j * stride - pad + k % L;
        if (h < 0 || h >= H || v < 0 || v >= W) continue;
        sum += x[((n * C + c) * H + h) * W + v] * w[(m * C + c) * K * L + k];
      }
    }
#ifdef BIAS
    sum += b[m];
#endif
    y[((n * M + m) * get_global_size(1) + i) * get_global_size(2) + j] = sum;
  }
}
"""


def attributes(attrs: Mapping[str, Any], inputs: Sequence[TensorType]) -> dict[str, int]:
    strides, pads = attrs.get("strides", [1, 1]), attrs.get("pads", [0] * 4)
    plain = (
        inputs[0].rank == 4
        and inputs[0].dtype.name == "float32"
        and attrs.get("group", 1) == 1
        and set(attrs.get("dilations", [1])) == {1}
        and attrs.get("auto_pad", "NOTSET") == "NOTSET"
        and len(set(strides)) == 1
        and len(set(pads)) == 1
    )
    if not plain:
        raise UnsupportedNode("only plain two-dimensional convolutions are written")
    return {"stride": strides[0], "pad": pads[0]}


def shape(
    x: TensorType, w: TensorType, b: TensorType | None, *, stride: int, pad: int
) -> list[Any]:
    n, m = x.shape[0], w.shape[0]
    return [n, m, *((e + 2 * pad - k) // stride + 1 for e, k in zip(x.shape[2:], w.shape[2:]))]


def reference(
    x: np.ndarray, w: np.ndarray, b: np.ndarray | None, *, stride: int, pad: int
) -> np.ndarray:
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], (2, 3))
    y: np.ndarray = np.einsum("nchwij,mcij->nmhw", windows[:, :, ::stride, ::stride], w)
    return y if b is None else y + b[:, None, None]


def options(
    x: TensorType, w: TensorType, b: TensorType | None, y: TensorType, **scalars: int
) -> str:
    sizes = {"N": x.shape[0], "C": x.shape[1], "H": x.shape[2], "W": x.shape[3]}
    sizes.update(M=w.shape[0], K=w.shape[2], L=w.shape[3])
    bias = "" if b is None else " -DBIAS"
    return " ".join(f"-D{key}={value}" for key, value in sizes.items()) + bias


direct_conv = Kernel(
    "Conv",
    overrides=True,
    doc="ONNX's Conv for one group, equal strides, equal pads, no dilation.",
    inputs=[Tensor("x", "float32"), Tensor("w", "float32"), Tensor("b", "float32", optional=True)],
    outputs=[Tensor("y", "float32")],
    scalars={"stride": "int", "pad": "int"},
    shape=shape,
    attributes=attributes,
    reference=reference,
    c=C(C_BODY, "direct_conv"),
    opencl=OpenCL(
        OPENCL_BODY,
        "direct_conv",
        build_options=options,
        global_size=lambda x, w, b, y, **scalars: y.shape[1:],
    ),
)

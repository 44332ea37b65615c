"""Hard-swish on numbers with scales and zero point: three bodies, three element types."""

import numpy as np

from tvmrt.custom import C, Kernel, OpenCL, Tensor

C_BODY = r"""
#include <math.h>
#include <tvm/runtime/kernels/scalar/half.h>

static inline float hswish(float x, float scale, float tail, float out_scale, float out_zp) {
  const float v = x * scale + tail;
  const float gate = v / 6.0f + 0.5f;
  return v * (gate < 0.0f ? 0.0f : gate > 1.0f ? 1.0f : gate) * out_scale + out_zp;
}
static int32_t hswish_f32(const float *x, const tvmrt_shape *x_shape, float *y,
                          const tvmrt_shape *y_shape, float scale, float tail, float out_scale,
                          float out_zp) {
  (void)y_shape;
  for (int64_t i = 0; i < x_shape->size; ++i) y[i] = hswish(x[i], scale, tail, out_scale, out_zp);
  return 0;
}
static int32_t hswish_bf16(const uint16_t *x, const tvmrt_shape *x_shape, uint16_t *y,
                           const tvmrt_shape *y_shape, float scale, float tail, float out_scale,
                           float out_zp) {
  (void)y_shape;
  for (int64_t i = 0; i < x_shape->size; ++i) {
    const float v = tvmrt_bfloat16_to_f32(x[i]);
    y[i] = tvmrt_f32_to_bfloat16(hswish(v, scale, tail, out_scale, out_zp));
  }
  return 0;
}
static int32_t hswish_u8(const uint8_t *x, const tvmrt_shape *x_shape, uint8_t *y,
                         const tvmrt_shape *y_shape, float scale, float tail, float out_scale,
                         float out_zp) {
  (void)y_shape;
  for (int64_t i = 0; i < x_shape->size; ++i) {
    const float v = rintf(hswish((float)x[i], scale, tail, out_scale, out_zp));
    y[i] = (uint8_t)(v < 0.0f ? 0.0f : v > 255.0f ? 255.0f : v);
  }
  return 0;
}
"""

OPENCL_BODY = r"""
float hswish(float x, float scale, float tail, float out_scale, float out_zp) {
  const float v = x * scale + tail;
  return v * clamp(v / 6.0f + 0.5f, 0.0f, 1.0f) * out_scale + out_zp;
}
__kernel void hswish_f32(__global const float *x, __global float *y, float scale, float tail,
                         float out_scale, float out_zp) {
  const size_t i = get_global_id(0);
  if (i < SIZE) y[i] = hswish(x[i], scale, tail, out_scale, out_zp);
}
__kernel void hswish_bf16(__global const ushort *x, __global ushort *y, float scale, float tail,
                          float out_scale, float out_zp) {
  const size_t i = get_global_id(0);
  if (i >= SIZE) return;
  const uint v = as_uint(hswish(as_float((uint)x[i] << 16), scale, tail, out_scale, out_zp));
  y[i] = (ushort)(isnan(as_float(v)) ? (v >> 16) | 0x40 : (v + 0x7fff + ((v >> 16) & 1)) >> 16);
}
__kernel void hswish_u8(__global const uchar *x, __global uchar *y, float scale, float tail,
                        float out_scale, float out_zp) {
  const size_t i = get_global_id(0);
  if (i < SIZE) y[i] = convert_uchar_sat_rte(hswish(x[i], scale, tail, out_scale, out_zp));
}
"""

FUNCTIONS = {"float32": "hswish_f32", "bfloat16": "hswish_bf16", "uint8": "hswish_u8"}
GROUP = 64  # work items that an OpenCL device runs together


def reference(
    x: np.ndarray, *, scale: float, tail: float, out_scale: float, out_zp: float
) -> np.ndarray:
    v = x.astype(np.float32) * np.float32(scale) + np.float32(tail)
    y = v * np.clip(v / 6 + 0.5, 0, 1) * out_scale + out_zp
    return np.clip(np.rint(y), 0, 255) if x.dtype == np.uint8 else y


hard_swish = Kernel(
    "HardSwish",
    domain="example.swish",
    doc="y = v clip(v / 6 + 1/2, 0, 1) out_scale + out_zp, where v = x scale + tail.",
    inputs=[Tensor("x", "T", layouts="any")],
    outputs=[Tensor("y", "T", layouts="any")],
    types={"T": ("float32", "bfloat16", "uint8")},
    scalars={
        "scale": ("float", 1.0),
        "tail": ("float", 0.0),
        "out_scale": ("float", 1.0),
        "out_zp": ("float", 0.0),
    },
    shape=lambda x, **scalars: x.shape,
    reference=reference,
    c=C(C_BODY, FUNCTIONS),
    opencl=OpenCL(
        OPENCL_BODY,
        FUNCTIONS,
        build_options=lambda x, y, **scalars: f"-DSIZE={x.size}",
        global_size=lambda x, y, **scalars: [-(-x.size // GROUP) * GROUP],
        local_size=lambda x, y, **scalars: [GROUP],
    ),
)

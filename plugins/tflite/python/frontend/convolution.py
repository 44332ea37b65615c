"""Convolutions, floating-point and integer."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.sdk.arithmetic import ceil_div
from tvmrt.compiler.sdk.frontend import default_window
from tvmrt.compiler.sdk.graph import Value, symbols_of
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.activation import apply_activation
from tvmrt.plugins.tflite.frontend.context import OpContext, fixed_size_error
from tvmrt.plugins.tflite.frontend.hybrid import hybrid_convolution, hybrid_images
from tvmrt.plugins.tflite.frontend.integer_accumulators import accumulate_integers, of_type
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.requantize import finish

SAME, VALID = 0, 1


def window(ctx: OpContext, spatial: tuple[int, ...], kernel: tuple[int, ...]) -> dict:
    """Return strides, dilations and padding of the operator's two-dimensional window."""
    o = ctx.options
    strides = (o["stride_h"], o["stride_w"])
    dilations = (o.get("dilation_h", 1), o.get("dilation_w", 1))
    return window_of(spatial, kernel, strides, dilations, o["padding"])


def window_of(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    padding: int,
) -> dict:
    """Return strides, dilations and padding of a window; ``padding`` is SAME or VALID."""
    if min(*strides, *dilations, *kernel) < 1 or padding not in (SAME, VALID):
        raise ValueError(
            f"strides {list(strides)}, dilations {list(dilations)}, a kernel of {list(kernel)} and "
            f"padding code {padding} do not define a window"
        )
    total = [0] * len(spatial)
    if padding == SAME:
        total = [
            max((ceil_div(n, s) - 1) * s + (k - 1) * d + 1 - n, 0)
            for n, k, s, d in zip(spatial, kernel, strides, dilations)
        ]
    before = tuple(t // 2 for t in total)
    after = tuple(t - b for t, b in zip(total, before))
    return {
        "strides": tuple(strides),
        "dilations": tuple(dilations),
        "pads_before": before,
        "pads_after": after,
    }


def weights_of(ctx: OpContext, index: int) -> Value:
    w = ctx.required(index)
    if w.data is None:
        raise UnsupportedError(f"the weights of {ctx.op.name} are computed at run time")
    return w


@tflite_op(CONV_2D=8)
def conv_2d(ctx: OpContext) -> Value:
    x, w = ctx.channels_second(ctx.required(0)), weights_of(ctx, 1)
    if w.type.rank != 4 or not w.shape[3] or x.shape[1] % w.shape[3]:
        raise ValueError(f"weights {w.type} do not fit {x.type}")
    kernel = ctx.const(w.data.transpose(0, 3, 1, 2))
    return _convolution(ctx, x, kernel, x.shape[1] // w.shape[3], 0)


@tflite_op(DEPTHWISE_CONV_2D=7)
def depthwise_conv_2d(ctx: OpContext) -> Value:
    x, w = ctx.channels_second(ctx.required(0)), weights_of(ctx, 1)
    channels = x.shape[1]
    if w.type.rank != 4 or w.shape[0] != 1 or not channels or w.shape[3] % channels:
        raise ValueError(f"weights {w.type} do not fit {x.type}")
    return _convolution(ctx, x, ctx.const(w.data.transpose(3, 0, 1, 2)), channels, 3)


def _convolution(ctx: OpContext, x: Value, w: Value, groups: int, axis: int) -> Value:
    """Convolve x [N, C, H, W] with w [OC, C / groups, kh, kw]; ``axis`` has the file's scales."""
    attrs = window(ctx, x.shape[2:], w.shape[2:])

    def product(operands: list, **extra) -> Value:
        return ctx.emit(of_type("qconv", x), operands, groups=groups, **attrs, **extra)

    if x.dtype.name == "float32" and w.dtype.name == "float32":
        return _finish(ctx, ctx.emit("conv", [x, w], groups=groups, **attrs), ctx.input(2))
    if x.dtype.name == "float32":
        return ctx.channels_last(
            apply_activation(ctx, hybrid_convolution(ctx, x, w, groups, attrs))
        )
    accumulators = accumulate_integers(ctx, x, w, product, (-1, 1, 1), axis)
    return ctx.channels_last(finish(ctx, accumulators))


def _finish(ctx: OpContext, y: Value, bias: Value | None) -> Value:
    """Add the bias and apply the activation to float [N, OC, ...]; return it channels-last."""
    if bias is not None:
        y = ctx.emit("add", [y, ctx.reshape(bias, (bias.type.size, *[1] * (y.type.rank - 2)))])
    return ctx.channels_last(apply_activation(ctx, y))


@tflite_op(TRANSPOSE_CONV=5)
def transpose_conv(ctx: OpContext) -> Value:
    """Operands: the shape of the result, weights [OC, kh, kw, C], x, bias."""
    extents = ctx.int_operand(0, "the shape of the result")
    w, x = weights_of(ctx, 1), ctx.channels_second(ctx.required(2))
    fits = len(extents) == 4 and all(n > 0 for n in extents) and w.type.rank == 4
    if fits and symbols_of(x.shape[0]) and not symbols_of(extents[0]):
        raise fixed_size_error(extents, x)
    if not fits or w.shape[3] != x.shape[1] or [extents[0], extents[3]] != [x.shape[0], w.shape[0]]:
        raise ValueError(f"weights {w.type} do not produce {extents} from {x.type}")
    out, kernel = tuple(extents[1:3]), w.shape[1:3]
    attrs = window(ctx, out, kernel)
    if x.dtype.name == "float32" and w.dtype.name == "float32":
        y = ctx.emit(
            "conv_transpose",
            [x, ctx.const(w.data.transpose(3, 0, 1, 2))],
            groups=1,
            out_spatial=out,
            **{k: v for k, v in attrs.items() if k != "pads_after"},
        )
        return _finish(ctx, y, ctx.input(3))
    flipped = ctx.const(w.data[:, ::-1, ::-1].transpose(0, 3, 1, 2))
    plain = default_window(2, groups=1)
    if x.dtype.name == "float32":

        def dilate_image(image: Value, zero: Value) -> Value:
            return _dilated_input(ctx, image, zero, kernel, out, attrs)

        y = hybrid_images(ctx, x, flipped, dilate_image, plain, (1, 3))
        return ctx.channels_last(apply_activation(ctx, y))

    def product(operands: list, x_zero: int, to: str) -> Value:
        dilated = _dilated_input(
            ctx, operands[0], ctx.like(x_zero, operands[0]), kernel, out, attrs
        )
        operands = [dilated, *operands[1:]]
        return ctx.emit(of_type("qconv", x), operands, x_zero=x_zero, to=to, **plain)

    accumulators = accumulate_integers(ctx, x, flipped, product, (-1, 1, 1), 0, (2, 1, 3))
    return ctx.channels_last(finish(ctx, accumulators))


def _dilated_input(
    ctx: OpContext, x: Value, value: Value, kernel: tuple, out: tuple, attrs: dict
) -> Value:
    """Dilate x by ``strides`` with ``value`` between and around its elements, so that a plain
    convolution with mirrored weights computes the transposed convolution."""
    n, c, h, w = x.shape
    s, t = attrs["strides"]
    separated = ctx.reshape(x, (n, c, h, 1, w, 1))
    after = (0, 0, 0, s - 1, 0, t - 1)
    y = ctx.emit("pad", [separated, value], before=(0,) * 6, after=after, mode="constant")
    y = ctx.reshape(y, (n, c, h * s, w * t))
    front = [k - 1 - b for k, b in zip(kernel, attrs["pads_before"])]
    crops_after = [o - 1 + b - (e - 1) for o, b, e in zip(out, attrs["pads_before"], y.shape[2:])]
    pads = [tuple(max(p, 0) for p in (0, 0, *side)) for side in (front, crops_after)]
    y = ctx.emit("pad", [y, value], before=pads[0], after=pads[1], mode="constant")
    for axis, (before, after_) in enumerate(zip(front, crops_after), 2):
        size = y.shape[axis] - max(-before, 0) - max(-after_, 0)
        y = ctx.slice_axis(y, axis, max(-before, 0), size)
    return y


@tflite_op(CONV_3D=1)
def conv_3d(ctx: OpContext) -> Value:
    """Operands: x [N, D, H, W, C], weights [kd, kh, kw, C / groups, OC], bias."""
    x, w, o = ctx.required(0), weights_of(ctx, 1), ctx.options
    if x.type.rank != 5 or w.type.rank != 5 or not w.shape[3] or x.shape[4] % w.shape[3]:
        raise ValueError(f"weights {w.type} do not fit {x.type}")
    if x.dtype.name != "float32":
        raise UnsupportedError(f"a 3-D convolution of {x.dtype}")
    volume = ctx.channels_second(x, 5)
    steps = [tuple(o[f"{name}_{axis}"] for axis in "dhw") for name in ("stride", "dilation")]
    attrs = window_of(volume.shape[2:], w.shape[:3], *steps, o["padding"])
    kernel = ctx.const(w.data.transpose(4, 3, 0, 1, 2))
    y = ctx.emit("conv", [volume, kernel], groups=x.shape[4] // w.shape[3], **attrs)
    return _finish(ctx, y, ctx.input(2))


@tflite_op(CONV_3D_TRANSPOSE=1)
def conv_3d_transpose(ctx: OpContext) -> Value:
    """Operands: the shape of the result, weights [kd, kh, kw, OC, C], x [N, D, H, W, C], bias."""
    extents, w, x = (
        ctx.int_operand(0, "the shape of the result"),
        weights_of(ctx, 1),
        ctx.required(2),
    )
    if x.dtype.name != "float32":
        raise UnsupportedError(f"a 3-D convolution of {x.dtype}")
    fits = len(extents) == x.type.rank == w.type.rank == 5 and w.shape[4] == x.shape[4]
    if not fits or [extents[0], extents[4]] != [x.shape[0], w.shape[3]]:
        raise ValueError(f"weights {w.type} do not produce {extents} from {x.type}")
    o = ctx.options
    steps = [tuple(o[f"{name}_{axis}"] for axis in "dhw") for name in ("stride", "dilation")]
    attrs = window_of(extents[1:4], w.shape[:3], *steps, o["padding"])
    del attrs["pads_after"]
    volume, kernel = ctx.channels_second(x, 5), ctx.const(w.data.transpose(4, 3, 0, 1, 2))
    out = tuple(extents[1:4])
    y = ctx.emit("conv_transpose", [volume, kernel], groups=1, out_spatial=out, **attrs)
    return _finish(ctx, y, ctx.input(3))

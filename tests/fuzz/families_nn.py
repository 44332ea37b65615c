"""Families of neural network layers for random networks, in floats and in 8 bits."""

from __future__ import annotations

import numpy as np
from families import axis_of
from generator import Growing, Tensor, family


def windows(g: Growing, count: int) -> list[int]:
    return [g.random.randint(1, 4) for _ in range(count)]


def sliding(g: Growing, axes: int, max_pad: int = 2) -> dict:
    """Return pads, strides and dilations over some axes."""
    attrs = {"strides": [g.random.choice([1, 1, 2, 3]) for _ in range(axes)]}
    if g.chance(0.3):
        attrs["auto_pad"] = g.random.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
    else:
        attrs["pads"] = [g.random.randint(0, max_pad) for _ in range(2 * axes)]
        attrs["dilations"] = [g.random.choice([1, 1, 2]) for _ in range(axes)]
    return attrs


def groups_of(g: Growing, channels: int) -> int:
    return g.random.choice([1, 1, 1, channels, *(d for d in (2, 4) if channels % d == 0)])


@family("f", least=3, most=5, weight=7)
def conv(g: Growing, x: Tensor) -> None:
    axes, channels = x.rank - 2, x.shape[1]
    group = groups_of(g, channels)
    out = group * g.random.randint(1, 3) if group > 1 else g.random.choice([1, 3, 5, 8, 16, 17])
    kernel = [1] * axes if g.chance(0.3) else windows(g, axes)
    ins = [x, g.like(x, out, channels // group, *kernel, scale=0.4)]
    y = g.add("Conv", ins + ([g.like(x, out)] if g.chance(0.6) else []), group=group,
              **sliding(g, axes))  # fmt: skip
    if g.chance(0.4):
        g.add(g.random.choice(["Relu", "HardSwish", "Sigmoid", "Tanh"]), [y])


@family("f", least=3, most=4, weight=2)
def conv_transpose(g: Growing, x: Tensor) -> None:
    axes, channels = x.rank - 2, x.shape[1]
    group, each = groups_of(g, channels), g.random.randint(1, 4)
    strides = [g.random.randint(1, 3) for _ in range(axes)]
    attrs = {"strides": strides, "group": group, "pads": [g.random.randint(0, 1)] * 2 * axes}
    if g.chance(0.4):
        attrs["output_padding"] = [g.random.randint(0, each - 1) for each in strides]
    ins = [x, g.like(x, channels, each, *windows(g, axes), scale=0.4)]
    g.add("ConvTranspose", ins + ([g.like(x, each * group)] if g.chance(0.5) else []), **attrs)


@family("f", least=3, most=5, weight=4)
def pool(g: Growing, x: Tensor) -> None:
    axes, op = x.rank - 2, g.random.choice(["MaxPool", "AveragePool", "LpPool"])
    kernel = [g.random.randint(1, 3) for _ in range(axes)]
    attrs = {"kernel_shape": kernel, "strides": windows(g, axes)}
    if g.chance(0.25):
        attrs["auto_pad"] = g.random.choice(["SAME_UPPER", "SAME_LOWER"])
        # onnxruntime computes negative pads for windows that are smaller than their strides
        attrs["strides"] = [min(pair) for pair in zip(attrs["strides"], kernel)]
    else:
        attrs["pads"] = [g.random.randint(0, each - 1) for each in kernel * 2]
        if op != "LpPool":
            attrs["ceil_mode"] = g.random.randint(0, 1)
    if op == "AveragePool":
        attrs["count_include_pad"] = g.random.randint(0, 1)
    g.add(op, [x], 2 if op == "MaxPool" and g.chance(0.3) else 1, **attrs)


@family("f", least=3, most=5)
def global_pool(g: Growing, x: Tensor) -> None:
    g.add(g.random.choice(["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"]), [x])


@family("f", least=2, most=5, weight=3)
def matmul(g: Growing, x: Tensor) -> None:
    k = x.shape[-1]
    shapes = [[k, g.random.randint(1, 20)], [k], [*x.shape[:-2], k, g.random.randint(1, 9)]]
    y = g.add("MatMul", [x, g.like(x, *g.random.choice(shapes), scale=0.3)])
    if g.chance(0.5):
        g.add("Add", [y, g.like(x, 1)])


@family("f", least=2, most=2, weight=4)
def gemm(g: Growing, x: Tensor) -> None:
    flip, turn = g.random.randint(0, 1), g.random.randint(0, 1)
    m, k = reversed(x.shape) if flip else x.shape
    n = g.random.randint(1, 24)
    ins = [x, g.like(x, *([n, k] if turn else [k, n]), scale=0.3)]
    ins += g.random.choice([[], [g.like(x, n)], [g.like(x, m, 1)], [g.like(x, m, n)], [g.like(x)]])
    scales = {"alpha": g.random.choice([1.0, 0.5]), "beta": g.random.choice([1.0, 2.0, 0.0])}
    g.add("Gemm", ins, transA=flip, transB=turn, **scales)


@family("f", least=2, most=4)
def einsum(g: Growing, x: Tensor) -> None:
    equation = {2: "ab,bc->ca", 3: "abc,cd->adb", 4: "abcd,de->abe"}[x.rank]
    g.add("Einsum", [x, g.like(x, x.shape[-1], 3)], equation=equation)


@family("f", least=3, most=4, weight=3)
def resize(g: Growing, x: Tensor) -> None:
    mode = g.random.choice(["nearest", "linear", "linear", *(["cubic"] if x.rank == 4 else [])])
    place = g.random.choice(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
    attrs = {"mode": mode, "coordinate_transformation_mode": place}
    if mode == "nearest":
        ways = ["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"]
        attrs["nearest_mode"] = g.random.choice(ways)
    if mode == "cubic":
        attrs |= {"cubic_coeff_a": g.random.choice([-0.75, -0.5])}
        attrs |= {"exclude_outside": g.random.randint(0, 1)}
    axes = x.rank - 2
    if g.chance(0.5):
        scales = [1, 1, *(g.random.choice([2, 0.5, 1.5, 3, 1]) for _ in range(axes))]
        g.add("Resize", [x, "", g.const(np.array(scales, "f4"))], **attrs)
    else:
        sizes = [*x.shape[:2], *(g.random.randint(1, 20) for _ in range(axes))]
        g.add("Resize", [x, "", "", g.whole(sizes)], **attrs)


@family("f", least=4, most=4)
def blocks(g: Growing, x: Tensor) -> None:
    if x.shape[1] % 4 == 0 and g.chance(0.5):
        g.add("DepthToSpace", [x], blocksize=2, mode=g.random.choice(["DCR", "CRD"]))
    elif x.shape[2] % 2 == 0 and x.shape[3] % 2 == 0:
        g.add("SpaceToDepth", [x], blocksize=2)


@family("f", least=2, weight=3)
def normalise(g: Growing, x: Tensor) -> None:
    c = x.shape[1]
    op = g.random.choice(["Batch", "Instance", "Layer", "LRN", "LpNormalization", "Group"])
    if op == "Batch":
        spread = g.const((np.abs(g.made((c,), x.dtype)) + 0.3).astype(x.dtype))
        g.add("BatchNormalization", [x, *(g.like(x, c) for _ in range(3)), spread])
    elif op == "Instance" and x.rank > 2:
        g.add("InstanceNormalization", [x, g.like(x, c), g.like(x, c)])
    elif op == "Layer":
        axis = g.random.randint(-x.rank, -1)
        g.add("LayerNormalization", [x, *(g.like(x, *x.shape[axis:]) for _ in range(2))], axis=axis)
    elif op == "Group" and x.rank > 2 and g.opset >= 21:
        g.add("GroupNormalization", [x, g.like(x, c), g.like(x, c)], num_groups=groups_of(g, c))
    elif op == "LRN" and x.rank == 4:
        g.add("LRN", [x], size=g.random.choice([1, 3, 5]), alpha=0.01)
    elif op == "LpNormalization":
        g.add("LpNormalization", [x], axis=axis_of(g, x), p=g.random.choice([1, 2]))


@family("f", least=1, weight=2)
def soft(g: Growing, x: Tensor) -> None:
    g.add(g.random.choice(["Softmax", "LogSoftmax", "Hardmax"]), [x], axis=axis_of(g, x))


@family("f", least=3, most=3, weight=4)
def recurrent(g: Growing, x: Tensor) -> None:
    op, gates = g.random.choice([("LSTM", 4), ("GRU", 3), ("RNN", 1)])
    direction = g.random.choice(["forward", "reverse", "bidirectional"])
    ways, size = 1 + (direction == "bidirectional"), g.random.randint(1, 9)
    ins = [x, g.like(x, ways, gates * size, x.shape[2], scale=0.3)]
    ins.append(g.like(x, ways, gates * size, size, scale=0.3))
    if g.chance(0.7):
        ins.append(g.like(x, ways, 2 * gates * size))
        if g.chance(0.3):
            lengths = g.numbers.integers(1, x.shape[0] + 1, x.shape[1])
            ins.append(g.const(lengths.astype("i4")))
    attrs = {"linear_before_reset": g.random.randint(0, 1)} if op == "GRU" else {}
    g.add(op, ins, 3 if op == "LSTM" else 2, hidden_size=size, direction=direction, **attrs)


@family("f", least=4, most=4)
def sample(g: Growing, x: Tensor) -> None:
    grid = g.numbers.uniform(-1.2, 1.2, (x.shape[0], 3, 4, 2)).astype(x.dtype)
    modes = ["linear", "nearest"] if g.opset >= 20 else ["bilinear", "nearest"]
    padding = g.random.choice(["zeros", "border", "reflection"])
    g.add("GridSample", [x, g.const(grid)], mode=g.random.choice(modes), padding_mode=padding,
          align_corners=g.random.randint(0, 1))  # fmt: skip


def scale_of(g: Growing, *shape: int) -> str:
    return g.const(g.numbers.uniform(0.01, 0.1, shape).astype(np.float32))


@family("f", weight=3)
def quantise(g: Growing, x: Tensor) -> None:
    """Quantise to 8 bits and dequantise, per tensor or per channel."""
    kind = g.random.choice(["i1", "u1"])
    shape = (x.shape[1],) if x.rank > 1 and g.chance(0.3) else ()
    zero = g.const(g.made(shape, kind, -20, 20))
    scale = scale_of(g, *shape)
    y = g.add("QuantizeLinear", [x, scale, zero], axis=1)
    if g.chance(0.8):
        g.add("DequantizeLinear", [y, scale, zero], axis=1)


@family("f", weight=1)
def dynamic(g: Growing, x: Tensor) -> None:
    g.add("DynamicQuantizeLinear", [x], 3)


def folded(g: Growing, x: Tensor | str, kind: str) -> tuple[str, str, str]:
    """Return a float tensor as 8-bit integers, with its scale and its zero point."""
    scale, zero = scale_of(g), g.const(g.made((), kind, -20, 20))
    return g.add("QuantizeLinear", [x, scale, zero]), scale, zero


@family("f", least=3, most=4, weight=3)
def quantised_conv(g: Growing, x: Tensor) -> None:
    """Add a convolution as quantising tools write it: between QuantizeLinear pairs, or as one
    operator."""
    channels, axes = x.shape[1], x.rank - 2
    group = groups_of(g, channels)
    out = group * g.random.randint(1, 3)
    kind = g.random.choice(["i1", "u1"])
    data, scale, zero = folded(g, x, kind)
    weights = g.const(
        g.numbers.integers(-127, 128, (out, channels // group, *windows(g, axes))).astype("i1")
    )
    each = (out,) if g.chance(0.5) else ()
    spread, middle = scale_of(g, *each), g.const(np.zeros(each, "i1"))
    bias = g.numbers.integers(-500, 500, out).astype("i4")
    if g.chance(0.5):
        ends = [scale_of(g), g.const(g.made((), kind, -20, 20)), g.const(bias)]
        g.add("QLinearConv", [data, scale, zero, weights, spread, middle, *ends], group=group,
              **sliding(g, axes))  # fmt: skip
        return
    ins = [g.add("DequantizeLinear", [data, scale, zero])]
    ins.append(g.add("DequantizeLinear", [weights, spread, middle], axis=0))
    # Exact multiples of the product of the scales: others are rounded to them.
    step = g.value(scale) * g.value(spread)
    bias = (np.clip(bias * 0.003 / step, -(2**20), 2**20).round() * step).astype(np.float32)
    y = g.add("Conv", [*ins, g.const(bias)], group=group, **sliding(g, axes))
    y, scale, zero = folded(g, g.add("Relu", [y]) if g.chance(0.5) else y, kind)
    g.add("DequantizeLinear", [y, scale, zero])


@family("f", least=2, most=4, weight=3)
def quantised_matmul(g: Growing, x: Tensor) -> None:
    k, n, kind = x.shape[-1], g.random.randint(1, 20), g.random.choice(["i1", "u1"])
    data, scale, zero = folded(g, x, kind)
    weights = g.const(g.numbers.integers(-127, 128, (k, n)).astype("i1"))
    middle = g.const(np.zeros((), "i1"))
    way = g.random.randrange(3)
    if way == 0:
        g.add("MatMulInteger", [data, weights, zero, middle])
    elif way == 1:
        ends = [scale_of(g), g.const(g.made((), kind, -20, 20))]
        g.add("QLinearMatMul", [data, scale, zero, weights, scale_of(g), middle, *ends])
    else:
        ins = [g.add("DequantizeLinear", [data, scale, zero])]
        ins.append(g.add("DequantizeLinear", [weights, scale_of(g), middle]))
        y, scale, zero = folded(g, g.add("MatMul", ins), kind)
        g.add("DequantizeLinear", [y, scale, zero])


@family("f", weight=2)
def quantised_pointwise(g: Growing, x: Tensor) -> None:
    """Add com.microsoft operators on 8-bit tensors."""
    kind, op = (
        g.random.choice(["i1", "u1"]),
        g.random.choice(["Add", "Mul", "LeakyRelu", "Sigmoid"]),
    )
    one, two = folded(g, x, kind), folded(g, x, kind)
    ends = [scale_of(g), g.const(g.made((), kind, -20, 20))]
    ins = [*one, *two, *ends] if op in ("Add", "Mul") else [*one, *ends]
    g.add(f"QLinear{op}", ins, domain="com.microsoft")


@family("iu", least=2, most=2)
def integer_matmul(g: Growing, x: Tensor) -> None:
    g.add("MatMul", [x, g.like(x, x.shape[-1], g.random.randint(1, 6))])


@family("iu", least=3, most=4)
def integer_pool(g: Growing, x: Tensor) -> None:
    g.add("MaxPool", [x], kernel_shape=[2] * (x.rank - 2))

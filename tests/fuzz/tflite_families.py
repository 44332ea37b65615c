"""Operator families of random ``.tflite`` networks."""

from __future__ import annotations

import numpy as np
from tflite_generator import FLOAT, WHOLE, TfliteGrowing, Unfit, Value, family

SAME, VALID = 0, 1


def _extent(size: int, window: int, stride: int, dilation: int, padding: int) -> int:
    if padding == SAME:
        return -(-size // stride)
    return -(-(size - (window - 1) * dilation) // stride)


def _window(g: TfliteGrowing, x: Value, dilated: bool) -> tuple[dict, list[int], list[int]]:
    """Return the options of a sliding window, its size, and the result's extents."""
    window = [g.random.randint(1, 3) for _ in range(2)]
    padding = g.random.choice([SAME, VALID])
    strides = [g.random.choice([1, 1, 2, 3]) for _ in range(2)]
    dilations = [g.random.choice([1, 1, 1, 2]) if dilated else 1 for _ in range(2)]
    if max(strides) > 1:
        dilations = [1, 1]
    extents = [_extent(*each, padding) for each in zip(x.shape[1:3], window, strides, dilations)]
    fields = {"padding": padding, "strideH": strides[0], "strideW": strides[1]}
    if dilated:
        fields |= {"dilationHFactor": dilations[0], "dilationWFactor": dilations[1]}
    return fields, window, extents


@family(least=4, weight=7)
def conv(g: TfliteGrowing, x: Value) -> None:
    channels = x.shape[3]
    groups = g.random.choice([1, 1, 1, *(d for d in (2, 4) if channels % d == 0)])
    if g.hybrid:
        groups = 1
    units = groups * g.random.choice([1, 2, 3, 4, 5, 8])
    fields, window, extents = _window(g, x, dilated=True)
    if g.chance(0.3):
        window = [1, 1]
        strides = (fields["strideH"], fields["strideW"])
        extents = [
            _extent(*each, 1, fields["padding"]) for each in zip(x.shape[1:3], (1, 1), strides)
        ]
    shape = (units, *window, channels // groups)
    w = g.weights(shape, 0, per_channel=not g.hybrid or g.chance(0.5))
    ins = [x.index, w, g.bias(x, w, units)]
    g.op("CONV_2D", ins, [g.made((x.shape[0], *extents, units))], 3, "Conv2DOptions",
         fusedActivationFunction=g.activation(), **fields)  # fmt: skip


@family(least=4, weight=5)
def depthwise(g: TfliteGrowing, x: Value) -> None:
    times = g.random.choice([1, 1, 2, 3])
    units = times * x.shape[3]
    fields, window, extents = _window(g, x, dilated=True)
    w = g.weights((1, *window, units), 3, per_channel=True)
    ins = [x.index, w, g.bias(x, w, units)]
    g.op("DEPTHWISE_CONV_2D", ins, [g.made((x.shape[0], *extents, units))], 3,
         "DepthwiseConv2DOptions", depthMultiplier=times,
         fusedActivationFunction=g.activation(), **fields)  # fmt: skip


@family(least=2, weight=4)
def fully_connected(g: TfliteGrowing, x: Value) -> None:
    units = g.random.randint(1, 20)
    w = g.weights((units, x.shape[-1]), 0, per_channel=not g.hybrid and g.chance(0.3))
    bias = g.bias(x, w, units)
    ins, result = [x.index, w, bias], g.made((*x.shape[:-1], units))
    g.op("FULLY_CONNECTED", ins, [result], 9 if g.hybrid else 4, "FullyConnectedOptions",
         fusedActivationFunction=g.activation(), keepNumDims=True,
         asymmetricQuantizeInputs=g.hybrid and g.chance(0.5))  # fmt: skip


@family(least=4, weight=2)
def transpose_conv(g: TfliteGrowing, x: Value) -> None:
    if g.hybrid:
        raise Unfit
    window, units = [g.random.randint(1, 3) for _ in range(2)], g.random.randint(1, 5)
    strides, padding = [g.random.randint(1, 2) for _ in range(2)], g.random.choice([SAME, VALID])
    extents = [size * stride if padding == SAME else (size - 1) * stride + max(w, 1)
               for size, stride, w in zip(x.shape[1:3], strides, window)]  # fmt: skip
    w = g.weights((units, *window, x.shape[3]), 0, per_channel=True)
    shape = (x.shape[0], *extents, units)
    g.op("TRANSPOSE_CONV", [g.ints(*shape), w, x.index, g.bias(x, w, units)], [g.made(shape)], 3,
         "TransposeConvOptions", padding=padding, strideH=strides[0],
         strideW=strides[1])  # fmt: skip


@family(least=4, weight=6)
def pool(g: TfliteGrowing, x: Value) -> None:
    fields, window, extents = _window(g, x, dilated=False)
    name = g.random.choice(["MAX_POOL_2D", "AVERAGE_POOL_2D"])
    g.op(name, [x.index], [g.made((x.shape[0], *extents, x.shape[3]), like=x)], 2, "Pool2DOptions",
         filterHeight=window[0], filterWidth=window[1], fusedActivationFunction=g.activation(),
         **fields)  # fmt: skip


def _partner(g: TfliteGrowing, x: Value) -> int:
    """Return another tensor that broadcasts with this one, or a constant."""

    def fits(y: Value) -> bool:
        pairs = zip(reversed(y.shape), reversed(x.shape))
        return y.dtype == x.dtype and y.rank <= x.rank and all(b in (a, 1) for b, a in pairs)

    others = [each for each in g.known if each.index != x.index and fits(each)]
    if others and g.chance(0.7):
        return g.random.choice(others).index
    shape = [each if g.chance(0.6) else 1 for each in x.shape][g.random.randint(0, x.rank - 1) :]
    return g.constant(shape)


@family(weight=6)
def pairs(g: TfliteGrowing, x: Value) -> None:
    name, options = g.random.choice(
        [("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions")]
    )
    more = {} if name == "MUL" else {"potScaleInt16": False}
    ins = [x.index, _partner(g, x)]
    if g.chance(0.4):
        ins.reverse()
    g.op(name, ins, [g.made(x.shape)], 1 + (g.base == "int16"), options,
         fusedActivationFunction=g.activation(), **more)  # fmt: skip


@family(weight=2)
def more_pairs(g: TfliteGrowing, x: Value) -> None:
    name = g.random.choice(["SQUARED_DIFFERENCE", "MAXIMUM", "MINIMUM"])
    if name == "SQUARED_DIFFERENCE":
        g.op(name, [x.index, _partner(g, x)], [g.made(x.shape)], 2, "SquaredDifferenceOptions")
    else:
        other = g.constant(x.shape, like=x)
        g.op(name, [x.index, other], [g.made(x.shape, like=x)], 2, "MaximumMinimumOptions")


@family(FLOAT, weight=1)
def division(g: TfliteGrowing, x: Value) -> None:
    other = np.abs(g.numbers.standard_normal(x.shape)).astype(np.float32) + 0.3
    g.op("DIV", [x.index, g.const(other)], [g.made(x.shape)], 2, "DivOptions")


@family(weight=5)
def functions(g: TfliteGrowing, x: Value) -> None:
    name = g.random.choice(["LOGISTIC", "TANH", "RELU", "RELU6", "HARD_SWISH", "ABS", "EXP", "NEG"])
    wide = x.dtype == "int16"
    low = 0 if wide or x.dtype == "uint8" else -128
    fixed = {
        "LOGISTIC": {"scale": 1 / 32768 if wide else 1 / 256, "zero": low},
        "TANH": {"scale": 1 / 32768 if wide else 1 / 128, "zero": 128 if x.dtype == "uint8" else 0},
    }  # fmt: skip
    q = fixed.get(name, {}) if x.quantised else {}
    if name in ("EXP",) and x.dtype == "float32":
        g.op("TANH", [x.index], [x_index := g.made(x.shape)])
        g.op("EXP", [x_index], [g.made(x.shape)])
        return
    g.op(name, [x.index], [g.made(x.shape, **q)], 2 if x.quantised or name == "ABS" else 1)


@family(("float32", "int8", "int16"), weight=2)
def poles(g: TfliteGrowing, x: Value) -> None:
    """Add functions of positive values."""
    name = g.random.choice(["RSQRT", "LOG", "SQRT"])
    if x.dtype == "float32":
        g.op("ABS", [x.index], [positive := g.made(x.shape)])
        half = g.const(np.array([0.5], np.float32))
        g.op("ADD", [positive, half], [above := g.made(x.shape)], 1, "AddOptions")
    else:
        g.op("RELU", [x.index], [above := g.made(x.shape, like=x)], 2)
    g.op(name, [above], [g.made(x.shape)], 2 if x.quantised else 1)


@family(weight=2)
def slopes(g: TfliteGrowing, x: Value) -> None:
    if x.dtype == "int16" or g.chance(0.5):  # LiteRT reads slopes of int16 as bytes
        alpha = g.random.choice([0.1, 0.3, 1.7, -0.2])
        g.op("LEAKY_RELU", [x.index], [g.made(x.shape)], 2, "LeakyReluOptions", alpha=alpha)
    else:
        g.op("PRELU", [x.index, g.constant([1] * (x.rank - 2) + [x.shape[-1]])], [g.made(x.shape)])


@family(weight=2)
def softmax(g: TfliteGrowing, x: Value) -> None:
    q = {}
    if x.dtype == "int16":
        q = {"scale": 1 / 32768, "zero": 0}
    elif x.quantised:
        q = {"scale": 1 / 256, "zero": 0 if x.dtype == "uint8" else -128}
    g.op("SOFTMAX", [x.index], [g.made(x.shape, **q)], 3 if x.dtype == "int16" else 2,
         "SoftmaxOptions", beta=g.random.choice([1.0, 1.0, 0.3]))  # fmt: skip


@family(("float32", "int8", "uint8"), weight=2)
def log_softmax(g: TfliteGrowing, x: Value) -> None:
    q = {"scale": 1 / 16, "zero": 255 if x.dtype == "uint8" else 127} if x.quantised else {}
    g.op("LOG_SOFTMAX", [x.index], [g.made(x.shape, **q)], 2, "LogSoftmaxOptions")


@family(("float32", "int8", "int16"), weight=2)
def product(g: TfliteGrowing, x: Value) -> None:
    axis = g.random.randrange(x.rank)
    shape = [each for i, each in enumerate(x.shape) if i != axis]
    g.op("REDUCE_PROD", [x.index, g.ints(axis)], [g.made(shape)], 2, "ReducerOptions",
         keepDims=False)  # fmt: skip


@family(weight=3)
def reduce(g: TfliteGrowing, x: Value) -> None:
    name = g.random.choice(["MEAN", "MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"])
    if name == "SUM" and x.quantised:
        raise Unfit  # the reference kernel is wrong: the difference tflite-sum
    axes = sorted(g.random.sample(range(x.rank), g.random.randint(1, min(2, x.rank))))
    keep = g.chance(0.5)
    shape = [1 if i in axes else each for i, each in enumerate(x.shape) if keep or i not in axes]
    like = x if name.startswith("REDUCE") else None
    g.op(name, [x.index, g.ints(*axes)], [g.made(shape, like=like)], 3 if x.dtype == "int16" else 2,
         "ReducerOptions", keepDims=keep)  # fmt: skip


@family(weight=1)
def extreme(g: TfliteGrowing, x: Value) -> None:
    name = g.random.choice(["ARG_MAX", "ARG_MIN"])
    axis = g.random.randrange(x.rank)
    shape = [each for i, each in enumerate(x.shape) if i != axis]
    options = name.title().replace("_", "") + "Options"
    g.op(name, [x.index, g.ints(axis)], [g.made(shape, dtype="int32")], 2, options, outputType=2)


@family(weight=3)
def views(g: TfliteGrowing, x: Value) -> None:
    size = int(np.prod(x.shape))
    if x.rank > 1 and g.chance(0.4):
        order = g.random.sample(range(x.rank), x.rank)
        g.op("TRANSPOSE", [x.index, g.ints(*order)], [g.made([x.shape[i] for i in order], like=x)],
             4 if x.dtype == "int16" else 2)  # fmt: skip
        return
    first = g.random.choice([d for d in range(1, size + 1) if size % d == 0])
    second = g.random.choice([d for d in range(1, size // first + 1) if size // first % d == 0])
    shape = [1, first, second, size // first // second][g.random.randint(0, 1) :]
    g.op("RESHAPE", [x.index, g.ints(*shape)], [g.made(shape, like=x)], 1, "ReshapeOptions",
         newShape=np.array(shape, np.int32))  # fmt: skip


@family(weight=3)
def concat(g: TfliteGrowing, x: Value) -> None:
    axis = g.random.randrange(x.rank)
    shape = [g.random.randint(1, 3) if i == axis else each for i, each in enumerate(x.shape)]
    like = None if x.dtype == "uint8" else x
    parts = [x.index, g.constant(shape, like=like)]
    if g.chance(0.4):
        parts.append(x.index)
    total = x.shape[axis] * (len(parts) - 1) + shape[axis]
    result = [total if i == axis else each for i, each in enumerate(x.shape)]
    g.op("CONCATENATION", parts, [g.made(result, like=like)], 2 + (x.dtype == "int16"),
         "ConcatenationOptions", axis=axis)  # fmt: skip


@family(weight=3)
def pad(g: TfliteGrowing, x: Value) -> None:
    rows = g.numbers.integers(0, 3, (x.rank, 2))
    if g.chance(0.3):
        rows = np.minimum(rows, np.array(x.shape)[:, None] - 1)
        shape = np.array(x.shape) + rows.sum(1)
        g.op("MIRROR_PAD", [x.index, g.const(rows.astype(np.int32))], [g.made(shape, like=x)], 2,
             "MirrorPadOptions", mode=g.random.randint(0, 1))  # fmt: skip
        return
    shape = np.array(x.shape) + rows.sum(1)
    fill = [g.constant((1,), like=x)] if g.chance(0.4) else []
    g.op("PADV2" if fill else "PAD", [x.index, g.const(rows.astype(np.int32)), *fill],
         [g.made(shape, like=x)], 3 if x.dtype == "int16" else 2)  # fmt: skip


@family(weight=3)
def cut(g: TfliteGrowing, x: Value) -> None:
    if g.chance(0.5):
        begin = [g.random.randint(0, each - 1) for each in x.shape]
        sizes = [g.random.randint(1, each - at) for each, at in zip(x.shape, begin)]
        g.op("SLICE", [x.index, g.ints(*begin), g.ints(*sizes)], [g.made(sizes, like=x)],
             4 if x.dtype == "int16" else 2)  # fmt: skip
        return
    rows = []
    for size in x.shape:
        step = g.random.choice([1, 1, 2, -1])
        begin = g.random.randint(0, size - 1)
        end = (
            g.random.randint(begin + 1, size)
            if step > 0
            else g.random.randint(-size - 1, begin - size - 1)
        )
        rows.append((begin, end, step, len(range(size)[begin:end:step])))
    begins, ends, steps, shape = zip(*rows)
    g.op("STRIDED_SLICE", [x.index, g.ints(*begins), g.ints(*ends), g.ints(*steps)],
         [g.made(shape, like=x)], 4, "StridedSliceOptions")  # fmt: skip


@family(weight=2)
def pick(g: TfliteGrowing, x: Value) -> None:
    axis = g.random.randrange(x.rank)
    if g.chance(0.5):
        index = g.numbers.integers(0, x.shape[axis], 3).astype(np.int32)
        shape = [3 if i == axis else each for i, each in enumerate(x.shape)]
        g.op("GATHER", [x.index, g.const(index)], [g.made(shape, like=x)],
             4 if x.dtype == "int16" else 2, "GatherOptions", axis=axis)  # fmt: skip
    elif x.shape[axis] % 2 == 0:
        shape = [each // 2 if i == axis else each for i, each in enumerate(x.shape)]
        g.op("SPLIT", [g.ints(axis), x.index], [g.made(shape, like=x) for _ in range(2)],
             4 if x.dtype == "int16" else 2, "SplitOptions", numSplits=2)  # fmt: skip
    else:
        times = [g.random.choice([1, 1, 2]) for _ in x.shape]
        shape = [a * b for a, b in zip(x.shape, times)]
        g.op("TILE", [x.index, g.ints(*times)], [g.made(shape, like=x)], 2)


@family(least=4, weight=3)
def resize(g: TfliteGrowing, x: Value) -> None:
    size = [g.random.randint(1, 12) for _ in range(2)]
    name, options = g.random.choice([
        ("RESIZE_BILINEAR", "ResizeBilinearOptions"),
        ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
    ])  # fmt: skip
    how = g.random.choice([{}, {"halfPixelCenters": True}, {"alignCorners": True}])
    g.op(name, [x.index, g.ints(*size)], [g.made((x.shape[0], *size, x.shape[3]), like=x)], 4,
         options, **how)  # fmt: skip


@family(least=4, weight=1)
def blocks(g: TfliteGrowing, x: Value) -> None:
    n, h, w, c = x.shape
    if h % 2 == 0 and w % 2 == 0:
        g.op("SPACE_TO_DEPTH", [x.index], [g.made((n, h // 2, w // 2, 4 * c), like=x)], 2,
             "SpaceToDepthOptions", blockSize=2)  # fmt: skip
    elif c % 4 == 0:
        g.op("DEPTH_TO_SPACE", [x.index], [g.made((n, 2 * h, 2 * w, c // 4), like=x)], 2,
             "DepthToSpaceOptions", blockSize=2)  # fmt: skip


@family(WHOLE, weight=2)
def requantise(g: TfliteGrowing, x: Value) -> None:
    way = g.random.randrange(3)
    if way == 0:
        g.op("QUANTIZE", [x.index], [g.made(x.shape)], 3)
    elif way == 1:
        g.op("DEQUANTIZE", [x.index], [g.made(x.shape, dtype="float32")], 3)
    else:
        other = "int16" if x.dtype == "int8" else "int8"
        g.op("QUANTIZE", [x.index], [g.made(x.shape, dtype=other)], 3)


@family(least=3, most=4, weight=2)
def batch_matmul(g: TfliteGrowing, x: Value) -> None:
    n = g.random.randint(1, 7)
    other = g.constant((*x.shape[:-2], x.shape[-1], n), 0.3)
    if g.base == "int16":
        g.graph.tensors[other].quantization.zeroPoint[:] = 0
    g.op("BATCH_MATMUL", [x.index, other], [g.made((*x.shape[:-1], n))],
         3 if x.dtype == "int16" else 2, "BatchMatMulOptions")  # fmt: skip

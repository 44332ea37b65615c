"""Families of nodes whose sizes are computed from shapes, some of them invalid at small sizes."""

from __future__ import annotations

import numpy as np
from generator import Tensor, Unfit
from onnx import TensorProto, numpy_helper
from open_generator import MAX_COUNT, SizedGrowing, open_family


def size_of(g: SizedGrowing, x: Tensor | str, axis: int) -> str:
    """Return the extent of an axis as a tensor [1], in the ways of the exporters."""
    way = g.random.choice(["gather", "attribute", "slice", "unsqueeze"])
    if way == "attribute":
        return g.add("Shape", [x], start=axis, end=axis + 1)
    shape = g.add("Shape", [x])
    if way == "gather":
        return g.add("Gather", [shape, g.whole([axis])])
    if way == "slice":
        return g.add("Slice", [shape, g.whole([axis]), g.whole([axis + 1]), g.whole([0])])
    one = g.add("Gather", [shape, g.const(np.array(axis, np.int64))])
    return g.add("Unsqueeze", [one, g.whole([0])])


def open_axis(g: SizedGrowing, x: Tensor) -> int:
    """Return an axis whose size varies, or any if there is none."""
    axes = [axis for axis in range(x.rank) if not g.is_fixed(x, axis)]
    return g.random.choice(axes or range(x.rank))


def small(g: SizedGrowing, least: int = 1, most: int = 5) -> str:
    return g.whole([g.random.randint(least, most)])


def through_floats(g: SizedGrowing, count: str) -> str:
    """Scale a size in floats and round it, as for a resize."""
    kind = g.random.choice([TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.DOUBLE])
    real = g.add("Cast", [count], to=kind)
    scale = np.array([g.random.choice([0.5, 1.5, 0.25, 2.0, 1 / 3, 0.75])])
    scale = g.const(scale.astype("float32" if kind == TensorProto.FLOAT else "float64"))
    real = g.add(g.random.choice(["Mul", "Mul", "Div"]), [real, scale])
    return g.add("Cast", [g.add(g.random.choice(["Floor", "Ceil", "Round"]), [real])], to=7)


def computed(g: SizedGrowing, count: str) -> str:
    """Return arithmetic of a size, as a tensor [1]."""
    op = g.random.choice(["Div", "Mod", "Max", "Min", "Add", "Sub", "Mul", "float", "pair", "same"])
    if op == "same":
        return count
    if op == "float":
        return through_floats(g, count)
    if op == "pair":
        other = g.random.choice(g.counts) if g.counts else count
        return g.add(g.random.choice(["Max", "Min", "Add"]), [count, other])
    return g.add(op, [count, small(g, 2 if op in ("Div", "Mod", "Mul") else 1, 4)])


def count_of(g: SizedGrowing, x: Tensor) -> str:
    """Return a size: of this tensor or an earlier one, with some arithmetic."""
    if g.counts and g.chance(0.35):
        count = g.random.choice(g.counts)
    else:
        count = size_of(g, x, open_axis(g, x))
    for _ in range(g.random.choice([0, 1, 1, 2])):
        count = computed(g, count)
    g.counts.append(count)
    return count


def limited(g: SizedGrowing, count: str) -> str:
    """Limit a size from below or above, or not at all; negative ones are errors mostly."""
    if g.chance(0.5):
        count = g.add("Max", [count, g.whole([g.random.choice([0, 1])])])
    if g.chance(0.3):
        count = g.add("Min", [count, g.whole([g.random.choice([3, 20, MAX_COUNT])])])
    return count


def scalar(g: SizedGrowing, count: str) -> str:
    """Return a size as a scalar."""
    if g.chance(0.5):
        return g.add("Squeeze", [count, g.whole([0])])
    return g.add("Reshape", [count, g.const(np.zeros(0, np.int64))])


def zero_to(g: SizedGrowing, count: str) -> str:
    """Return the integers below a size."""
    start, step = (g.const(np.array(each, np.int64)) for each in (0, g.random.choice([1, 1, 2])))
    return g.add("Range", [start, scalar(g, count), step])


@open_family("fi", least=1, weight=3)
def top_k(g: SizedGrowing, x: Tensor) -> None:
    """The best k of an open axis, with k fixed or limited by the size."""
    axis = open_axis(g, x)
    count = g.whole([g.random.choice([1, 2, 3, 5, 8])])
    if g.chance(0.3):
        count = g.add("Min", [count, size_of(g, x, axis)])
    values = g.add("TopK", [x, count], 2, axis=axis, largest=int(g.chance(0.7)))
    if g.chance(0.5):
        g.add("Relu" if x.kind == "f" else "Neg", [values])


@open_family("fi", weight=3)
def range_of_size(g: SizedGrowing, x: Tensor) -> None:
    """Positions up to a computed count, added to a tensor or compared with it."""
    places = zero_to(g, limited(g, count_of(g, x)))
    if g.chance(0.5):
        axis = x.rank - 1
        places = zero_to(g, size_of(g, x, axis))
    real = g.add("Cast", [places], to=1)
    if x.dtype == np.float32 and g.chance(0.7):
        g.add("Add", [x, g.add("Mul", [real, g.const(np.array(0.1, np.float32))])])


@open_family("f", weight=4)
def window(g: SizedGrowing, x: Tensor) -> None:
    """A window over the flattened tensor or its last axis; the kernel may exceed the length."""
    rows = g.whole([1, 1, -1])
    if x.rank == 3 and g.is_fixed(x, 1) and g.chance(0.7):
        y, channels = x.name, x.shape[1]
    else:
        y, channels = g.add("Reshape", [x, rows]), 1
    windowed(g, y, channels, x.dtype)


def windowed(g: SizedGrowing, y: str, channels: int, dtype: np.dtype) -> str:
    """Add a convolution or pooling over the last of three axes."""
    kernel, stride = g.random.randint(1, 5), g.random.randint(1, 3)
    dilation = g.random.choice([1, 1, 2])
    pads = [g.random.randint(0, kernel - 1), g.random.randint(0, kernel - 1)]
    op = g.random.choice(["Conv", "Conv", "ConvTranspose", "MaxPool", "AveragePool"])
    attrs: dict = {"kernel_shape": [kernel], "strides": [stride], "pads": pads}
    if op == "Conv":
        weights = g.made([g.random.choice([1, 4]), channels, kernel], dtype) * dtype.type(0.4)
        return g.add(op, [y, g.const(weights)], dilations=[dilation], **attrs)
    if op == "ConvTranspose":
        weights = g.made([channels, g.random.choice([1, 4]), kernel], dtype) * dtype.type(0.4)
        attrs["pads"] = [g.random.randint(0, (kernel - 1) // 2)] * 2
        return g.add(op, [y, g.const(weights)], **attrs)
    attrs["ceil_mode"] = int(g.chance(0.3))
    return g.add(op, [y], **attrs)


@open_family("u", weight=6)
@open_family("f", weight=1)
def integer_window(g: SizedGrowing, x: Tensor) -> None:
    """ConvInteger or MatMulInteger of the flattened tensor."""
    y = x.name
    if x.kind == "f":
        y = g.add("Cast", [g.add("Clip", [x, *(g.const(np.array(v, x.dtype)) for v in (0, 9))])],
                  to=TensorProto.UINT8)  # fmt: skip
    elif x.dtype != np.uint8:
        raise Unfit
    y = g.add("Reshape", [y, g.whole([1, 1, -1])])
    zero = g.const(np.array(g.random.choice([0, 3]), np.uint8))
    if g.chance(0.6):
        kernel = g.random.randint(1, 4)
        weights = g.const(g.made([2, 1, kernel], "uint8"))
        y = g.add("ConvInteger", [y, weights, zero], kernel_shape=[kernel])
    else:
        y = g.add("MatMulInteger", [g.add("Transpose", [y], perm=[0, 2, 1]), y, zero])
    g.add("Cast", [y], to=1)


@open_family("fi", weight=4)
def reshape(g: SizedGrowing, x: Tensor) -> None:
    """Reshape by computed sizes, or by a factor that must divide the number of elements."""
    way = g.random.choice(["factor", "count", "flat", "split", "merge"])
    if way == "factor":
        shape = g.whole(g.random.choice([[-1, g.random.randint(2, 4)], [2, -1], [-1, 1, 3]]))
    elif way == "count":
        shape = g.add("Concat", [limited(g, count_of(g, x)), g.whole([-1])], axis=0)
    elif way == "flat":
        shape = g.whole([-1])
    elif way == "split":
        axis, k = open_axis(g, x), g.random.randint(2, 4)
        part = g.add("Div", [size_of(g, x, axis), g.whole([k])])
        parts = [size_of(g, x, i) for i in range(x.rank)]
        parts[axis : axis + 1] = [part, g.whole([k])] if g.chance(0.5) else [g.whole([k]), part]
        shape = g.add("Concat", parts, axis=0)
    else:
        if x.rank < 2:
            raise Unfit
        first = g.add("Mul", [size_of(g, x, 0), size_of(g, x, 1)])
        shape = g.add("Concat", [first, *(size_of(g, x, i) for i in range(2, x.rank))], axis=0)
    g.add("Reshape", [x, shape])


@open_family("fi", weight=3)
def split(g: SizedGrowing, x: Tensor) -> None:
    """Split an axis into a computed part and the remainder, or into equal parts."""
    axis = open_axis(g, x)
    if g.opset >= 18 and g.chance(0.3):
        g.add("Split", [x], 2, axis=axis, num_outputs=2)
        return
    size = size_of(g, x, axis)
    if g.chance(0.3):
        first = g.whole([g.random.randint(1, 4)])
    else:
        first = computed(g, size)
    sizes = g.add("Concat", [first, g.add("Sub", [size, first])], axis=0)
    left = g.add("Split", [x, sizes], 2, axis=axis)
    right = f"t{int(left[1:]) + 1}"
    if g.chance(0.6):
        g.add("Concat", [right, left], axis=axis)


@open_family("fi", weight=4)
def cut(g: SizedGrowing, x: Tensor) -> None:
    """Slice between computed positions, which may be negative, beyond the end, or backward."""
    axis = open_axis(g, x)
    places = [count_of(g, x), g.whole([0]), small(g), g.whole([-g.random.randint(1, 4)])]
    step = g.random.choice([1, 1, 2, 3, -1, -2])
    # onnxruntime takes the largest integer for the first element of a backward slice
    beyond = g.whole([2**63 - 1 if step > 0 else -(2**63)])
    start, end = g.random.choice(places), g.random.choice([*places, beyond])
    g.add("Slice", [x, start, end, g.whole([axis]), g.whole([step])])


@open_family("fi", weight=3)
def repeat(g: SizedGrowing, x: Tensor) -> None:
    """Tile or Expand by a computed count."""
    count = g.add("Min", [limited(g, count_of(g, x)), g.whole([g.random.choice([2, 12])])])
    if g.chance(0.5):
        counts = [g.whole([1])] * x.rank
        counts[g.random.randrange(x.rank)] = count
        g.add("Tile", [x, counts[0] if x.rank == 1 else g.add("Concat", counts, axis=0)])
    else:
        added = g.add("Unsqueeze", [x, g.whole([0])])
        shape = g.add("Concat", [count, *[g.whole([1])] * x.rank], axis=0)
        g.add("Expand", [added, shape])


@open_family("f", least=3, weight=4)
def resize(g: SizedGrowing, x: Tensor) -> None:
    """Resize the last axes by scales, or to computed sizes."""
    if x.dtype != np.float32:
        raise Unfit
    axes = list(range(2, x.rank)) if x.rank > 2 else [1]
    mode = g.random.choice(["nearest", "linear"])
    attrs = {"mode": mode, "coordinate_transformation_mode": g.random.choice(
        ["asymmetric", "half_pixel", "pytorch_half_pixel"])}  # fmt: skip
    if mode == "nearest":
        attrs["nearest_mode"] = "floor"
    if g.chance(0.4):
        scales = np.ones(x.rank, np.float32)
        scales[axes] = [g.random.choice([0.5, 1.5, 2.0, 2.5]) for _ in axes]
        g.add("Resize", [x, "", g.const(scales)], **attrs)
        return
    sizes = [size_of(g, x, axis) for axis in range(x.rank)]
    for axis in axes:
        sizes[axis] = g.add("Min", [limited(g, count_of(g, x)), g.whole([40])])
    g.add("Resize", [x, "", "", g.add("Concat", sizes, axis=0)], **attrs)


@open_family("f", weight=4)
def pad_to_multiple(g: SizedGrowing, x: Tensor) -> None:
    """Pad an axis to a multiple of k, compute in blocks of k, and cut the result."""
    axis, k = open_axis(g, x), g.random.randint(2, 8)
    size = size_of(g, x, axis)
    rest = g.add("Mod", [g.add("Sub", [g.whole([k]), g.add("Mod", [size, g.whole([k])])]),
                         g.whole([k])])  # fmt: skip
    zeros = [g.whole([0])] * (2 * x.rank)
    zeros[x.rank + axis] = rest
    pads = g.add("Concat", zeros, axis=0)
    mode = g.random.choice(["constant", "constant", "reflect", "edge"])
    padded = g.add("Pad", [x, pads], mode=mode)
    parts = [size_of(g, padded, i) for i in range(x.rank)]
    parts[axis : axis + 1] = [g.whole([-1]), g.whole([k])]
    blocks = g.add("Reshape", [padded, g.add("Concat", parts, axis=0)])
    blocks = g.add("Softmax", [blocks], axis=axis + 1)
    back = g.add("Reshape", [blocks, g.add("Shape", [padded])])
    if g.chance(0.7):
        g.add("Slice", [back, g.whole([0]), size, g.whole([axis])])


@open_family("f", weight=2)
def whole_blocks(g: SizedGrowing, x: Tensor) -> None:
    """Cut an axis to a multiple of k; the quotient is a size."""
    axis, k = open_axis(g, x), g.random.randint(2, 6)
    blocks = g.add("Div", [size_of(g, x, axis), g.whole([k])])
    end = g.add("Mul", [blocks, g.whole([k])])
    y = g.add("Slice", [x, g.whole([0]), end, g.whole([axis])])
    parts = [size_of(g, x, i) for i in range(x.rank)]
    parts[axis : axis + 1] = [blocks, g.whole([k])]
    g.counts.append(blocks)
    g.add("Reshape", [y, g.add("Concat", parts, axis=0)])


@open_family("fi", weight=2)
def at_index(g: SizedGrowing, x: Tensor) -> None:
    """Gather a fixed or computed index, which small sizes do not have; or squeeze an axis."""
    axis = open_axis(g, x)
    if g.chance(0.2):
        g.add("Squeeze", [x, g.whole([axis])])
        return
    index = g.const(np.array(g.random.choice([0, 1, -1, 3, -2]), np.int64))
    if g.chance(0.4):
        index = computed(g, size_of(g, x, axis))
    g.add("Gather", [x, index], axis=axis)


@open_family("f", weight=3)
def mask(g: SizedGrowing, x: Tensor) -> None:
    """Add another tensor, whose axes are separately named: they are equal or 1."""
    others = [y for y in g.tensors() if y.dtype == x.dtype and y.name != x.name]
    if not others:
        raise Unfit
    g.add(g.random.choice(["Add", "Mul"]), [x, g.random.choice(others)])


@open_family("f", least=2, weight=2)
def attention(g: SizedGrowing, x: Tensor) -> None:
    """Scores of rows with each other, with a causal mask made from the size."""
    if x.dtype != np.float32:
        raise Unfit
    axes = list(range(x.rank))
    axes[-2:] = [x.rank - 1, x.rank - 2]
    scores = g.add("MatMul", [x, g.add("Transpose", [x], perm=axes)])
    size = size_of(g, x, x.rank - 2)
    shape = g.add("Concat", [size, size], axis=0)
    value = g.const(np.array([-1000.0], np.float32))
    one = numpy_helper.from_array(np.ones(1, np.float32))
    lower = g.add("ConstantOfShape", [shape], value=one)
    lower = g.add("Trilu", [lower], upper=1) if g.chance(0.5) else lower
    scores = g.add("Add", [scores, g.add("Mul", [lower, value])])
    g.add("MatMul", [g.add("Softmax", [scores], axis=-1), x])

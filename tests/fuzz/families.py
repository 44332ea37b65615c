"""Operator families of random networks: pointwise, reductions, data movement, selection."""

from __future__ import annotations

import numpy as np
from generator import Growing, Tensor, family
from onnx import TensorProto

PLAIN = """Relu Sigmoid Tanh Abs Neg HardSwish HardSigmoid Elu Selu Softplus Softsign Erf Floor Ceil
Round Sign Sin Cos Atan Mish Gelu Celu LeakyRelu ThresholdedRelu Identity Asinh Sinh Shrink Swish
Hardmax Softmax LogSoftmax""".split()
WITH_ALPHA = ("LeakyRelu", "Elu", "Celu", "ThresholdedRelu", "HardSigmoid")
REDUCTIONS = """ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum
ReduceSumSquare ReduceLogSumExp""".split()
INTEGER_REDUCTIONS = REDUCTIONS[:4]  # multiplications overflow: ours wrap, onnxruntime's saturate
CAST_TYPES = [
    TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.INT8, TensorProto.UINT8,
    TensorProto.INT16, TensorProto.INT32, TensorProto.INT64, TensorProto.UINT32, TensorProto.BOOL,
]  # fmt: skip


def axis_of(g: Growing, x: Tensor) -> int:
    return g.random.randint(-x.rank, x.rank - 1)


def shuffled(g: Growing, values: list) -> list:
    g.random.shuffle(values)
    return values


def broadcast(g: Growing, x: Tensor) -> tuple[int, ...]:
    """Return a shape that broadcasts with a tensor's."""
    return tuple(each if g.chance(0.6) else 1 for each in x.shape)[g.random.randint(0, x.rank) :]


def partner(g: Growing, x: Tensor) -> Tensor | str:
    """Return another tensor of the type that broadcasts with this one, or a constant."""

    def fits(y: Tensor) -> bool:
        pairs = zip(reversed(y.shape), reversed(x.shape))
        return y.dtype == x.dtype and all(a == b or 1 in (a, b) for a, b in pairs)

    others = [each for each in g.tensors() if each.name != x.name and fits(each)]
    return g.random.choice(others) if others and g.chance(0.6) else g.like(x, *broadcast(g, x))


@family("f", weight=4)
def plain(g: Growing, x: Tensor) -> None:
    op = g.random.choice(PLAIN)
    attrs = {"alpha": g.random.choice([0.1, 0.5, 1.3])} if op in WITH_ALPHA else {}
    g.add(op, [x], **attrs)


@family("f", weight=2)
def positive(g: Growing, x: Tensor) -> None:
    """Return a positive tensor, for functions with a limited domain."""
    op = g.random.choice(["Sqrt", "Log", "Reciprocal", "Exp", "Acos", "Atanh", "Acosh", "Tan"])
    one, half = (g.const(np.array(v, x.dtype)) for v in (1, 0.5))
    if op in ("Sqrt", "Log", "Reciprocal"):
        g.add(op, [g.add("Add", [g.add("Abs", [x]), half])])
    elif op == "Acosh":
        g.add(op, [g.add("Add", [g.add("Abs", [x]), one])])
    else:
        g.add(op, [g.add("Mul", [g.add("Tanh", [x]), half])])


@family("iu", weight=1)
def integer(g: Growing, x: Tensor) -> None:
    g.add(g.random.choice(["Abs", "Neg", "Sign", "Identity", "Relu", "BitwiseNot"]), [x])


@family("fiu", weight=4)
def binary(g: Growing, x: Tensor) -> None:
    ops = ["Add", "Sub", "Mul", "Min", "Max", "Add"] + (["Sum", "Mean"] if x.kind == "f" else [])
    g.add(g.random.choice(ops), shuffled(g, [x, partner(g, x)]))


@family("fiu", weight=2)
def division(g: Growing, x: Tensor) -> None:
    divisor = g.made(broadcast(g, x), x.dtype)
    divisor = np.where(np.abs(divisor) < 0.3, 2, divisor).astype(x.dtype)
    op = g.random.choice(["Div", "Mod"])
    fmod = {"fmod": int(x.kind == "f" or g.chance(0.5))} if op == "Mod" else {}
    g.add(op, [x, g.const(divisor)], **fmod)


@family("f")
def power(g: Growing, x: Tensor) -> None:
    exponent = np.array(g.random.choice([2, 3, 0.5, 1.5, -1]), x.dtype)
    if exponent == 2 or g.chance(0.3):
        whole = np.array(g.random.choice([0, 1, 2, 3]), g.random.choice(["i4", "i8"]))
        g.add("Pow", [x, g.const(whole)])
    else:
        half = g.const(np.array(0.5, x.dtype))
        g.add("Pow", [g.add("Add", [g.add("Abs", [x]), half]), g.const(exponent)])


@family("u")
def shift(g: Growing, x: Tensor) -> None:
    by = g.const(g.made(broadcast(g, x), x.dtype, 0, 8))
    g.add("BitShift", [x, by], direction=g.random.choice(["LEFT", "RIGHT"]))


@family("iu")
def bits(g: Growing, x: Tensor) -> None:
    g.add(g.random.choice(["BitwiseAnd", "BitwiseOr", "BitwiseXor"]), [x, partner(g, x)])


@family("fiu")
def clip(g: Growing, x: Tensor) -> None:
    low, high = (g.const(np.array(v, x.dtype)) for v in ((-0.5, 0.7) if x.kind == "f" else (1, 3)))
    g.add("Clip", [x, *g.random.choice([[low, high], ["", high], [low], [low, ""]])])


@family("f")
def slopes(g: Growing, x: Tensor) -> None:
    g.add("PRelu", [x, g.like(x, *broadcast(g, x))])


@family("fiub", weight=2)
def cast(g: Growing, x: Tensor) -> None:
    kept = (
        g.add("Clip", [x, *(g.const(np.array(v, x.dtype)) for v in (0, 50))])
        if x.kind in "fi"
        else x
    )
    g.add("Cast", [kept], to=g.random.choice(CAST_TYPES))


@family("fiu")
def compare(g: Growing, x: Tensor) -> None:
    op = g.random.choice(["Greater", "Less", "GreaterOrEqual", "LessOrEqual", "Equal"])
    g.add(op, [x, partner(g, x)])


@family("b", weight=3)
def logic(g: Growing, x: Tensor) -> None:
    op = g.random.choice(["And", "Or", "Xor", "Not", "Equal"])
    g.add(op, [x] if op == "Not" else [x, partner(g, x)])


@family("b", weight=4)
def where(g: Growing, x: Tensor) -> None:
    y = g.random.choice([each for each in g.tensors() if each.kind != "b"] or [x])
    g.add("Where", [x, *shuffled(g, [y, g.like(y)])])


@family("f")
def special(g: Growing, x: Tensor) -> None:
    g.add(g.random.choice(["IsNaN", "IsInf"]), [x])


@family("fiu", least=1, weight=3)
def reduce(g: Growing, x: Tensor) -> None:
    op = g.random.choice(REDUCTIONS if x.kind == "f" else INTEGER_REDUCTIONS)
    y = g.add("Add", [g.add("Abs", [x]), g.const(np.array(1, x.dtype))]) if "Log" in op else x
    axes = g.random.sample(range(x.rank), g.random.randint(1, x.rank))
    keep = g.random.randint(0, 1)
    if op == "ReduceSum" or g.opset >= 18:
        g.add(op, [y, g.whole(axes)], keepdims=keep)
    else:
        g.add(op, [y], axes=axes, keepdims=keep)


@family("fiu", least=1)
def extreme(g: Growing, x: Tensor) -> None:
    g.add(
        g.random.choice(["ArgMax", "ArgMin"]), [x], axis=axis_of(g, x),
        keepdims=g.random.randint(0, 1), select_last_index=g.random.randint(0, 1),
    )  # fmt: skip


@family("fiu", least=1)
def top(g: Growing, x: Tensor) -> None:
    axis = axis_of(g, x)
    k = g.whole([g.random.randint(1, x.shape[axis])])
    g.add("TopK", [x, k], 2, axis=axis, largest=g.random.randint(0, 1))


@family("fiu", least=1)
def cumulate(g: Growing, x: Tensor) -> None:
    axis = g.const(np.array(axis_of(g, x), g.random.choice(["i4", "i8"])))
    g.add("CumSum", [x, axis], exclusive=g.random.randint(0, 1), reverse=g.random.randint(0, 1))


@family("fiub", least=1, weight=2)
def transpose(g: Growing, x: Tensor) -> None:
    g.add("Transpose", [x], perm=shuffled(g, list(range(x.rank))))


@family("fiub", weight=2)
def reshape(g: Growing, x: Tensor) -> None:
    size = int(np.prod(x.shape))
    first = g.random.choice([d for d in range(1, size + 1) if size % d == 0])
    second = g.random.choice([d for d in range(1, size // first + 1) if size // first % d == 0])
    g.add("Reshape", [x, g.whole(shuffled(g, [first, second, -1]))])


@family("fiub", weight=2)
def view(g: Growing, x: Tensor) -> None:
    ones = [i for i, each in enumerate(x.shape) if each == 1]
    if ones and g.chance(0.4):
        g.add("Squeeze", [x, g.whole([g.random.choice(ones)])])
    elif g.chance(0.5):
        g.add("Unsqueeze", [x, g.whole([g.random.randint(-x.rank - 1, x.rank)])])
    else:
        g.add("Flatten", [x], axis=g.random.randint(-x.rank, x.rank))


@family("fiub")
def repeat(g: Growing, x: Tensor) -> None:
    if g.chance(0.5):
        g.add("Tile", [x, g.whole([g.random.choice([1, 1, 2, 3]) for _ in x.shape])])
    else:
        shape = [each if each > 1 else g.random.choice([1, 3]) for each in x.shape]
        g.add("Expand", [x, g.whole([*g.random.choice([[], [1], [2]]), *shape])])


@family("fiub", least=1, weight=2)
def concat(g: Growing, x: Tensor) -> None:
    axis = g.random.randrange(x.rank)

    def fits(y: Tensor) -> bool:
        pairs = enumerate(zip(x.shape, y.shape))
        same = y.dtype == x.dtype and y.rank == x.rank
        return same and all(i == axis or a == b for i, (a, b) in pairs)

    alike = [each for each in g.tensors() if fits(each)]
    parts = [x, *(g.random.choice(alike) for _ in range(g.random.randint(1, 2)))]
    if g.chance(0.4):
        shape = [g.random.randint(1, 3) if i == axis else each for i, each in enumerate(x.shape)]
        parts.append(g.like(x, *shape))
    g.add("Concat", shuffled(g, parts), axis=axis - g.random.choice([0, x.rank]))


@family("fiub", least=1, weight=2)
def cut(g: Growing, x: Tensor) -> None:
    """Add slices, forwards and backwards, with ends far outside."""
    rows = []
    for axis in g.random.sample(range(x.rank), g.random.randint(1, x.rank)):
        size = x.shape[axis]
        if g.chance(0.3):
            begin = g.random.choice([-1, size + 3])
            rows.append(
                (begin, g.random.choice([-size - 5, -size - 1, 0]), axis, -g.random.randint(1, 2))
            )
        else:
            end = g.random.choice([2**31, size, -1, 2**62])
            rows.append(
                (g.random.randint(0, size // 2), end, axis - x.rank, g.random.randint(1, 3))
            )
    g.add("Slice", [x, *(g.whole(list(column)) for column in zip(*rows))])


@family("fiub", least=1)
def split(g: Growing, x: Tensor) -> None:
    axis = axis_of(g, x)
    if x.shape[axis] > 1:
        first = g.random.randint(1, x.shape[axis] - 1)
        g.add("Split", [x, g.whole([first, x.shape[axis] - first])], 2, axis=axis)


@family("fiub", least=1, weight=2)
def gather(g: Growing, x: Tensor) -> None:
    axis, op = g.random.randrange(x.rank), g.random.choice(["Gather", "GatherElements", "GatherND"])
    size = x.shape[axis]
    if op == "Gather":
        index = g.numbers.integers(-size, size, g.random.choice([(), (3,), (2, 2)]))
        g.add(op, [x, g.const(index.astype(g.random.choice(["i8", "i4"])))], axis=axis)
    elif op == "GatherElements":
        shape = [g.random.randint(1, 4) if i == axis else each for i, each in enumerate(x.shape)]
        g.add(op, [x, g.const(g.numbers.integers(-size, size, shape))], axis=axis)
    else:
        depth = g.random.randint(1, x.rank)
        columns = [g.numbers.integers(-x.shape[i], x.shape[i], (3,)) for i in range(depth)]
        g.add(op, [x, g.const(np.stack(columns, -1))])


@family("iu", weight=2)
def lookup(g: Growing, x: Tensor) -> None:
    """Gather rows of a table by indices computed in the network."""
    low, high = (g.const(np.array(v, x.dtype)) for v in (0, 15))
    index = g.add("Cast", [g.add("Clip", [x, low, high])], to=g.random.choice([6, 7]))
    table = g.made((16, g.random.randint(1, 6)), np.float32)
    if g.chance(0.7):
        g.add("Gather", [g.const(table), index])
    else:
        g.add("OneHot", [index, g.whole(16), g.const(np.array([0.5, 2], "f4"))], axis=-1)


@family("fiu", least=1)
def scatter(g: Growing, x: Tensor) -> None:
    """Scatter to distinct indices, so that the order of writing does not matter."""
    ways = ["none", "add", "mul", *(["max", "min"] if g.opset >= 18 else [])]
    attrs = {"reduction": g.random.choice(ways)} if g.opset >= 16 else {}
    if g.chance(0.5):
        axis = g.random.randrange(x.rank)
        shape = [1 if i == axis else each for i, each in enumerate(x.shape)]
        index = g.numbers.integers(-x.shape[axis], x.shape[axis], shape)
        g.add("ScatterElements", [x, g.const(index), g.like(x, *shape)], axis=axis, **attrs)
    else:
        rows = g.numbers.permutation(x.shape[0])[:2].reshape(-1, 1)
        g.add("ScatterND", [x, g.const(rows), g.like(x, len(rows), *x.shape[1:])], **attrs)


@family("fiub", least=1)
def pad(g: Growing, x: Tensor) -> None:
    mode = g.random.choice(["constant", "constant", "edge", "reflect"])
    most = [min(2, each - 1) if mode == "reflect" else 2 for each in x.shape] * 2
    pads = [g.random.randint(0, each) for each in most]
    if mode == "constant" and min(x.shape) > 2:
        pads = [g.random.randint(-1, each) for each in most]
    fill = [g.const(g.made((), x.dtype))] if mode == "constant" and g.chance(0.5) else []
    g.add("Pad", [x, g.whole(pads), *fill], mode=mode)


@family("fiu", least=2)
def triangle(g: Growing, x: Tensor) -> None:
    g.add("Trilu", [x, g.whole(g.random.randint(-2, 2))], upper=g.random.randint(0, 1))


@family("fiub", least=1, most=3)
def reverse(g: Growing, x: Tensor) -> None:
    if x.rank >= 2:
        lengths = g.numbers.integers(1, x.shape[0] + 1, x.shape[1])
        g.add("ReverseSequence", [x, g.const(lengths)], time_axis=0, batch_axis=1)


@family("fiub")
def shape_of(g: Growing, x: Tensor) -> None:
    """Add shape arithmetic that a compiler can evaluate."""
    shape = g.add("Shape", [x])
    g.add("Mul", [shape, g.whole([2])] if g.chance(0.5) else [g.add("Size", [x]), g.whole(3)])

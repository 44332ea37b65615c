"""A size passes through each operator that can compute a size, in each element type.

The number is then a size: right, or refused with one sentence. The reference is onnxruntime.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt.compiler.frontend.onnx.import_passes import import_model
from tvmrt.error import UnexpectedImportError, UnsupportedError

runtime = pytest.importorskip("onnxruntime")
Fail = runtime.capi.onnxruntime_pybind11_state.Fail
NoKernel = runtime.capi.onnxruntime_pybind11_state.NotImplemented

SIZES = (1, 2, 3, 5, 8, 200, 300, 70000)  # 200 and 300 wrap around in 8 bits, 70000 in 16
MAX_ELEMENTS = 1_000_000
UNSIGNED = ("UINT8", "UINT16", "UINT32", "UINT64")
SIGNED = ("INT8", "INT16", "INT32", "INT64")
FLOATS = ("FLOAT", "DOUBLE", "FLOAT16")
TYPES = (*UNSIGNED, *SIGNED, *FLOATS)
INT64, UINT8 = TensorProto.INT64, TensorProto.UINT8


def sizes_of(kind: str) -> tuple[int, ...]:
    """Return sizes to compare at. onnxruntime does not round numbers to float16: all numbers that
    are made of these sizes have to be exact."""
    return SIZES[:5] if kind == "FLOAT16" else SIZES


class Draft:
    """A graph under construction; ``kind``: element type of the numbers."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.nodes: list = []
        self.weights: list = []

    def node(self, op: str, *inputs: Any, outputs: int = 1, **attrs: Any) -> Any:
        """Add a node; inputs that are numbers are constants of the element type."""
        names = [f"{op}{len(self.nodes)}_{i}" for i in range(outputs)]
        read = [each if isinstance(each, str) else self.number(each) for each in inputs]
        self.nodes.append(helper.make_node(op, read, names, name=names[0], **attrs))
        return names[0] if outputs == 1 else names

    def number(self, values: Any, kind: str = "") -> str:
        kind = kind or self.kind
        array = np.asarray(values, np.float64 if kind in FLOATS else np.int64)
        name = f"w{len(self.weights)}"
        code = TensorProto.DataType.Value(kind)
        self.weights.append(helper.make_tensor(name, code, array.shape, array.reshape(-1).tolist()))
        return name

    def whole(self, *values: int) -> str:
        return self.number(list(values), "INT64")

    def cast(self, x: str, kind: str) -> str:
        return self.node("Cast", x, to=TensorProto.DataType.Value(kind))

    def three(self, n: str) -> str:
        """Return n, 3 and n - 1."""
        return self.node("Concat", n, [3], self.node("Sub", n, [1]), axis=0)


Case = tuple[str, Callable[[Draft, str], str]]


def arithmetic(kind: str) -> Iterator[Case]:
    def binary(op: str, *operands: Any, **attrs: Any) -> Case:
        def make(d: Draft, n: str) -> str:
            read = [n if each == "n" else d.node("Sub", n, [10]) if each == "n - 10" else each
                    for each in operands]  # fmt: skip
            return d.node(op, *read, **attrs)

        return f"{op}{operands}{attrs or ''}", make

    numbers = ["n"] if kind in UNSIGNED else ["n", "n - 10"]
    for op, x in product(("Add", "Sub", "Mul", "Div", "Max", "Min"), numbers):
        yield binary(op, x, [3])
        yield binary(op, [100], x) if op != "Div" else binary(op, x, [7])
    for x, by, fmod in product(numbers, ([3],) if kind in UNSIGNED else ([3], [-3]), (0, 1)):
        if fmod or kind not in FLOATS:
            yield binary("Mod", x, by, fmod=fmod)
    yield binary("Mod", [7], "n", fmod=1)
    unary = ["Identity"] if kind in UNSIGNED else ["Neg", "Abs", "Sign", "Relu"]
    if kind in FLOATS:
        unary += ["Floor", "Ceil", "Round", "Sqrt", "Reciprocal", "Exp", "Tanh"]
    for op, x in product(unary, numbers):
        yield binary(op, x)
    for low, x in product((3, 0), numbers):
        yield binary("Clip", x, low, 100)
    if kind in UNSIGNED:
        for direction in ("LEFT", "RIGHT"):
            yield binary("BitShift", "n", [2], direction=direction)
    if kind not in FLOATS:
        for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
            yield binary(op, "n", [6])
        yield binary("BitwiseNot", "n")
    else:
        for factor in (0.3, 0.5, 1 / 3):
            yield (
                f"floor n * {factor}",
                lambda d, n, f=factor: d.node("Floor", d.node("Mul", n, [f])),
            )
            yield (
                f"round n / 4 + {factor}",
                lambda d, n, f=factor: d.node("Round", d.node("Add", d.node("Div", n, [4]), [f])),
            )


def choices(kind: str) -> Iterator[Case]:
    for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"):
        yield op, lambda d, n, op=op: d.cast(d.node(op, n, [5]), d.kind)
        yield (
            f"Where {op}",
            lambda d, n, op=op: d.node("Where", d.node(op, n, [5]), n, d.node("Mul", n, [2])),
        )
    for op in ("And", "Or", "Xor"):
        yield (
            op,
            lambda d, n, op=op: d.cast(
                d.node(op, d.node("Greater", n, [2]), d.node("Not", d.node("Less", n, [9]))), d.kind
            ),
        )
    for other in (*TYPES, "BFLOAT16", "BOOL"):
        if not (kind in FLOATS and other not in (*FLOATS, "BFLOAT16", "BOOL")):
            yield f"Cast {other}", lambda d, n, k=other: d.cast(d.cast(n, k), d.kind)


def reductions(kind: str) -> Iterator[Case]:
    def reduced(op: str, keepdims: int) -> Case:
        def make(d: Draft, n: str) -> str:
            y = d.node(op, d.node("Min", d.three(n), [40]), d.whole(0), keepdims=keepdims)
            return y if keepdims else d.node("Unsqueeze", y, d.whole(0))

        return f"{op} {keepdims}", make

    def summed(exclusive: int, reverse: int) -> Case:
        return f"CumSum {exclusive} {reverse}", lambda d, n: d.node(
            "CumSum", d.three(n), d.number(0, "INT64"), exclusive=exclusive, reverse=reverse
        )

    if kind in ("INT16", "UINT16"):
        return
    sums = ("ReduceSum", "ReduceProd", "ReduceMean", "ReduceSumSquare", "ReduceL1")
    for op, keepdims in product(("ReduceMax", "ReduceMin", *sums), (0, 1)):
        if op not in sums or kind in ("INT32", "INT64", "FLOAT", "DOUBLE", "FLOAT16"):
            yield reduced(op, keepdims)
    if kind in ("INT32", "INT64", "FLOAT", "DOUBLE"):
        yield from (summed(*flags) for flags in product((0, 1), (0, 1)))


def movements(kind: str) -> Iterator[Case]:
    if kind in ("UINT16", "UINT32", "UINT64", "INT8", "INT16"):
        return  # onnxruntime has few of these
    scalar = lambda d, x: d.node("Unsqueeze", x, d.whole(0))  # noqa: E731
    for axes in ([0], []):
        yield (
            f"Squeeze {axes}",
            lambda d, n, a=axes: scalar(d, d.node("Squeeze", n, *[d.whole(*a)] * len(a))),
        )
    yield (
        "Gather scalar",
        lambda d, n: scalar(d, d.node("Gather", d.three(n), d.number(2, "INT64"))),
    )
    yield "Gather", lambda d, n: d.node("Gather", d.three(n), d.whole(-1, 0))
    yield "GatherElements", lambda d, n: d.node("GatherElements", d.three(n), d.whole(2, 0))
    yield "GatherND", lambda d, n: d.node("GatherND", d.three(n), d.number([[2], [0]], "INT64"))
    yield (
        "ScatterElements",
        lambda d, n: d.node("ScatterElements", d.three(n), d.whole(1, -1), [4, 2]),
    )
    yield "ScatterND", lambda d, n: d.node("ScatterND", d.three(n), d.number([[1]], "INT64"), n)
    yield "Slice", lambda d, n: d.node("Slice", d.three(n), d.whole(1), d.whole(100))
    yield (
        "Slice back",
        lambda d, n: d.node("Slice", d.three(n), d.whole(-1), d.whole(-9), d.whole(0), d.whole(-2)),
    )
    yield "Split", lambda d, n: d.node("Split", d.three(n), d.whole(2, 1), outputs=2)[1]
    yield (
        "Reshape scalar",
        lambda d, n: d.node("Reshape", d.node("Reshape", n, d.whole()), d.whole(1)),
    )
    yield (
        "Transpose",
        lambda d, n: d.node(
            "Reshape",
            d.node("Transpose", d.node("Reshape", d.three(n), d.whole(1, 3))),
            d.whole(-1),
        ),
    )
    yield "Expand", lambda d, n: d.node("Expand", n, d.whole(2))
    yield "Tile", lambda d, n: d.node("Tile", n, d.whole(2))


def cases(kind: str) -> list[Case]:
    parts = (arithmetic, choices, reductions, movements)
    return [case for part in parts for case in part(kind)]


def used(d: Draft, number: str, how: str) -> str:
    """Use an int64 number as a size."""
    one = helper.make_tensor("one", UINT8, [1], [1])
    if how == "ConstantOfShape":
        return d.node("ConstantOfShape", number, value=one)
    if how == "Expand":
        return d.node("Expand", d.number([1], "UINT8"), number)
    if how == "Slice":
        return d.node("Slice", "x", d.whole(0), number)
    ends = [d.number(n, "INT64") for n in (0, 1)]
    if how == "Range":
        return d.cast(d.node("Range", ends[0], d.node("Squeeze", number), ends[1]), "UINT8")
    row = d.node("ConstantOfShape", number, value=one)
    return d.node("Reshape", row, d.node("Concat", number, d.whole(1), axis=0))


def model_of(kind: str, wanted: list[tuple[Case, str]]) -> tuple[Any, list[str]]:
    """Return a network with one output for each case and the use of its number."""
    d = Draft(kind)
    n = d.cast(d.node("Shape", "x", end=1), kind)
    outputs = []
    for (_, make), how in wanted:
        number = d.node("Abs", d.cast(make(d, n), "INT64"))
        outputs.append(used(d, d.node("Slice", number, d.whole(0), d.whole(1)), how))
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        d.nodes,
        "sizes",
        [info("x", UINT8, ["n"])],
        [info(y, UINT8, None) for y in outputs],
        d.weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return model, outputs


def judge(model: Any, kind: str) -> Callable[[np.ndarray], list] | None:
    """Return a function that runs the reference; None if it lacks an operator in this type."""
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = runtime.InferenceSession(model.SerializeToString(), options)
    except NoKernel:
        return None
    return lambda x: session.run(None, {"x": x})


def shapes_at(kind: str, wanted: tuple[Case, str]) -> dict[int, tuple[int, ...]]:
    """Return the reference's shape by size, up to the first size without a moderate one: casts
    that the standard does not define, and errors."""
    run, found = judge(model_of(kind, [wanted])[0], kind), {}
    for n in sizes_of(kind) if run else ():
        try:
            shape = run(np.zeros(n, np.uint8))[0].shape
        except Fail:
            break
        if np.prod(shape) > MAX_ELEMENTS:
            break
        found[n] = shape
    return found


def check(kind: str) -> None:
    uses = cycle(("ConstantOfShape", "Expand", "Slice", "Range", "Reshape"))
    groups: dict[int, list[tuple[Case, str]]] = {}
    right, refused = {}, []
    for wanted in zip(cases(kind), uses):
        shapes = shapes_at(kind, wanted)
        if not shapes:
            continue
        bound = max(shapes)
        try:
            import_model(model_of(kind, [wanted])[0], dims={"n": (1, bound)})
        except (UnsupportedError, ValueError) as problem:
            assert not isinstance(problem, UnexpectedImportError), wanted[0][0]
            refused.append((wanted[0][0], str(problem)))
            continue
        right[wanted[0][0]] = shapes
        groups.setdefault(bound, []).append(wanted)
    assert len(right) > 2 * len(refused), refused
    for bound, group in groups.items():
        model, outputs = model_of(kind, group)
        network = tvmrt.load(model, dims={"n": (1, bound)}, cache=False)
        for n in (n for n in sizes_of(kind) if n <= bound):
            found = network({"x": np.zeros(n, np.uint8)})
            for ((name, _), how), y in zip(group, outputs):
                assert np.asarray(found[y]).shape == right[name][n], (name, how, n)


@pytest.mark.parametrize("kind", ["UINT8", "FLOAT16"])
def test_sizes_are_right_or_refused(kind):
    check(kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in ("UINT8", "FLOAT16")])
def test_sizes_in_every_type_are_right_or_refused(kind):
    check(kind)


def test_casts_that_the_standard_does_not_define_are_refused():
    """A float above 255 has no uint8; up to 255 sizes are exact."""
    d = Draft("FLOAT")
    n = d.cast(d.node("Shape", "x", end=1), "FLOAT")
    y = used(d, d.cast(d.cast(n, "UINT8"), "INT64"), "ConstantOfShape")
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        d.nodes, "g", [info("x", UINT8, ["n"])], [info(y, UINT8, None)], d.weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(UnsupportedError, match=r"n = 1\.\.256\) may be outside the range of uint8"):
        import_model(model, dims={"n": (1, 256)})
    (output,) = import_model(model, dims={"n": (1, 255)}).outputs
    assert repr(output.shape[0]) == "n"

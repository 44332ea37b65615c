"""Test scales of 0, which converters write for all-zero tensors: compare with LiteRT, or with its
result for an all-zero operand if LiteRT crashes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from compilers import Build
from many_networks import STRICT, ManyNetworks
from tflite_case import Net, feeds_for, litert_runs, ours
from typed_operators import NETS, TypedNet
from typed_references import accepted

from tvmrt.plugins.tflite.frontend import load_model

pytest.importorskip("ai_edge_litert")

KINDS = ("quantised int8", "quantised uint8", "quantised int16")
ONE_SCALE = ("CONCATENATION", "NEG")  # operand and result have one scale, or both have scale 0
COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
ABORTS = {"ADD", "SUB", "SQUARED_DIFFERENCE", "SOFTMAX", "LOG_SOFTMAX", *COMPARISONS}
# Undefined in LiteRT: it divides by zero, and shifts by more bits than the type has.
UNDEFINED = {
    ("DIV", kind, operand) for kind in KINDS for operand in (0, 1)
} | {("LOGISTIC", "quantised int16", 0), ("TANH", "quantised int16", 0)}  # fmt: skip
# Where LiteRT has no kernel of the type, or one that errs; see typed_references.
UNJUDGED = {"SQRT", "RSQRT", "LOG", "SUM", "ELU", "RELU_0_TO_1", "NEG", *COMPARISONS[:2]}
# Operators that rescale by the scale of the result.
RESCALE = """ADD SUB MUL SQUARED_DIFFERENCE CONV_2D DEPTHWISE_CONV_2D TRANSPOSE_CONV FULLY_CONNECTED
    BATCH_MATMUL MEAN SUM ABS RELU RELU6 RELU_N1_TO_1 LEAKY_RELU PRELU HARD_SWISH QUANTIZE DIV
    """.split()


def add(net: TypedNet, operator: str, operand: int, scale: float = 0.0) -> bool:
    """Add an operator with an operand, or the result (-1), of that scale; return False if it has
    none."""
    net.operator = operator
    NETS[operator](net)
    op = net.graph.operators[-1]
    indices = op.inputs if operand >= 0 else op.outputs
    if operand >= len(indices):
        return False
    q = net.graph.tensors[indices[operand]].quantization
    if q is None:
        return False
    q.scale = np.full_like(q.scale, scale)
    return True


def one(operator: str, kind: str, operand: int, scale: float = 0.0) -> TypedNet:
    net = TypedNet("", kind)
    add(net, operator, operand, scale)
    return net


def cases_of(kind: str) -> Iterator[tuple[str, int]]:
    for operator in accepted(kind):
        if operator in ONE_SCALE:
            continue
        for operand in range(3):
            if add(TypedNet("", kind), operator, operand):
                yield operator, operand


def right_of(operator: str, kind: str, operand: int) -> list[np.ndarray] | None:
    """Return LiteRT's results; for operators that crash it, the results for all-zero operands."""
    data = one(operator, kind, operand).data()
    feeds = feeds_for(data)
    if operator in ABORTS:
        net = one(operator, kind, operand, 1e-7)
        main = net.graph
        index = main.operators[-1].inputs[operand]
        place = main.inputs.index(index)
        feeds[place] = np.full_like(feeds[place], main.tensors[index].quantization.zeroPoint[0])
        data = net.data()
    try:
        return litert_runs(data, [feeds])[0]
    except (RuntimeError, ValueError):
        return None


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_an_operand_of_scale_0_is_zero_in_every_operator(kind, tmp_path):
    cases, together, feeds = list(cases_of(kind)), TypedNet("", kind), []
    for operator, operand in cases:
        add(together, operator, operand)
        feeds += feeds_for(one(operator, kind, operand).data())
    assert len(cases) > 60
    found, judged = iter(ours(together.data(), feeds, tmp_path)), set()
    for operator, operand in cases:
        outputs = len(one(operator, kind, operand).graph.outputs)
        mine = [next(found) for _ in range(outputs)]
        raw = kind == "quantised int16" and operator in COMPARISONS  # of integers as they are
        if raw or (operator, kind, operand) in UNDEFINED or operator in UNJUDGED:
            continue
        right = right_of(operator, kind, operand)
        if right is not None:
            for a, b in zip(mine, right):
                np.testing.assert_array_equal(a, b, err_msg=f"{operator} {operand}")
            judged.add(operator)
    assert {"ADD", "MUL", "FULLY_CONNECTED", "CONV_2D", "MEAN"} <= judged


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_of_scale_0_is_its_zero_point(kind, tmp_path):
    operators = [name for name in RESCALE if name in accepted(kind)]
    net, feeds = TypedNet("", kind), []
    for operator in operators:
        add(net, operator, -1)
        feeds += feeds_for(one(operator, kind, -1).data())
    main = load_model(net.data()).subgraphs[0]
    for index, operator, y in zip(main.outputs, operators, ours(net.data(), feeds, tmp_path)):
        zero = main.tensors[index].quantization.zero[0]
        assert (y == zero).all(), (operator, zero, y)


def test_no_float_is_undefined_where_a_result_has_scale_0(tmp_path):
    net = Net()
    x = net.input((1, 4), "float32")
    net.op("QUANTIZE", [x], [net.output((1, 4), "int8", scale=0.0, zero=-5)])
    y = ours(net.data(), [np.array([[-3.0, 0.0, 1e30, 7.0]], np.float32)], tmp_path)[0]
    assert y.tolist() == [[-5] * 4]


def zero_filters(kind: str) -> tuple[bytes, list[np.ndarray]]:
    """Make matmuls with one filter of scale 0, and elementwise operators with an all-zero state:
    random weights, so that a wrong scale changes the result."""
    rng = np.random.default_rng(7)
    wide = kind.endswith("int16")
    net = TypedNet("", kind)
    x = net.given(1, 6, 6, 8)
    made = {"scale": 0.043 / (256 if wide else 1), "zero": 0 if wide else -4}

    def weights(*shape: int, axis: int) -> int:
        scale = rng.uniform(0.001, 0.01, shape[axis])
        scale[1] = 0.0
        return net.const(rng.integers(-127, 128, shape).astype(np.int8), scale, axis=axis)

    bias = net.const(rng.integers(-900, 900, 8).astype(np.int64 if wide else np.int32))
    fields = {"strideW": 1, "strideH": 1, "padding": 0}
    y = net.output((1, 6, 6, 8), net.dtype, **made)
    net.op("CONV_2D", [x, weights(8, 3, 3, 8, axis=0), bias], [y], 3, "Conv2DOptions", **fields)
    y = net.output((1, 6, 6, 8), net.dtype, **made)
    net.op("DEPTHWISE_CONV_2D", [x, weights(1, 3, 3, 8, axis=3), bias], [y], 3,
           "DepthwiseConv2DOptions", depthMultiplier=1, **fields)  # fmt: skip
    y = net.output((36, 8), net.dtype, **made)
    net.op("FULLY_CONNECTED", [x, weights(8, 8, axis=0), bias], [y], 4, "FullyConnectedOptions")
    zeros = net.const(np.zeros((1, 1, 1, 8), net.dtype), scale=0.0)
    y = net.output((1, 6, 6, 8), net.dtype, **made)
    net.op("MUL", [x, zeros], [y], 1, "MulOptions")
    data = net.data()
    return data, feeds_for(data)


@pytest.mark.parametrize("kind", ["quantised int8", "quantised int16"])
def test_a_filter_of_scale_0_gives_its_zero_point_alone(kind, tmp_path):
    data, feeds = zero_filters(kind)
    (right,) = litert_runs(data, [feeds])
    for mine, wanted in zip(ours(data, feeds, tmp_path), right):
        np.testing.assert_array_equal(mine, wanted)


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "riscv32"])
def test_scales_of_0_are_right_on_boards(target, tmp_path):
    build = Build("gcc", "-O2", "plain", target)
    nets = {kind[-5:].strip(): zero_filters(kind) for kind in (KINDS[0], KINDS[2])}
    networks = ManyNetworks(
        {name: data for name, (data, _) in nets.items()},
        {name: feeds for name, (_, feeds) in nets.items()},
        target, tmp_path, tflite_rounding="reference",
    )  # fmt: skip
    for name, results in networks.results(build, tmp_path, STRICT).items():
        (right,) = litert_runs(nets[name][0], [nets[name][1]])
        for mine, wanted in zip(results, right):
            np.testing.assert_array_equal(mine, wanted)

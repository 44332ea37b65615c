"""Fixed-point requantisation after integer products is folded into them, if it stays exact."""

from __future__ import annotations

import numpy as np
import pytest

from tvmrt.compiler.codegen.builder import build_program
from tvmrt.compiler.codegen.target import get_target
from tvmrt.compiler.ir import DTYPES, Builder, Graph, TensorType, Value
from tvmrt.compiler.ir.requantization import requantize
from tvmrt.compiler.transform.fold_requantization import fold_requantization

pytestmark = pytest.mark.slow
CHANNELS = 6
M, E = np.full((CHANNELS, 1, 1), 1518500250, np.int32), np.full((CHANNELS, 1, 1), -7, np.int32)
WINDOW = {
    "groups": 1, "strides": (1, 1), "dilations": (1, 1), "pads_before": (0, 0),
    "pads_after": (0, 0),
}  # fmt: skip


class Case:
    """A graph of a 1 x 1 convolution to int32 and nodes after it."""

    def __init__(self, bias: int = 1000) -> None:
        self.graph = Graph("case")
        self.b = Builder(self.graph)
        x = Value("x", TensorType((1, 4, 5, 5), DTYPES["int8"]))
        self.graph.inputs, self.graph.output_names = [x], ["y"]
        w = np.random.default_rng(3).integers(-127, 128, (CHANNELS, 4, 1, 1)).astype(np.int8)
        constants = [w, np.float32(1), np.full(CHANNELS, bias, np.int32)]
        self.sums = self.b.emit(
            "qconv", [x, *map(self.const, constants), None], **WINDOW, x_zero=3, to="int32"
        )

    def const(self, data) -> Value:
        return self.b.const(np.asarray(data), "c")

    def scaled(self, m=M, e=E) -> Value:
        return self.b.emit("fixed_scale", [self.sums, self.const(m), self.const(e)])

    def by_double(self, real: float) -> Value:
        return self.b.emit("float_scale", [self.sums, self.const(np.float64(real))])

    def to_bytes(self, value: Value, zero=-9, low: int | None = -9, high=127, to="int8") -> Value:
        for op, number in (("add", zero), ("max", low), ("min", high)):
            if number is not None:
                value = self.b.emit(op, [value, self.const(np.int32(number))])
        return self.b.emit("cast", [value], to=to)

    def folded(self, *outputs: Value) -> list:
        """Return the nodes after folding."""
        self.graph.outputs = list(outputs)
        self.graph.output_names = [f"y{i}" for i in range(len(outputs))]
        fold_requantization(self.graph)
        return self.graph.nodes


def test_an_all_zero_multiplier_gives_the_zero_point():
    case = Case()
    m, e = M.copy(), E.copy()
    m[2], e[2] = 0, 0
    (node,) = case.folded(case.to_bytes(case.scaled(m, e)))
    sums = np.array([-(1 << 30) + 1, 0, (1 << 30) - 1])
    assert (requantize(sums, node.inputs[2].data[2:3], "twice") == 0).all()


def away(product: float) -> int:
    return int(np.floor(abs(product) + 0.5)) * (1 if product >= 0 else -1)


def test_one_multiplication_in_double_is_folded_only_if_it_is_equal():
    """Ties of powers of two are rounded away from zero in double, upwards in fixed point."""
    found = {}
    for low in (-128, -9):
        case = Case()
        found[low] = case.folded(case.to_bytes(case.by_double(2.0**-8), low=low))
    assert "float_scale" in {node.op for node in found[-128]}
    (node,) = found[-9]
    assert node.attrs["rounding"] == "once"
    sums = np.arange(-70_000, 70_000)
    for real in (2.0**-8, 0.00371, 0.0123456):
        case = Case()
        (node,) = case.folded(case.to_bytes(case.by_double(real)))
        got = np.maximum(requantize(sums, node.inputs[2].data, "once"), 0)
        np.testing.assert_array_equal(got, [max(away(s * real), 0) for s in sums])


def test_roundings_equal_exact_integers():
    rng = np.random.default_rng(4)
    m, n = rng.integers(1 << 30, 1 << 31, 3000), rng.integers(0, 32, 3000)
    acc = rng.integers(-(1 << 30) + 1, 1 << 30, 3000) >> rng.integers(0, 30, 3000)
    scale = np.ldexp(m.astype(np.float64), -31 - n)
    twice, once = (requantize(acc, scale, rounding) for rounding in ("twice", "once"))
    for a, f, k, t, o in zip(acc.tolist(), m.tolist(), n.tolist(), twice, once):
        assert o == (2 * a * f + (1 << (31 + k))) >> (32 + k)
        x = (2 * a * f + (1 << 31)) >> 32
        half = (1 << k) >> 1
        assert t == (abs(x) + half >> k) * (1 if x >= 0 else -1)


def test_a_reduction_widens_the_bytes_itself():
    """Otherwise the layer before an average stores four bytes for each."""
    case = Case()
    wide = case.b.emit("cast", [case.to_bytes(case.scaled())], to="int32")
    total = case.b.emit("reduce_sum", [wide], axes=(2, 3), keepdims=True)
    case.folded(total)
    steps = build_program(case.graph, get_target("cortex-m4")).steps
    assert [step.writes[0].dtype.name for step in steps[-2:]] == ["int8", "int32"]

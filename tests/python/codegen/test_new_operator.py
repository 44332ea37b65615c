"""An operator that one file defines takes part in every stage of the compiler.

``linear`` multiplies rows by weights [N, K]; those of ``matmul`` are [K, N].
"""

from __future__ import annotations

import numpy as np
import onnx_graph
from onnx import helper

import tvmrt
from tvmrt.compiler.codegen.c.inputs import input_pointers
from tvmrt.compiler.codegen.lowering import Lowering, lowers
from tvmrt.compiler.codegen.window.epilogue import split_epilogue
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.ir import Op, Trait, Weights
from tvmrt.compiler.ir.contract import Contract
from tvmrt.compiler.ir.op import Kernel, register
from tvmrt.compiler.partition.partition import partition
from tvmrt.compiler.transform.optimize import optimize
from tvmrt.devices import Context, CSource, Device


class _Linear(Op):
    traits = frozenset({Trait.MATRIX_PRODUCT})
    weights = Weights(operand=1, output_axis=0, input_axis=1)
    channel_axis = -1


@register("linear", onnx="made.up::Linear")
class Linear(_Linear):
    """Product of rows with transposed weights."""

    contract = Contract(
        "x: float32[M K], w: constant float32[N K], bias?: constant float32[N] -> y: float32[M N]"
    )


@register("qlinear")
class QLinear(_Linear):
    """``linear`` on 8-bit integers; operands and attributes as of ``qmatmul``."""

    integer_of = "linear"
    contract = Contract(
        "x: byte[M K], w: constant byte[N K], scale: constant float32[*], "
        "bias?: constant int32[*], w_zero?: constant int32[*] -> y: to[M N]",
        "x_zero: int of x, to: dtype int8|uint8|int32|float32, y_zero?: int of to, "
        "low?: int of to, high?: int of to",
        example={"to": "int32"},
    )


@register("plain_linear", onnx="made.up::PlainLinear")
class PlainLinear(Linear):
    """``linear`` that declares its weights only."""

    traits = frozenset()


@register("plain_qlinear")
class PlainQLinear(QLinear):
    """``plain_linear`` on 8-bit integers."""

    traits = frozenset()
    integer_of = "plain_linear"


@register("softmax_of_all", onnx="made.up::SoftmaxOfAll")
class SoftmaxOfAll(Op):
    """Softmax over all elements: an operator that is its declaration alone."""

    contract = Contract("x: float32[*S] -> y: float32[*S]")
    kernel = Kernel("op/softmax.h", "tvmrt_softmax_row_f32", "x y x.size")


class _Loops(Lowering):
    def macs(self) -> int:
        return self.node.output.type.size * self.node.inputs[0].shape[1]

    def print_loops(self, f, sum_type: str, start: str, term: str, result: str) -> None:
        (rows, columns), depth = self.node.output.shape, self.node.inputs[0].shape[1]
        with f.loop("i", rows), f.loop("j", columns):
            f.line(f"{sum_type} sum = {start};")
            with f.loop("k", depth):
                f.line(f"sum += {term.replace('X', f'[i * {depth} + k]')};")
            f.line(f"{f.write()}[i * {columns} + j] = {result};")
        f.result("0")


@lowers("linear")
class LinearLowering(_Loops):
    takes_epilogue = True

    def accepts_epilogue(self, accesses) -> bool:
        return split_epilogue(self.node.output, self.group.after).only_clamps

    def emit(self, step, f) -> None:
        low, high = split_epilogue(self.node.output, self.group.after).bounds()
        w, bias = input_pointers(f, "w", "bias", first=1)
        term = f"{f.read(0)}X * {w}[j * {self.node.inputs[0].shape[1]} + k]"
        f.include("scalar/math.h")
        result = f"tvmrt_min_f32(tvmrt_max_f32(sum, {low}), {high})"
        self.print_loops(f, "float", "0" if bias == "NULL" else f"{bias}[j]", term, result)


@lowers("qlinear")
class QLinearLowering(_Loops):
    def emit(self, step, f) -> None:
        at = self.node.attrs
        w, scale, bias = input_pointers(f, "w", "scale", "bias", first=1)
        depth, single = self.node.inputs[0].shape[1], self.node.inputs[2].type.size == 1
        term = f"({f.read(0)}X - {at['x_zero']}) * {w}[j * {depth} + k]"
        f.include("scalar/quant.h")
        rounded = f"rintf((float)sum * {scale}[{0 if single else 'j'}]) + {at['y_zero']}"
        result = f"(int8_t)fminf(fmaxf({rounded}, {at['low']}), {at['high']})"
        self.print_loops(f, "int32_t", "0" if bias == "NULL" else f"{bias}[j]", term, result)


RNG = np.random.default_rng(5)
X = RNG.normal(size=(5, 8)).astype(np.float32)
Q = RNG.integers(-128, 128, (5, 8)).astype(np.int8)
W = RNG.normal(size=(6, 8)).astype(np.float32)
QW = RNG.integers(-127, 128, (6, 8)).astype(np.int8)
BIAS = RNG.normal(size=6).astype(np.float32)
FACTORS = RNG.uniform(0.5, 2, 6).astype(np.float32)
SCALES = {"x": np.float32(0.03), "w": RNG.uniform(0.01, 0.02, 6).astype(np.float32)}
SCALES["y"] = np.float32(0.1)
POINTS = {"x": np.int8(3), "w": np.zeros(6, np.int8), "y": np.int8(-5)}


def model(op="Linear"):
    """Return a float layer with a scale, a bias and a relu, and one between conversions."""
    node = helper.make_node
    nodes = [
        node(op, ["x", "w"], ["a"], name="first", domain="made.up"),
        node("Mul", ["a", "factors"], ["b"], name="scale"),
        node("Add", ["b", "bias"], ["c"], name="add"),
        node("Relu", ["c"], ["y"], name="relu"),
        node("DequantizeLinear", ["q", "x_scale", "x_zero"], ["f"]),
        node("DequantizeLinear", ["qw", "w_scale", "w_zero"], ["g"], axis=0),
        node(op, ["f", "g"], ["h"], name="second", domain="made.up"),
        node("Relu", ["h"], ["i"], name="bound"),
        node("QuantizeLinear", ["i", "y_scale", "y_zero"], ["z"]),
    ]
    weights = {"w": W, "factors": FACTORS, "bias": BIAS, "qw": QW}
    weights |= {f"{name}_scale": np.asarray(scale) for name, scale in SCALES.items()}
    weights |= {f"{name}_zero": np.asarray(zero) for name, zero in POINTS.items()}
    return onnx_graph.model(nodes, {"x": X, "q": Q}, ["y", "z"], weights, domains=["made.up"])


class ProductDevice(Device):
    """Device that takes matrix products, whatever their names."""

    name = "products"

    def supports(self, node):
        return None if node.has(Trait.MATRIX_PRODUCT) else "this is not a matrix product"

    def codegen(self, regions, context):
        return CSource("")


def test_a_new_operator_is_optimized_like_a_matmul_and_taken_by_devices():
    graph = import_model(model())
    optimize(graph, lambda name, graph: None)
    assert [node.op for node in graph.nodes] == ["linear", "relu", "qlinear"]
    first, _, second = graph.nodes
    np.testing.assert_allclose(first.inputs[1].data, W * FACTORS[:, None], rtol=1e-6)
    np.testing.assert_array_equal(first.inputs[2].data, BIAS)
    assert (second.attrs["low"], second.attrs["high"]) == (POINTS["y"], 127)
    report = partition(graph, [ProductDevice()], Context())
    assert [row.operators for row in report.region_rows()] == [["linear"], ["qlinear"]]


def test_weights_alone_make_an_operator_quantised_and_fused():
    graph = import_model(model("PlainLinear"))
    optimize(graph, lambda name, graph: None)
    assert [node.op for node in graph.nodes] == ["plain_linear", "relu", "plain_qlinear"]
    assert graph.nodes[2].attrs["to"] == "int8"


def test_a_new_operator_is_compiled(tmp_path):
    library = tvmrt.compile(model())
    library.export_library(tmp_path / "net.so")
    rows = library.summary.operators
    assert [(row.op, row.macs) for row in rows] == [("linear", 240), ("qlinear", 240)]
    assert [*rows[0].onnx_nodes] == ["first", "scale", "add", "relu"]
    network = tvmrt.load(tmp_path / "net.so")
    y, z = network(x=X, q=Q)
    right = np.maximum(X.astype(np.float64) @ W.T * FACTORS + BIAS, 0)
    np.testing.assert_allclose(y, right, rtol=1e-5, atol=1e-5)
    sums = (Q.astype(np.int64) - POINTS["x"]) @ QW.T.astype(np.int64)
    steps = np.rint(sums * (SCALES["x"] * SCALES["w"] / SCALES["y"])) + POINTS["y"]
    np.testing.assert_allclose(z, np.clip(steps, POINTS["y"], 127), atol=0)


def test_an_operator_that_is_its_declaration_alone_is_imported_and_computed():
    node = helper.make_node("SoftmaxOfAll", ["x"], ["y"], name="all", domain="made.up")
    y = tvmrt.load(onnx_graph.model([node], {"x": X}, ["y"], domains=["made.up"]), cache=False)(X)
    powers = np.exp(X - X.max())
    np.testing.assert_allclose(y, powers / powers.sum(), rtol=1e-5)

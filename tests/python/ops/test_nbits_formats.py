"""Matmul of one and more rows with block-quantised weights, in float32 and integers: compared
with float64, for all formats of weights in one network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.cli.session import Session
from tvmrt.compiler.codegen.target import get_target
from tvmrt.error import TvmrtWarning

DEPTH, COLUMNS, ROWS = 600, 69, (1, 7, 16, 47, 200)
FORMATS = {
    "2 bits": (2, 16, None),
    "2 bits, points": (2, 64, "integers"),
    "4 bits": (4, 32, None),
    "4 bits, points": (4, 32, "integers"),
    "4 bits, points between integers": (4, 32, "floats"),
    "4 bits, blocks of 16": (4, 16, None),
    "4 bits, blocks of 48": (4, 48, "integers"),
    "4 bits, blocks of 128": (4, 128, None),
    "4 bits, blocks of 256": (4, 256, None),
    "8 bits": (8, 128, None),
    "8 bits, blocks of 32": (8, 32, None),
    "8 bits, blocks of 256": (8, 256, None),
    "8 bits, points": (8, 32, "integers"),
}
RNG = np.random.default_rng(7)


def layer(i: int, bits: int, block: int, kind: str | None):
    """Return a MatMulNBits node, its constants, and its weights [DEPTH, COLUMNS] in float64."""
    blocks = -(-DEPTH // block)
    numbers = RNG.integers(0, 1 << bits, (COLUMNS, blocks * block)).astype(np.uint8)
    numbers[0], numbers[1] = 0, (1 << bits) - 1  # the largest sums
    each = 8 // bits
    packed = sum(numbers[:, j::each].astype(np.uint8) << (j * bits) for j in range(each))
    scales = RNG.uniform(0.01, 0.2, (COLUMNS, blocks)).astype(np.float32)
    arrays = {"b": packed.astype(np.uint8).reshape(COLUMNS, blocks, -1), "s": scales.reshape(-1)}
    points = np.full((COLUMNS, blocks), 1 << (bits - 1))
    if kind is not None:
        points = RNG.uniform(0, (1 << bits) - 1, (COLUMNS, blocks)).astype(np.float32)
        points = np.rint(points) if kind == "integers" else points
        arrays["z"] = points.reshape(-1)
    constants = [numpy_helper.from_array(array, f"{name}{i}") for name, array in arrays.items()]
    attrs = {"K": DEPTH, "N": COLUMNS, "bits": bits, "block_size": block}
    inputs = ["x", *(constant.name for constant in constants)]
    node = helper.make_node("MatMulNBits", inputs, [f"y{i}"], domain="com.microsoft", **attrs)
    real = numbers.astype(np.float64) - points.repeat(block, axis=1)
    return node, constants, (real * scales.astype(np.float64).repeat(block, axis=1))[:, :DEPTH].T


LAYERS = [layer(i, *given) for i, given in enumerate(FORMATS.values())]


def network() -> onnx.ModelProto:
    outputs = [
        helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, None)
        for node, _, _ in LAYERS
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", DEPTH])
    constants = [each for _, more, _ in LAYERS for each in more]
    graph = helper.make_graph([node for node, _, _ in LAYERS], "net", [x], outputs, constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return a function from options to the path of the compiled network."""
    paths: dict[str, object] = {}

    def compile_once(**options):
        key = "_".join(options.values())
        if key not in paths:
            paths[key] = tmp_path_factory.mktemp("rows") / f"{key}.so"
            made = tvmrt.compile(network(), executor="aot", dims={"N": (1, 200)}, **options)
            made.export_library(str(paths[key]))
        return paths[key]

    return compile_once


def inputs(kind: str, rows: int) -> np.ndarray:
    x = RNG.standard_normal((rows, DEPTH))
    if kind == "all sizes":
        x *= 2.0 ** RNG.integers(-100, 80, (rows, DEPTH))
    if kind == "tiny":
        x *= 1e-41
    if kind == "below a power":
        x = np.sign(x) * np.nextafter(np.float32(2), np.float32(0))
    return x.astype(np.float32)


def check(outputs, x: np.ndarray, limit: float) -> None:
    """Compare with float64; errors are relative to the largest of each 128 elements of x or more,
    as these have a common unit."""
    largest = np.pad(np.abs(x).astype(np.float64), ((0, 0), (0, -DEPTH % 256)))
    largest = largest.reshape(len(x), -1, 256).max(axis=2).repeat(256, axis=1)[:, :DEPTH]
    for name, y, (_, _, weights) in zip(FORMATS, outputs, LAYERS):
        bound = limit * np.sqrt(np.square(largest) @ np.square(weights))
        excess = np.abs(y - x.astype(np.float64) @ weights) - bound
        assert (excess <= 1e-35).all(), (name, float(excess.max()))


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["normal", "all sizes", "below a power"])
@pytest.mark.parametrize("target", ["native", "host"])
def test_rows_are_as_accurate_as_float32(target, kind, threads, compiled):
    session = Session(compiled(target=target), threads)
    for rows in ROWS:
        x = inputs(kind, rows)
        check(session.run({"x": x}).values(), x, 4e-6 if target == "native" else 1e-5)


@pytest.mark.slow
def test_bf16_rounds_the_rows_to_16_bits(compiled):
    session = Session(compiled(target="native", precision="bf16"), 1)
    x = inputs("normal", 47)
    check(session.run({"x": x}).values(), x, 6e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "all sizes", "below a power", "tiny"])
def test_int8_rounds_the_rows_to_8_bits(kind, compiled):
    session = Session(compiled(target="native", precision="int8"), 2)
    for rows in (1, 16, 47, 200):
        x = inputs(kind, rows)
        # a rounding of half a unit, and each row once more in the last digits of the sum
        outputs = [*session.run({"x": x}).values()]
        check(outputs, x, 0.5 / 127 * 4)
    if kind == "normal" and get_target("native").digits:
        with pytest.raises(AssertionError):
            check(outputs, x, 1e-4)


def test_int8_activations_need_weights_of_few_bits(tmp_path):
    compiled = tvmrt.compile(network(), executor="aot", dims={"N": (1, 200)}, precision="int8")
    assert {row.precision for row in compiled.summary.reduced} == {"int8"}
    others = {"8 bits, points", "4 bits, points between integers"}
    assert len(compiled.summary.reduced) == len(FORMATS.keys() - others)
    digits = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"
    with pytest.warns(TvmrtWarning, match="has no effect: no matmul of 16 or"):
        tvmrt.compile(str(digits), precision="int8")
    with pytest.warns(TvmrtWarning, match="aarch64-linux has no AVX-512 VNNI"):
        tvmrt.compile(network(), precision="int8", target="aarch64-linux")


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_one_element_that_has_no_unit(value, compiled):
    x = inputs("normal", 47)
    x[3, 5] = value
    outputs = Session(compiled(target="native"), 1).run({"x": x}).values()
    for y, (_, _, weights) in zip(outputs, LAYERS):
        right = np.delete(x, 3, axis=0).astype(np.float64) @ weights
        np.testing.assert_allclose(np.delete(y, 3, axis=0), right, rtol=1e-4, atol=5e-3)
        some = np.abs(weights[5]) > 1e-6  # a product with 0 depends on the rounding of the weight
        with np.errstate(over="ignore"):
            row = (x[3].astype(np.float64) @ weights[:, some]).astype(np.float32)
        np.testing.assert_allclose(y[3, some], row, rtol=1e-4)

"""Block-quantised 8-bit and 4-bit weights: results equal x times the rounded weights.

The rounded weights are read as products with the rows of an identity matrix.
"""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.cli import main
from tvmrt.error import TvmrtWarning

BITS = {"int8": 8, "int4": 4}
BLOCK = {"int8": 128, "int4": 32}


def network(weights, *, shape=None, table=False) -> onnx.ModelProto:
    """Return x [M, K] @ weights [K, N]. With ``table``: Gather of ids [M] from rows [N, K],
    multiplied by the transposed table (tied embeddings)."""
    depth = weights.shape[0]
    initializers = [numpy_helper.from_array(weights, "w")]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape or ["M", depth])
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], "product")]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    if table:
        initializers = [numpy_helper.from_array(np.ascontiguousarray(weights.T), "w")]
        x = helper.make_tensor_value_info("x", TensorProto.INT64, ["M"])
        nodes = [
            helper.make_node("Gather", ["w", "x"], ["rows"], "embedding"),
            helper.make_node("Transpose", ["w"], ["turned"], perm=[1, 0]),
            helper.make_node("MatMul", ["rows", "turned"], ["y"], "head"),
        ]
        outputs.append(helper.make_tensor_value_info("rows", TensorProto.FLOAT, None))
    graph = helper.make_graph(nodes, "net", [x], outputs, initializers)
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


def compiled(model, tmp_path, **options):
    """Return a function from x (up to 300 rows) to the outputs, and the summary."""
    if model.graph.input[0].type.tensor_type.shape.dim[0].dim_param:
        options["dims"] = {"M": 300}
    library = tvmrt.compile(model, **options)
    library.export_library(tmp_path / "net.so")
    module = tvmrt.runtime.load_module(str(tmp_path / "net.so"))
    executor = tvmrt.contrib.graph_executor.create(library.get_graph_json(), module, tvmrt.cpu(0))

    def run(x):
        executor.set_input("x", x)
        executor.run()
        return [executor.get_output(i).numpy() for i in range(executor.get_num_outputs())]

    return run, library.summary


def outputs_of(model, x, tmp_path, **options):
    """Return the outputs and the summary of the compiled network."""
    run, summary = compiled(model, tmp_path, **options)
    return run(x), summary


def root_mean_square(array) -> float:
    return float(np.sqrt(np.square(array, dtype=np.float64).mean()))


@pytest.mark.everyday(1)
@pytest.mark.parametrize("target", ["native", "host"])
@pytest.mark.parametrize("kind", BITS)
@pytest.mark.parametrize("depth", [256, 300], ids="K{}".format)
def test_results_match_the_rounded_weights(kind, depth, target, tmp_path):
    rng = np.random.default_rng(depth)
    weights = rng.normal(0, 0.3, (depth, 37)).astype(np.float32)
    run, summary = compiled(network(weights), tmp_path, weights=kind, target=target)
    (rounded,) = run(np.eye(depth, dtype=np.float32))
    # a step is the largest magnitude of a block divided by 2 ** (bits - 1)
    blocks = np.pad(np.abs(weights), ((0, -depth % BLOCK[kind]), (0, 0)))
    widest = blocks.reshape(-1, BLOCK[kind], 37).max(axis=1).repeat(BLOCK[kind], axis=0)[:depth]
    step = widest / 2 ** (BITS[kind] - 1)
    assert (np.abs(rounded - weights) <= 1.5 * step + 1e-6).all()
    assert (np.abs(rounded - weights) <= 0.501 * step).mean() > 0.9
    (row,) = summary.narrowed
    assert row.nodes == ("product",) and row.bits == BITS[kind]
    error = root_mean_square(rounded - weights) / root_mean_square(weights)
    assert row.error == pytest.approx(error, rel=1e-3)
    assert row.after_bytes < row.before_bytes * (BITS[kind] + 1.5) / 32 * 1.25
    for rows in (1, 5, 40):  # each has its own kernel
        x = rng.normal(size=(rows, depth)).astype(np.float32)
        (y,) = run(x)
        right = x.astype(np.float64) @ rounded.astype(np.float64)
        np.testing.assert_allclose(y, right, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BITS)
def test_long_rows_and_infinite_ones(kind, tmp_path):
    """Cover rows longer than a kernel's segment, column tails and block tails. Infinities are
    multiplied separately, not split."""
    rng = np.random.default_rng(11)
    weights = rng.normal(0, 0.3, (4450, 7)).astype(np.float32)
    run, _ = compiled(network(weights), tmp_path, weights=kind)
    ones = np.eye(4450, dtype=np.float32)
    rounded = np.concatenate([run(ones[i : i + 300])[0] for i in range(0, 4450, 300)])
    x = rng.normal(size=(1, 4450)).astype(np.float32)
    right = x.astype(np.float64) @ rounded.astype(np.float64)
    np.testing.assert_allclose(run(x)[0], right, rtol=1e-5, atol=1e-4)
    x[0, 5] = np.inf
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(run(x)[0], np.inf * rounded[5:6])


@pytest.mark.everyday(2)
@pytest.mark.parametrize("kind", BITS)
def test_row_error_is_within_float_error(kind, tmp_path):
    """Inputs mix all magnitudes up to almost a power of 2. The error is measured relative to the
    largest of each 128 products, which set the common unit."""
    rng = np.random.default_rng(4)
    weights = rng.normal(0, 0.3, (512, 9)).astype(np.float32)
    run, _ = compiled(network(weights, shape=[1, 512]), tmp_path, weights=kind, target="native")
    eye = np.eye(512, dtype=np.float32)
    rounded = np.concatenate([run(eye[i : i + 1])[0] for i in range(512)]).astype(np.float64)
    below = np.nextafter(np.float32(2), np.float32(0))
    rows = {
        "below a power": np.full(512, below),
        "signs": below * rng.choice([-1.0, 1.0], 512),
        "all sizes": 2.0 ** rng.integers(-140, 100, 512) * rng.choice([-1.0, 1.0], 512),
        "small": rng.normal(size=512) * 1e-30,
        "large": rng.normal(size=512) * 1e30,
        "whole": rng.integers(-9, 10, 512),
        "none": np.zeros(512),
    }
    for name, row in rows.items():
        x = row.astype(np.float32).reshape(1, 512)
        (y,) = run(x)
        largest = np.abs(x).reshape(4, 128).max(axis=1).repeat(128).astype(np.float64)
        bound = 4e-6 * np.sqrt(np.square(largest[:, None] * rounded).sum(axis=0))
        assert (np.abs(y[0] - (x.astype(np.float64) @ rounded)[0]) <= bound + 1e-35).all(), name


@pytest.mark.slow
@pytest.mark.parametrize("target", ["native", "x86-64"])
@pytest.mark.parametrize("kind", BITS)
def test_large_inputs_with_small_weights(kind, target, tmp_path):
    """Sums of unscaled weights would overflow before the scale is applied."""
    rng = np.random.default_rng(3)
    weights = (rng.normal(size=(300, 64)) * 1e-36).astype(np.float32)
    run, _ = compiled(network(weights), tmp_path, weights=kind, target=target)
    rounded = run(np.eye(300, dtype=np.float32))[0]
    for size in (1e32, 5e33, 1e36):
        x = (rng.normal(size=(1, 300)) * size).astype(np.float32)
        expected = x.astype(np.float64) @ rounded
        scale = np.abs(expected).max()
        np.testing.assert_allclose(run(x)[0] / scale, expected / scale, atol=1e-5)


def test_weight_error_is_below_that_of_onnxruntime(tmp_path):
    quantiser = pytest.importorskip("onnxruntime.quantization.matmul_nbits_quantizer")
    rng = np.random.default_rng(3)
    weights = rng.standard_t(5, (128, 64)).astype(np.float32)
    model, eye = network(weights, shape=[128, 128]), np.eye(128, dtype=np.float32)
    (our,), _ = outputs_of(model, eye, tmp_path, weights="int4")
    theirs = quantiser.MatMulNBitsQuantizer(model, block_size=32, is_symmetric=True)
    theirs.process()  # in place
    (their,), _ = outputs_of(theirs.model.model, eye, tmp_path)
    assert root_mean_square(our - weights) < 0.97 * root_mean_square(their - weights)


@pytest.mark.slow
@pytest.mark.parametrize("kind", BITS)
def test_tied_embeddings_are_stored_once(kind, tmp_path):
    rng = np.random.default_rng(4)
    table = rng.normal(0, 1, (200, 96)).astype(np.float32)  # [words, width]
    ids = np.array([3, 199, 0, 3])
    (y, rows), summary = outputs_of(network(table.T, table=True), ids, tmp_path, weights=kind)
    (row,) = summary.narrowed
    assert row.nodes == ("embedding", "head")
    assert summary.weights_bytes < row.after_bytes * 1.05 + 512
    near = 0.02 if kind == "int8" else 0.15
    assert root_mean_square(rows - table[ids]) < near * root_mean_square(table)
    # the head multiplies by the rows that Gather reads
    own = np.einsum("mk,mk->m", rows, rows)
    np.testing.assert_allclose(y[np.arange(4), ids], own, rtol=1e-5)


def test_inaccurate_layer_stays_in_float32(tmp_path, capsys):
    weights = np.random.default_rng(5).normal(0, 1, (64, 64)).astype(np.float32)
    path = tmp_path / "net.onnx"
    onnx.save(network(weights, shape=[2, 64]), path)
    command = ["compile", str(path), "-o", str(tmp_path / "net.so"), "--weights", "int4"]
    assert main([*command, "--max-error", "0.01"]) == 0
    reported = capsys.readouterr().out
    assert "kept in float32" in reported and "w (0.0" in reported
    assert main([*command, "--max-error", "0.2"]) == 0
    reported = capsys.readouterr().out
    assert "quantised" in reported and "in float32" not in reported


@pytest.mark.slow
def test_one_limit_applies_to_weights_and_to_activations(tmp_path, capsys):
    rng = np.random.default_rng(6)
    rows, width = 16, 128
    good, coarse, loud = (rng.normal(0, 0.1, (width, width)).astype(np.float32) for _ in range(3))
    coarse[0] = 30.0  # of each block, so that a step is larger than most other weights
    loud[0] = 0.0  # the large activation takes no part in the results
    quiet = rng.normal(0, 1, (rows, width)).astype(np.float32)
    x = quiet.copy()
    x[:, 0] = 1000.0
    layers = {"good": ("quiet", good), "coarse": ("quiet", coarse), "loud": ("x", loud)}
    nodes = [helper.make_node("MatMul", [of, n], [f"y_{n}"], n) for n, (of, _) in layers.items()]
    value = helper.make_tensor_value_info
    inputs = [value(name, TensorProto.FLOAT, (rows, width)) for name in ("x", "quiet")]
    outputs = [value(f"y_{name}", TensorProto.FLOAT, (rows, width)) for name in layers]
    weights = [numpy_helper.from_array(each, name) for name, (_, each) in layers.items()]
    graph = helper.make_graph(nodes, "net", inputs, outputs, weights)
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "net.onnx")
    np.savez(tmp_path / "in.npz", x=x, quiet=quiet)
    command = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net.so"), "--json"]
    command += ["--weights", "int8", "--precision", "int8", "--max-error", "0.02"]
    assert main([*command, "--calibration", str(tmp_path / "in.npz")]) == 0
    report = json.loads(capsys.readouterr().out)
    bits = {row["name"]: row["bits"] for row in report["narrowed"]}
    assert bits == {"good": 8, "coarse": 32, "loud": 8}
    precisions = {row["nodes"][0]: row["precision"] for row in report["reduced"]}
    assert precisions == {"good": "int8", "loud": "float32"}


@pytest.mark.everyday(1)
@pytest.mark.parametrize(
    "values",
    [
        pytest.param(np.zeros((64, 64)), id="zeros"),
        pytest.param(np.full((64, 64), 3e38), id="huge"),
        pytest.param(np.full((64, 64), 1e-44), id="denormal"),
        pytest.param(np.where(np.eye(64) > 0, np.inf, 1.0), id="infinite"),
        pytest.param(np.where(np.eye(64) > 0, np.nan, 1.0), id="nan"),
    ],
)
def test_extreme_weights(values, tmp_path):
    weights = values.astype(np.float32)
    x = np.eye(64, dtype=np.float32)[:3]
    (y,), _ = outputs_of(network(weights), x, tmp_path, weights="int4")
    (right,), _ = outputs_of(network(weights), x, tmp_path)
    np.testing.assert_allclose(y, right, rtol=0.1, atol=1e-40)


def test_small_matrices_stay_as_they_are():
    weights = np.ones((16, 16), np.float32)
    with pytest.warns(TvmrtWarning, match="has no effect: no matmul or gather .* 4,096"):
        library = tvmrt.compile(network(weights, shape=[1, 16]), weights="int8")
    assert library.summary.narrowed == []

"""``precision="bf16"``: products of rounded numbers with sums in float32, layer by layer, beside
numpy and onnxruntime, at levels of processors with an instruction for them and without."""

from __future__ import annotations

import re

import numpy as np
import onnx
import pytest
from ml_dtypes import bfloat16
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt import processor
from tvmrt.cli import main
from tvmrt.error import Remark
from tvmrt.runtime.executor import AotModule

RNG = np.random.default_rng(7)
A = RNG.normal(0, 1, (2, 3, 8, 33)).astype(np.float32)  # odd everywhere
B = RNG.normal(0, 1, (2, 3, 33, 21)).astype(np.float32)
IMAGE = RNG.normal(0, 1, (1, 7, 9, 11)).astype(np.float32)
WEIGHTS = RNG.normal(0, 0.2, (33, 40)).astype(np.float32)
BATCHED = RNG.normal(0, 0.2, (3, 33, 17)).astype(np.float32)
KERNEL = RNG.normal(0, 0.2, (12, 7, 3, 3)).astype(np.float32)
BIAS = RNG.normal(0, 1, 12).astype(np.float32)
FEEDS = {"a": A, "b": B, "image": IMAGE}
OUTPUTS = ("constant", "batched", "rows", "columns", "convolved")
needs_levels = pytest.mark.skipif(
    processor.machine() != "x86_64" or "avx2" not in processor.flags(), reason="levels of x86-64"
)


def tensor(name, shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def model_of(nodes, held, inputs, outputs) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "net",
        [tensor(name, shape) for name, shape in inputs.items()],
        [tensor(name, None) for name in outputs],
        [numpy_helper.from_array(x, name) for name, x in held.items()],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


@pytest.fixture(scope="module")
def network() -> onnx.ModelProto:
    """A product of each kind, from the inputs to an output of its own."""
    nodes = [
        helper.make_node("MatMul", ["a", "weights"], ["constant"], "constant"),
        helper.make_node("MatMul", ["a", "batch"], ["batched"], "batched"),
        helper.make_node("MatMul", ["a", "b"], ["rows"], "rows"),
        helper.make_node("Transpose", ["a"], ["turned"], "turn", perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["a", "turned"], ["columns"], "columns"),
        helper.make_node(
            "Conv", ["image", "kernel", "bias"], ["convolved"], "conv", pads=[1, 1, 1, 1]
        ),
    ]
    held = {"weights": WEIGHTS, "batch": BATCHED, "kernel": KERNEL, "bias": BIAS}
    return model_of(nodes, held, {name: x.shape for name, x in FEEDS.items()}, OUTPUTS)


def rounded(x):
    return x.astype(bfloat16).astype(np.float64)


def convolved(x, w):
    """A convolution of 3 x 3 with its padding."""
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.einsum("cyxij,ocij->oyx", windows, w)[None]


@pytest.fixture(scope="module")
def right() -> dict[str, np.ndarray]:
    """The results by numpy, of the rounded numbers."""
    a = rounded(A)
    return {
        "constant": a @ rounded(WEIGHTS),
        "batched": a @ rounded(BATCHED),
        "rows": a @ rounded(B),
        "columns": a @ a.swapaxes(2, 3),
        "convolved": convolved(rounded(IMAGE), rounded(KERNEL)) + BIAS[:, None, None],
    }


def check(path, right) -> None:
    executor = AotModule(tvmrt.runtime.load_module(str(path))["default"](tvmrt.cpu(0)))
    for name, array in FEEDS.items():
        executor.set_input(name, array)
    executor.run()
    for i, name in enumerate(OUTPUTS):
        found = executor.get_output(i).numpy()
        np.testing.assert_allclose(found, right[name], rtol=2e-5, atol=2e-5, err_msg=name)


@pytest.fixture(scope="module")
def every_level(network, tmp_path_factory):
    """A library with code for two levels, and what the compiler tells."""
    path = tmp_path_factory.mktemp("bf16") / "net.so"
    library = tvmrt.compile(
        network, executor="aot", target="x86-64", levels=["v3", "v4bf16"], precision="bf16"
    )
    library.export_library(path)
    return path, library


@needs_levels
@pytest.mark.parametrize("level", ["v3", "v4bf16"])
def test_every_level_computes_of_the_rounded_numbers(level, every_level, right, monkeypatch):
    monkeypatch.setenv("TVMRT_LEVEL", level)
    module = None
    try:
        module = tvmrt.runtime.load_module(str(every_level[0]))
    except tvmrt.TVMError as problem:
        if "which the processor lacks" not in str(problem):
            raise
        pytest.skip(f"this processor has no {level}")
    assert module is not None
    check(every_level[0], right)


@needs_levels
def test_one_level_multiplies_pairs_and_the_others_have_their_own_code(every_level):
    summary, sources = every_level[1].summary, every_level[1].sources
    assert sources.levels.names[-1] == "v4bf16"
    text = {name: "".join(f.text for f in sources.levels.own(name)) for name in ("v3", "v4bf16")}
    assert "tvmrt_tile_bf16_wide_" in text["v3"] and "wide" not in text["v4bf16"]
    assert {row.precision for row in summary.reduced} == {"bfloat16"}
    assert {name for row in summary.reduced for name in row.nodes} >= {"rows", "columns", "conv"}


def test_native_library_computes_of_the_rounded_numbers(network, right, tmp_path):
    path = tmp_path / "net.so"
    library = tvmrt.compile(network, executor="aot", target="native", precision="bf16")
    library.export_library(path)
    check(path, right)
    full = tvmrt.compile(network, executor="aot", target="native").summary.weights_bytes
    assert library.summary.weights_bytes < 0.62 * full  # odd channels, and blocks that are filled


def test_verify_tells_the_error_and_every_layer_is_near_float32(tmp_path, capsys):
    path = tmp_path / "net.onnx"
    nodes = [helper.make_node("MatMul", ["x", "weights"], ["y"], "product")]
    onnx.save(model_of(nodes, {"weights": WEIGHTS}, {"x": [8, 33]}, ["y"]), path)
    assert main(["verify", str(path), "--precision", "bf16", "--target", "native"]) == 0
    told = capsys.readouterr().out
    off = [float(line.split()[-3]) for line in told.splitlines() if "MatMul product" in line]
    assert len(off) == 2 and 1e-4 < min(off) and max(off) < 2**-6


def test_layer_that_would_be_off_further_stays_in_float32_and_is_named(tmp_path, capsys):
    near = np.full((16, 16), 0.5, np.float32)
    far = near + np.float32(0.5**9 * 0.99) * RNG.choice([-1, 1], (16, 16)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "near"], ["y"], "first"),
        helper.make_node("MatMul", ["x", "far"], ["z"], "second"),
    ]
    held = {"near": near, "far": far}
    onnx.save(model_of(nodes, held, {"x": [2, 16]}, ["y", "z"]), tmp_path / "net.onnx")
    np.savez(tmp_path / "in.npz", x=np.ones((2, 16), np.float32))
    command = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net.so"), "--target"]
    command += [
        "native",
        "--precision",
        "bf16",
        "--calibration",
        str(tmp_path / "in.npz"),
        "--max-error",
        "0.0005",
    ]
    assert main(command) == 0
    told = capsys.readouterr().out
    assert re.search(r"in bfloat16 +1 layers; off by at most 0 \(near\)", told)
    assert re.search(r"kept in float32 +far \(0\.00[12]", told)


def test_processor_without_the_instruction_is_told(network, monkeypatch):
    monkeypatch.setattr(processor, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "flags", lambda: frozenset({"avx2", "fma"}))
    with pytest.warns(Remark, match="native has no instruction that multiplies bfloat16"):
        library = tvmrt.compile(network, executor="aot", target="native", precision="bf16")
    assert any("tvmrt_tile_bf16_wide_8x" in text for text in library.sources.files.values())

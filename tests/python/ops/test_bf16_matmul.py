"""``precision="bf16"``: matmuls of rounded operands with float32 accumulators, layer by layer,
compared with numpy and onnxruntime, on levels with bf16 instructions and without."""

from __future__ import annotations

import re

import bf16_network
import numpy as np
import onnx
import pytest
from bf16_network import FEEDS, OUTPUTS, WEIGHTS, model_of
from onnx import helper

import tvmrt
from tvmrt.cli import main
from tvmrt.compiler import processor
from tvmrt.error import TvmrtWarning
from tvmrt.runtime.executor import AotModule

RNG = np.random.default_rng(8)
needs_levels = pytest.mark.skipif(
    processor.machine() != "x86_64" or "avx2" not in processor.flags(), reason="levels of x86-64"
)


@pytest.fixture(scope="module")
def network() -> onnx.ModelProto:
    return bf16_network.products()


@pytest.fixture(scope="module")
def right() -> dict[str, np.ndarray]:
    return bf16_network.right()


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
    """Return a library with code for two levels, and the compiler's messages."""
    path = tmp_path_factory.mktemp("bf16") / "net.so"
    library = tvmrt.compile(
        network, executor="aot", target="x86-64", levels=["v3", "v4bf16"], precision="bf16"
    )
    library.export_library(path)
    return path, library


@needs_levels
@pytest.mark.parametrize("level", ["v3", "v4bf16"])
def test_every_level_uses_bf16_rounded_operands(level, every_level, right, monkeypatch):
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
def test_bf16_dot_product_level_has_separate_code(every_level):
    summary, sources = every_level[1].summary, every_level[1].sources
    assert sources.levels.names[-1] == "v4bf16"
    text = {
        name: "".join(f.text for f in sources.levels.functions_printed_for(name))
        for name in ("v3", "v4bf16")
    }
    assert "tvmrt_tile_bf16_wide_" in text["v3"] and "wide" not in text["v4bf16"]
    assert {row.precision for row in summary.reduced} == {"bfloat16"}
    assert {name for row in summary.reduced for name in row.nodes} >= {"rows", "columns", "conv"}


@pytest.mark.slow
def test_native_library_uses_bf16_rounded_operands(network, right, tmp_path):
    path = tmp_path / "net.so"
    library = tvmrt.compile(network, executor="aot", target="native", precision="bf16")
    library.export_library(path)
    check(path, right)
    full = tvmrt.compile(network, executor="aot", target="native").summary.weights_bytes
    assert library.summary.weights_bytes < 0.62 * full  # odd channels, and full blocks


@pytest.mark.slow
def test_verify_reports_the_error_per_layer(tmp_path, capsys):
    path = tmp_path / "net.onnx"
    nodes = [helper.make_node("MatMul", ["x", "weights"], ["y"], "product")]
    onnx.save(model_of(nodes, {"weights": WEIGHTS}, {"x": [8, 33]}, ["y"]), path)
    assert main(["verify", str(path), "--precision", "bf16", "--target", "native"]) == 0
    printed = capsys.readouterr().out
    off = [float(line.split()[-3]) for line in printed.splitlines() if "MatMul product" in line]
    assert len(off) == 2 and 1e-4 < min(off) and max(off) < 2**-6


@pytest.mark.slow
def test_inaccurate_layer_stays_in_float32_and_is_named(tmp_path, capsys):
    near = np.full((16, 16), 0.5, np.float32)
    far = near + np.float32(0.5**9 * 0.99) * RNG.choice([-1, 1], (16, 16)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "near"], ["y"], "first"),
        helper.make_node("MatMul", ["x", "far"], ["z"], "second"),
    ]
    initializers = {"near": near, "far": far}
    onnx.save(model_of(nodes, initializers, {"x": [2, 16]}, ["y", "z"]), tmp_path / "net.onnx")
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
    reported = capsys.readouterr().out
    assert re.search(r"in bfloat16 +1 layers; relative error at most 0 \(near\)", reported)
    assert re.search(r"kept in float32 +far \(0\.00[12]", reported)


def test_missing_bf16_instruction_is_reported(network, monkeypatch):
    monkeypatch.setattr(processor, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "flags", lambda: frozenset({"avx2", "fma"}))
    with pytest.warns(TvmrtWarning, match="native has no bfloat16 multiply instruction"):
        library = tvmrt.compile(network, executor="aot", target="native", precision="bf16")
    assert any("tvmrt_tile_bf16_wide_8x" in text for text in library.sources.files.values())

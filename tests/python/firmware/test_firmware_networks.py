"""Firmware C of real networks and of kernels with scratch, called in this process."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from firmware_program import STRICT
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt.libinfo import find_include_path

sys.path.insert(0, str(Path(__file__).parents[1] / "networks"))
import golden_case

MAX_BYTES = 1 << 19  # of a network's file, so that its C arrays stay readable


def small_networks() -> list[str]:
    folder = os.environ.get("TVMRT_MODELS")
    names = golden_case.names()
    return [n for n in names if (Path(folder) / f"{n}.onnx").stat().st_size <= MAX_BYTES]


def run(network, inputs: dict[str, np.ndarray], folder: Path, target: str, **options):
    """Return the results of the C interface; the workspace ends with guard bytes."""
    library = tvmrt.compile(
        network, target=target, runtime="crt", executor="aot", interface_api="c",
        unpacked_api=True, pools={"sram": 1 << 30}, module_name="net", **options,
    )  # fmt: skip
    library.export(folder)
    flags = [f"-I{path}" for path in find_include_path()]
    flags += library.target.flags if target == "native" else ()
    shared = folder / "net.so"
    sources = sorted(folder.glob("*.c"))
    subprocess.run(
        ["cc", *STRICT, "-fPIC", "-shared", *flags, *sources, "-lm", "-o", shared], check=True
    )
    summary = library.summary
    ordered = [np.ascontiguousarray(inputs[t.name]) for t in summary.inputs]
    outputs = [np.zeros(t.shape, t.dtype) for t in summary.outputs]
    workspace = np.full(summary.arena_bytes + 256, 0xA5, np.uint8)
    start = -workspace.ctypes.data % 16 + 64
    pool = (ctypes.c_void_p * 1)(workspace.ctypes.data + start)
    structs = [(ctypes.c_void_p * len(a))(*(x.ctypes.data for x in a)) for a in (ordered, outputs)]
    code = ctypes.CDLL(str(shared)).tvmgen_net_run(*structs, pool)
    assert code == 0
    assert (workspace[:start] == 0xA5).all(), "written before the workspace"
    assert (workspace[start + summary.arena_bytes :] == 0xA5).all(), "written past the end"
    return {t.name: y for t, y in zip(summary.outputs, outputs)}


@pytest.mark.everyday(2)
@pytest.mark.parametrize("name", small_networks() or [pytest.param("none", marks=pytest.mark.skip(
    reason="TVMRT_MODELS names no folder of networks"))])  # fmt: skip
def test_small_networks_give_their_golden_outputs(name, tmp_path):
    folder = Path(os.environ["TVMRT_MODELS"])
    inputs, golden = golden_case.load(folder, name)
    found = run(folder / f"{name}.onnx", inputs, tmp_path / "out", "cortex-m4")
    for key, expected in golden.items():
        golden_case.check(key, found[key], expected, golden_case.noise(folder, name))


def scratch_model():
    """Return every kernel that needs scratch, over one image each."""
    rng = np.random.default_rng(3)

    def random(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    inputs = {"x": random(1, 6, 7, 9), "a": random(2, 5, 11), "b": random(2, 11, 13),
              "bt": random(2, 13, 11), "v": random(1, 4, 50)}  # fmt: skip
    weights = {
        "w5": random(7, 6, 5, 5), "wg": random(6, 2, 3, 3), "wt": random(6, 4, 3, 3),
        "w1": random(5, 4, 13), "s": random(6), "o": random(6),
    }  # fmt: skip
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w5"], ["conv"], pads=[2, 2, 2, 2]),
        node("Conv", ["x", "w5"], ["valid"]),
        node("Conv", ["x", "w5"], ["dilated"], pads=[4, 4, 4, 4], dilations=[2, 2]),
        node("Conv", ["x", "wg"], ["grouped"], group=3, pads=[1, 1, 1, 1], strides=[2, 2]),
        node("Conv", ["v", "w1"], ["long"], pads=[6, 6]),
        node("ConvTranspose", ["x", "wt"], ["up"], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("ConvTranspose", ["x", "wt"], ["up1"]),
        node("MatMul", ["a", "b"], ["rows"]),
        node("Transpose", ["bt"], ["btt"], perm=[0, 2, 1]),
        node("MatMul", ["a", "btt"], ["columns"]),
        node("InstanceNormalization", ["x", "s", "o"], ["instance"]),
        node("LRN", ["x"], ["lrn"], size=3),
    ]
    outputs = [n.output[0] for n in nodes if n.op_type != "Transpose"]
    return model(nodes, inputs, outputs, weights), inputs


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", "host", "native"])
def test_kernels_find_their_scratch_in_the_workspace(target, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    network, inputs = scratch_model()
    session = runtime.InferenceSession(network.SerializeToString())
    golden = dict(zip([o.name for o in session.get_outputs()], session.run(None, inputs)))
    found = run(network, inputs, tmp_path / "out", target)
    for name, expected in golden.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("target", ["cortex-m4", "host", "native"])
def test_int8_matmul_of_two_tensors_packs_in_the_workspace(target, tmp_path):
    rng = np.random.default_rng(5)
    inputs = {
        "a": rng.integers(0, 256, (2, 5, 19)).astype(np.uint8),
        "b": rng.integers(-128, 128, (2, 19, 21)).astype(np.int8),
    }
    scales = {
        "as": np.array(0.02, np.float32), "az": np.array(128, np.uint8),
        "bs": np.array(0.03, np.float32), "bz": np.array(3, np.int8),
        "ys": np.array(0.5, np.float32), "yz": np.array(-4, np.int8),
    }  # fmt: skip
    node = helper.make_node("QLinearMatMul", ["a", "as", "az", "b", "bs", "bz", "ys", "yz"], ["y"])
    found = run(model([node], inputs, ["y"], scales), inputs, tmp_path / "out", target)
    kernel = "tvmrt_micro_matmul_i8" if target == "cortex-m4" else "tvmrt_matmul_i8_dynamic"
    assert kernel in (tmp_path / "out" / "tvmgen_net_lib1.c").read_text()
    sums = (inputs["a"].astype(np.int32) - 128) @ (inputs["b"].astype(np.int32) - 3)
    expected = np.clip(np.rint(sums * (0.02 * 0.03 / 0.5)) - 4, -128, 127)
    assert np.abs(found["y"] - expected).max() <= 1

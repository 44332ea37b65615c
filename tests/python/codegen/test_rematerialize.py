"""Values that a table can recompute are not stored: less memory, bit-identical results."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from firmware_call import Network, build_shared
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.compiler.codegen import rematerialize

OPTIONS = {"target": "cortex-m4", "interface_api": "c", "unpacked_api": True}
CHANNELS, SIDE = 8, 12
SHAPE = [1, CHANNELS, SIDE, SIDE]
TENSOR_BYTES = CHANNELS * SIDE * SIDE
ZERO = 100  # of the tensor that is read twice: values above it pass the relu


def residual_network(next_scale: float, branches: int = 1, kept: bool = False):
    """Return a layer, its relu requantised by two more layers, and the sum of both.

    ``branches`` sums follow each other; with ``kept`` the layer itself is also an output.
    """
    rng = np.random.default_rng(3)
    tensors, nodes = [], []

    def constant(name, array):
        tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(op, inputs, output, **attrs):
        nodes.append(helper.make_node(op, inputs, [output], output, **attrs))
        return output

    def requantised(value, name, scale, zero):
        parameters = [
            constant(f"{name}_scale", np.float32(scale)),
            constant(f"{name}_zero", np.uint8(zero)),
        ]
        q = node("QuantizeLinear", [value, *parameters], f"{name}_q")
        return node("DequantizeLinear", [q, *parameters], f"{name}_d")

    def conv(value, name, inputs):
        shape = (CHANNELS, inputs, 3, 3)
        w = constant(f"{name}_w", rng.integers(-127, 128, shape).astype(np.int8))
        scale = constant(f"{name}_w_scale", np.float32(0.01))
        zero = constant(f"{name}_w_zero", np.int8(0))
        weights = node("DequantizeLinear", [w, scale, zero], f"{name}_w_d")
        return node("Conv", [value, weights], name, pads=[1, 1, 1, 1])

    value = requantised("x", "in", 0.02, 128)
    value = requantised(conv(value, "stem", 3), "first", 0.1, ZERO)
    outputs = [value] if kept else []
    for i in range(branches):
        relu = node("Relu", [value], f"relu{i}")
        branch = requantised(relu, f"next{i}", next_scale * 5**i, 0)
        branch = requantised(conv(branch, f"a{i}", CHANNELS), f"a{i}_out", 0.4, 128)
        branch = requantised(conv(branch, f"b{i}", CHANNELS), f"b{i}_out", 0.8, 128)
        total = node("Add", [relu, branch], f"sum{i}")
        value = requantised(total, f"sum{i}_out", 0.5, ZERO)
    outputs.append(value.replace("_out_d", "_out_q"))
    graph = helper.make_graph(
        nodes,
        "residual",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info(o, element_type(o), SHAPE) for o in outputs],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def element_type(name):
    return TensorProto.UINT8 if name.endswith("_q") else TensorProto.FLOAT


def compiled(model, folder, x):
    """Return the compiled network and the results of one run between canaries."""
    library = tvmrt.compile(model, pools={"sram": 1 << 20}, **OPTIONS)
    library.export(folder)
    return library, list(Network(library, build_shared(folder)).run({"x": x}).values())


@pytest.fixture(scope="module")
def x():
    return np.random.default_rng(5).normal(size=(1, 3, SIDE, SIDE)).astype(np.float32)


def unrecovered(model, folder, x, monkeypatch):
    monkeypatch.setattr(rematerialize, "_find_rematerializable", lambda *_: None)
    try:
        return compiled(model, folder, x)
    finally:
        monkeypatch.undo()


@pytest.mark.parametrize("branches", [1, 2])
def test_requantised_residual_is_rematerialised(tmp_path, x, branches, monkeypatch):
    model = residual_network(0.07, branches)
    onnx.checker.check_model(model)
    library, found = compiled(model, tmp_path / "new", x)
    plain, expected = unrecovered(model, tmp_path / "old", x, monkeypatch)
    assert library.summary.arena_bytes <= plain.summary.arena_bytes - TENSOR_BYTES
    np.testing.assert_array_equal(found[0], expected[0])
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(model.SerializeToString())
    np.testing.assert_array_equal(found[0], session.run(None, {"x": x})[0])


KEPT = [
    pytest.param(0.13, {}, id="coarser-scale"),
    pytest.param(0.05, {}, id="bytes-beyond-the-scale"),
    pytest.param(0.07, {"kept": True}, id="an-output-as-well"),
]


@pytest.mark.slow
@pytest.mark.parametrize("scale, more", KEPT)
def test_irreversible_values_are_kept(tmp_path, x, scale, more, monkeypatch):
    model = residual_network(scale, **more)
    library, found = compiled(model, tmp_path / "new", x)
    plain, expected = unrecovered(model, tmp_path / "old", x, monkeypatch)
    assert library.print_program() == plain.print_program()
    for mine, theirs in zip(found, expected):
        np.testing.assert_array_equal(mine, theirs)


def test_hosts_do_not_rematerialise(monkeypatch):
    model = residual_network(0.07)
    steps = [step.name for step in tvmrt.compile(model).program.steps]
    monkeypatch.setattr(rematerialize, "_find_rematerializable", lambda *_: None)
    assert steps == [step.name for step in tvmrt.compile(model).program.steps]

"""Symbols of generated C: at most 48 letters, the last words of the layer's name, unique."""

import re
import subprocess

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_graph import model

import tvmrt
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.runtime.executor import AotModule

ort = pytest.importorskip("onnxruntime")

LONGEST = 48
# linker messages for a header of another library, or for duplicate symbols
SENTENCES = re.compile("_needs_the_library_of_this_header_|_is_linked_twice_compile_one_with_")
PATH = "encoder/stage_with_a_long_name/block/depthwise_separable_convolution"
ENDINGS = ("", "_packed", "_epilogue", "_rows", "_element", "_operands", "_task", "_args", "_kept")


def _rng(seed=0):
    return np.random.default_rng(seed)


def floats():
    """Return convolutions whose epilogues read other tensors; names differ at the start, or end
    like derived symbols."""
    x = _rng().standard_normal((1, 8, 16, 16)).astype(np.float32)
    weights, nodes, last = {}, [], "x"
    for i, ending in enumerate(ENDINGS):
        name = f"branch_{i}/{PATH}{ending}"
        weights[f"w{i}"] = (_rng(i).standard_normal((8, 8, 3, 3)) / 9).astype(np.float32)
        convolved, bent, y = f"{name}/conv", f"{name}/bent", f"y{i}"
        attrs = {"pads": [1, 1, 1, 1], "name": name}
        nodes += [
            helper.make_node("Conv", [last, f"w{i}"], [convolved], **attrs),
            helper.make_node("Sigmoid", [convolved], [bent], name=f"{name}/sigmoid"),
            helper.make_node("Mul", [bent, "x"], [y], name=f"{name}/mul"),
        ]
        last = y
    return model(nodes, {"x": x}, [last], weights)


def integers():
    """Return int8 layers whose matmul rows are requantised by one shared function."""
    x = _rng().integers(0, 255, (1, 8, 12, 12)).astype(np.uint8)
    weights = {"s": np.float32(0.02), "z": np.uint8(128), "wz": np.int8(0)}
    nodes, last = [], "x"
    for i in range(4):
        name = f"branch_{i}/{PATH}_prequant"
        weights[f"w{i}"] = _rng(i).integers(-60, 60, (8, 8, 3, 3)).astype(np.int8)
        weights[f"ws{i}"] = (0.001 * (1 + _rng(i).random(8))).astype(np.float32)
        product = [last, "s", "z", f"w{i}", f"ws{i}", "wz", "s", "z"]
        nodes.append(helper.make_node("QLinearConv", product, [name], name=name, pads=[1, 1, 1, 1]))
        last = name
    nodes.append(helper.make_node("DequantizeLinear", [last, "s", "z"], ["y"], name="back"))
    return model(nodes, {"x": x}, ["y"], weights)


def rounds():
    """Return a loop with a function per step; one is named like the packed function of the operator
    after the loop."""
    x = _rng().standard_normal((4, 64)).astype(np.float32)
    weights = {"w": (_rng(1).standard_normal((64, 64)) / 99).astype(np.float32), "n": np.int64(99)}
    name = f"{PATH}/body"
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["h", "w"], [f"{name}/product"], name=f"{name}/product"),
            helper.make_node("Tanh", [f"{name}/product"], [f"{name}/bent"], name=f"{name}/bent"),
            helper.make_node("MatMul", [f"{name}/bent", "w"], ["again"], name="tail_packed"),
            helper.make_node("Add", ["again", "h"], ["next"], name=f"{name}/added"),
            helper.make_node("Identity", ["go"], ["on"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("h", TensorProto.FLOAT, [4, 64]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [4, 64]),
        ],
    )
    loop = helper.make_node("Loop", ["n", "", "x"], ["last"], name=f"{PATH}/loop", body=body)
    tail = helper.make_node("Softmax", ["last"], ["y"], name="tail")
    return model([loop, tail], {"x": x}, ["y"], weights)


NETWORKS = {"floats": floats, "integers": integers, "rounds": rounds}


def identifiers(folder) -> set[str]:
    """Return all identifiers with the network's prefix in C, without comments and strings."""
    found = set()
    for path in (p for p in folder.rglob("*") if p.suffix in (".c", ".h")):
        code = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text(), flags=re.DOTALL)
        code = re.sub(r'"(\\.|[^"\\\n])*"', '""', code)
        found |= set(re.findall(r"\btvmgen_\w+", code))
    return found


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("target", ["native", "x86-64", "cortex-m4", "cortex-m55"])
def test_all_names_of_layers_of_long_names_are_short(kind, target, tmp_path):
    library = tvmrt.compile(NETWORKS[kind](), target=target)
    library.export_sources(tmp_path)
    found = {name for name in identifiers(tmp_path) if not SENTENCES.search(name)}
    # only the compile-time checks of board workspace offsets have the prefix as well
    own = {name for name in found if not name.startswith("tvmgen_default_at_")}
    assert len(own) > 5
    assert {name: len(name) for name in own if len(name) > LONGEST} == {}


def test_no_step_of_a_loop_is_called_as_a_packed_function(tmp_path):
    tvmrt.compile(rounds(), executor="graph", target="native").export_sources(tmp_path)
    text = "\n".join(path.read_text() for path in tmp_path.glob("*.c"))
    static = set(re.findall(r"^static \w+ (tvmgen_\w+)\(", text, re.MULTILINE))
    assert "tvmgen_default_tail_packed_op" in static
    assert "tvmgen_default_tail_packed" not in static


@pytest.mark.parametrize("packed", [False, True], ids=["unpacked", "packed"])
@pytest.mark.parametrize("kind", NETWORKS)
def test_library_symbols_are_short_and_unique(kind, packed, tmp_path):
    network = NETWORKS[kind]()
    library = tvmrt.compile(network, executor="graph" if packed else "aot")
    library.export_library(tmp_path / "net.so")
    done = subprocess.run(["nm", tmp_path / "net.so"], capture_output=True, text=True, check=True)
    symbols = [row.split()[-1] for row in done.stdout.splitlines()]
    own = [symbol for symbol in symbols if symbol.startswith("tvmgen_")]
    assert [symbol for symbol in own if len(symbol.partition(".")[0]) > LONGEST] == []
    assert sorted(own) == sorted(set(own))
    x = _rng(9).random(_shape(network)) * (200 if kind == "integers" else 1)
    x = x.astype(np.uint8 if kind == "integers" else np.float32)
    (want,) = ort.InferenceSession(network.SerializeToString()).run(None, {"x": x})
    factory = tvmrt.runtime.load_module(tmp_path / "net.so")
    executor = (GraphModule if packed else AotModule)(factory["default"](tvmrt.cpu()))
    executor.set_input("x", x)
    executor.run()
    np.testing.assert_allclose(executor.get_output(0).numpy(), want, rtol=1e-5, atol=1e-5)


def _shape(network):
    return [d.dim_value for d in network.graph.input[0].type.tensor_type.shape.dim]

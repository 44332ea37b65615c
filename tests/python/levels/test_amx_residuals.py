"""Int8 layers with a residual add, with AMX and without, also on the fast paths for plain ranges
and 1x1 windows. Scales have few bits, so that floats are exact and ties occur."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from dispatch_runs import check, load_at
from onnx import helper, numpy_helper

import tvmrt
from tvmrt.compiler import processor
from tvmrt.compiler.codegen import target

AMX = target._AMX <= processor.flags()
pytestmark = pytest.mark.skipif(
    "avx512_vnni" not in processor.flags(), reason="no AVX512_VNNI here"
)

# input channels, output channels, int8 or uint8, zero points: convolved, added, result; "quick"
# if both scales are arbitrary, so that adds have separate constants
CASES = {
    "single": (64, 192, np.uint8, 117, 0, 0),
    "single-zeros": (64, 128, np.uint8, 117, 121, 3),
    "single-signed": (64, 64, np.int8, -11, -128, -128),
    "products": (192, 128, np.uint8, 140, 0, 0),
    "products-zeros": (128, 64, np.uint8, 140, 7, 0),
    "two-vectors": (64, 32, np.uint8, 0, 0, 0),
    "three-vectors": (128, 48, np.uint8, 101, 0, 0),
    "one-vector": (320, 16, np.uint8, 101, 0, 0),
    "signed": (128, 64, np.int8, 5, -128, -128),
    "quick-single": (64, 192, np.uint8, 117, 0, 0),
    "quick-products": (192, 128, np.uint8, 140, 131, 0),
    "quick-two-vectors": (64, 32, np.uint8, 120, 0, 0),
    "quick-three-vectors": (128, 48, np.uint8, 101, 7, 4),
    "quick-one-vector": (320, 16, np.uint8, 101, 0, 0),
    "quick-signed": (128, 64, np.int8, 5, -128, -128),
    "quick-signed-single": (64, 64, np.int8, -11, 3, -128),
}
SIZE = (11, 23)


class _Graph:
    """Nodes of all cases in sequence, with common scales."""

    def __init__(self) -> None:
        self.nodes: list[object] = []
        self.initializers: dict[str, np.ndarray] = {}
        self.feeds: dict[str, np.ndarray] = {}
        self.outputs: dict[str, int] = {}
        self.rng = np.random.default_rng(23)

    def node(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def scaled(self, name: str, scale: float, zero: np.generic) -> list[str]:
        self.initializers |= {f"{name}_s": np.float32(scale), f"{name}_z": np.asarray(zero)}
        return [f"{name}_s", f"{name}_z"]

    def bytes_of(self, kind: type, *shape: int) -> np.ndarray:
        of = np.iinfo(kind)
        return self.rng.integers(of.min, of.max + 1, shape).astype(kind)

    def add_case(self, name: str) -> None:
        """Add a layer, and a second one with a residual add of the first one's output."""
        in_c, out_c, kind, zero, added_zero, result_zero = CASES[name]
        factor = self.scaled(f"{name}_w", 2.0**-8, np.int8(0))
        of_x = self.scaled(f"{name}_x", 0.25, kind(zero))
        of_c = self.scaled(f"{name}_c", 0.75 if in_c < 128 else 1.25, kind(zero))
        quick = name.startswith("quick")
        of_b = self.scaled(f"{name}_b", 0.6171 if quick else 0.625, kind(added_zero))
        of_y = self.scaled(f"{name}_y", 0.4913 if quick else 0.5, kind(result_zero))
        self.feeds[f"{name}_in"] = self.bytes_of(kind, 1, in_c, *SIZE)
        x = self.node("DequantizeLinear", [f"{name}_in", *of_x], f"{name}_xf")
        added = self.convolution(f"{name}_added", x, in_c, out_c, factor)
        added = self.node("Relu", [added], f"{name}_positive")
        added = self.node("QuantizeLinear", [added, *of_b], f"{name}_bq")
        b = self.node("DequantizeLinear", [added, *of_b], f"{name}_bf")
        c = self.convolution(f"{name}_other", x, in_c, out_c, factor)
        c = self.node("QuantizeLinear", [c, *of_c], f"{name}_cq")
        c = self.node("DequantizeLinear", [c, *of_c], f"{name}_cf")
        y = self.node("Relu", [self.node("Add", [c, b], f"{name}_sum")], f"{name}_relu")
        both = self.node("QuantizeLinear", [y, *of_y], f"{name}_y")
        of = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
        self.outputs |= {added: of, both: of}

    def convolution(self, name: str, x: str, in_c: int, out_c: int, factor: list[str]) -> str:
        self.initializers[f"{name}_kernel"] = self.bytes_of(np.int8, out_c, in_c, 1, 1)
        whole = self.rng.integers(-999, 999, out_c).astype(np.int32)
        self.initializers[f"{name}_bias"] = whole.astype(np.float32) * np.float32(2.0**-10)
        w = self.node("DequantizeLinear", [f"{name}_kernel", *factor], f"{name}_wf")
        return self.node("Conv", [x, w, f"{name}_bias"], f"{name}_conv")


@pytest.fixture(scope="module")
def network():
    """Return all cases, and onnxruntime's results node by node."""
    made = _Graph()
    for name in CASES:
        made.add_case(name)
    graph = helper.make_graph(
        made.nodes,
        "residuals",
        [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
            for n, x in made.feeds.items()
        ],
        [helper.make_tensor_value_info(n, kind, None) for n, kind in made.outputs.items()],
        [numpy_helper.from_array(np.asarray(x), n) for n, x in made.initializers.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    return model, made.feeds, session.run(list(made.outputs), made.feeds)


@pytest.fixture(scope="module")
def library(network, tmp_path_factory):
    path = tmp_path_factory.mktemp("residuals") / "net.so"
    compiled = tvmrt.compile(
        network[0], target="x86-64", levels=["v4vbmi", "v4amx"], executor="aot"
    )
    compiled.export_library(path)
    text = "".join(map(str, compiled.sources.files.values()))
    assert "_amx_add_u8," in text and "_amx_add_s8," in text
    quick = text.count("static const tvmrt_fused_add_i8")
    assert sum("quick" in name for name in CASES) <= quick < len(CASES)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("level", ["v4vbmi", "v4amx"])
def test_int8_results_match_onnxruntime(network, library, level, monkeypatch, tmp_path):
    if level == "v4amx" and not AMX:
        pytest.skip("this processor has no AMX")
    module = load_at(library, level, monkeypatch, tmp_path / "net.so")
    assert module.level == level
    check(module, network)
    assert all(len(np.unique(wanted)) > 50 for wanted in network[2])

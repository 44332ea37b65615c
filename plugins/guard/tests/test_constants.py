"""Bits of the constants that generated C defines are flipped, one before each run: the run returns
an error code or the right answer."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import boards
import numpy as np
import pytest

import tvmrt
from tvmrt.libinfo import find_include_path

PLUGIN = Path(__file__).parents[1]
ROOT = PLUGIN.parents[1]
sys.path.insert(0, str(PLUGIN / "tests" / "bench"))
import sections  # noqa: E402

SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
GENERATED = ("weights", "layers", "tables of kernels", "the guard's own")
KERNELS = Path(find_include_path()[0]) / "tvm" / "runtime" / "kernels"


@pytest.fixture(scope="module")
def onnx():
    return pytest.importorskip("onnx")


class Graph:
    """Nodes and constants of an ONNX network that is being written."""

    def __init__(self, onnx) -> None:
        self.onnx, self.nodes, self.constants = onnx, [], {}
        self.random = np.random.default_rng(11)

    def add(self, op: str, *inputs, outputs: int = 1, domain: str = "", **attributes):
        """Add a node, with arrays among its inputs as constants; return its result or results."""
        names = []
        for value in inputs:
            if not isinstance(value, str):
                name = f"c{len(self.constants)}"
                self.constants[name] = np.asarray(value)
            names.append(value if isinstance(value, str) else name)
        results = [f"t{len(self.nodes)}_{i}" for i in range(outputs)]
        node = self.onnx.helper.make_node(op, names, results, domain=domain, **attributes)
        self.nodes.append(node)
        return results[0] if outputs == 1 else results

    def floats(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32) / 2

    def quantized(self, x: str, scale: float = 0.05, zero: int = 3) -> str:
        pair = np.float32(scale), np.int8(zero)
        return self.add("DequantizeLinear", self.add("QuantizeLinear", x, *pair), *pair)

    def int8_weights(self, *shape) -> str:
        weights = self.random.integers(-90, 90, shape, np.int8)
        return self.add("DequantizeLinear", weights, np.float32(0.004), np.int8(0))

    def model(self, x: list[int], y: str, shape: list[int]):
        helper, kind = self.onnx.helper, self.onnx.TensorProto.FLOAT
        graph = helper.make_graph(
            [*self.nodes, helper.make_node("Identity", [y], ["y"])], "net",
            [helper.make_tensor_value_info("x", kind, x)],
            [helper.make_tensor_value_info("y", kind, shape)],
            [self.onnx.numpy_helper.from_array(v, k) for k, v in self.constants.items()],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def integer_layers(onnx):
    """Return an int8 network: depthwise and grouped convolutions, a residual, pools, a product."""
    g = Graph(onnx)
    a = g.quantized("x")
    pads = {"pads": [1, 1, 1, 1]}
    b = g.quantized(g.add("Conv", a, g.int8_weights(8, 1, 3, 3), group=8, **pads))
    c = g.quantized(g.add("Conv", b, g.int8_weights(8, 4, 3, 3), group=2, **pads))
    d = g.quantized(g.add("Conv", c, g.int8_weights(8, 8, 1, 1)))
    e = g.quantized(g.add("Add", d, b), 0.07)
    e = g.quantized(g.add("Mul", e, c), 0.07)
    e = g.add("MaxPool", e, kernel_shape=[2, 2], strides=[2, 2])
    f = g.quantized(g.add("AveragePool", e, kernel_shape=[2, 2], strides=[1, 1]), 0.07)
    f = g.quantized(g.add("GlobalAveragePool", f), 0.06)
    return g.model([1, 8, 6, 6], f, [1, 8, 1, 1])


def float_layers(onnx):
    """Return a float network: convolutions, pools, a computed product, normalization, softmax,
    indices, and sines of any size."""
    g = Graph(onnx)
    pads = {"pads": [1, 1, 1, 1]}
    a = g.add("Conv", "x", g.floats(8, 4, 3, 3), g.floats(8), strides=[2, 2], **pads)
    b = g.add("Relu", g.add("Conv", a, g.floats(8, 1, 3, 3), group=8, **pads))
    c = g.add("Add", g.add("Conv", b, g.floats(8, 4, 3, 3), group=2, **pads), b)
    d = g.add("AveragePool", c, kernel_shape=[2, 2], strides=[1, 1], **pads)
    d = g.add("Reshape", d, np.array([8, 25], np.int64))
    e = g.add("MatMul", d, g.add("Transpose", d, perm=[1, 0]))
    e = g.add("LayerNormalization", e, g.floats(8), g.floats(8))
    e = g.add("Softmax", g.add("Gather", e, np.array([5, 0, 7, 2]), axis=0))
    return g.model([1, 4, 8, 8], g.add("Sin", g.add("Mul", e, np.float32(1e6))), [4, 8])


def recurrent_layers(onnx):
    """Return an LSTM, a GRU and a dense layer."""
    g = Graph(onnx)
    a, _, _ = g.add("LSTM", "x", g.floats(1, 20, 4), g.floats(1, 20, 5), outputs=3, hidden_size=5)
    a = g.add("Squeeze", a, np.array([1], np.int64))
    b, _ = g.add("GRU", a, g.floats(1, 18, 5), g.floats(1, 18, 6), outputs=2, hidden_size=6)
    b = g.add("Reshape", b, np.array([3, 6], np.int64))
    return g.model([3, 1, 4], g.add("Gemm", b, g.floats(6, 7), g.floats(7)), [3, 7])


def causal_convolutions(onnx):
    """Return an int8 network of dilated one-dimensional convolutions with residuals."""
    g = Graph(onnx)
    a = g.quantized("x")
    for dilation in (1, 2, 4):
        padded = g.add("Pad", a, np.array([0, 0, 2 * dilation, 0, 0, 0]))
        weights = g.int8_weights(6, 6, 3)
        b = g.quantized(g.add("Relu", g.add("Conv", padded, weights, dilations=[dilation])))
        a = g.quantized(g.add("Add", a, b), 0.06)
    return g.model([1, 6, 16], a, [1, 6, 16])


def trees(onnx):
    """Return two decision trees of three nodes."""
    g = Graph(onnx)
    y = g.add(
        "TreeEnsembleRegressor", g.add("Exp", "x"), domain="ai.onnx.ml", n_targets=1,
        nodes_treeids=[0, 0, 0, 1, 1, 1], nodes_nodeids=[0, 1, 2, 0, 1, 2],
        nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"] * 2, nodes_featureids=[1, 0, 0, 2, 0, 0],
        nodes_values=[1.0, 0.0, 0.0, 0.7, 0.0, 0.0], nodes_truenodeids=[1, 0, 0, 1, 0, 0],
        nodes_falsenodeids=[2, 0, 0, 2, 0, 0], target_treeids=[0, 0, 1, 1],
        target_nodeids=[1, 2, 1, 2], target_ids=[0] * 4, target_weights=[1.0, 2.0, 3.0, 5.0],
    )  # fmt: skip
    return g.model([1, 4], y, [1, 1])


def tflite(name: str):
    return lambda _onnx: str(ROOT / "tests" / "data" / "tflite" / name)


NETWORKS = {
    "integer_layers": integer_layers,
    "float_layers": float_layers,
    "recurrent_layers": recurrent_layers,
    "causal_convolutions": causal_convolutions,
    "trees": trees,
    "tflite_16x8": tflite("convolutional_int16.tflite"),
    "tflite_float": tflite("residual_float.tflite"),
    "tflite_gates": tflite("gated_units_int8.tflite"),
}
HOST_OPTIONS = {"target": "host", "runtime": "crt", "executor": "aot"}


def check(built: sections.Build, most: int) -> None:
    """Flip bits of the constants that the C defines, at most so many of each kind."""
    flips = [each for each in sections.draw(built, most) if each[0].kind in GENERATED]
    flips = [each for each in flips if each[0].symbol.startswith(("tvmgen_", "tvmrt_", "columns"))]
    results = sections.run(built, flips)
    failed = [(c.symbol, hex(at - c.address), bit, r) for (c, at, bit), r in zip(flips, results)
              if r in "wc"]  # fmt: skip
    assert not failed, failed[:20]
    layers = [r for (c, _, _), r in zip(flips, results) if "_layer" in c.symbol]
    assert set(layers) <= {"d"}
    assert results.count("d") > len(flips) // 2


@pytest.mark.parametrize("guard", ["run", "idle"])
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.slow
def test_flips_of_constants_give_no_wrong_answer_and_no_crash(onnx, name, guard, tmp_path):
    machine = sections.Machine("gcc", ("-O1", "-fno-pie", *SANITIZERS))
    check(sections.build(NETWORKS[name](onnx), tmp_path, guard, machine), 300)


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.slow
def test_flips_of_constants_of_hosts_give_no_wrong_answer_and_no_crash(onnx, name, tmp_path):
    built = sections.build(NETWORKS[name](onnx), tmp_path, "run", sections.HOST, **HOST_OPTIONS)
    check(built, 600)


@pytest.mark.parametrize(
    ("name", "guard", "most"),
    [
        pytest.param("causal_convolutions", "run", 40, id="few"),
        *(
            pytest.param(name, guard, 1500, id=f"{name}-{guard}", marks=pytest.mark.slow)
            for name in (
                "causal_convolutions",
                "integer_layers",
                "float_layers",
                "recurrent_layers",
            )
            for guard in ("run", "idle")
        ),
    ],
)
def test_flips_of_all_sections_of_an_emulated_board_are_harmless(onnx, name, guard, most, tmp_path):
    tool = boards.BOARDS["cortex-m4"].missing_tool()
    if tool is not None:
        pytest.skip(f"{tool} is not installed")
    built = sections.build(NETWORKS[name](onnx), tmp_path, guard, sections.CORTEX_M4)
    flips = sections.draw(built, most)
    counts = sections.table(flips, sections.run(built, flips))
    assert counts["layers"]["detected"] == most
    assert counts["weights"]["detected"] >= most // 2
    assert all(not each["wrong answers"] and not each["crashes"] for each in counts.values())


@pytest.mark.parametrize("network", [integer_layers, float_layers, recurrent_layers])
@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m55", "riscv32", "host"])
def test_operators_define_no_constant_that_is_not_compared(onnx, target, network):
    options = HOST_OPTIONS if target == "host" else {"target": target}
    library = tvmrt.compile(network(onnx), interface_api="c", guard="run", **options)
    files = library.sources.files
    operators = "".join(text for name, text in files.items() if re.search(r"_lib[1-9]", name))
    defined = re.findall(r"^ *static const [^;={]*=", operators, re.MULTILINE)
    pairs = [re.match(r"static const [\w *]+?(\w+)\[2\]", each) for each in defined]
    assert pairs
    assert all(pairs), defined
    for pair in pairs:
        assert f"_guard_differ({pair[1]}, sizeof({pair[1]}[0]))" in operators
    called = re.findall(r"if \((\w+_guard_constants_\d+)\(\)", files["tvmgen_default_lib0.c"])
    defined = re.findall(r"^int32_t (\w+_guard_constants_\d+)", operators, re.MULTILINE)
    assert sorted(called) == sorted(defined)


def test_kernels_define_constants_only_as_tables_that_are_compared():
    for path in sorted(KERNELS.rglob("*.h")):
        text, name = path.read_text(), path.relative_to(KERNELS).as_posix()
        # firmware has no several ISA levels
        if name in ("cpu_dispatch.h", "scalar/pairs.h"):
            continue
        assert not re.findall(r"^ *static const [^;(){]*= *\{?", text, re.MULTILINE), name
        tables = re.findall(r"^TVMRT_TABLE\([^,()]+, (\w+),", text, re.MULTILINE)
        assert text.count("TVMRT_TABLE(") == len(tables)
        for table in tables:
            assert f"#define {table} {table}\n" in text

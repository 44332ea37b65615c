"""The device dnnl: operators against onnxruntime, fusion, layouts, 8-bit integers, bfloat16."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_graph import model
from sample_devices import run_library

import tvmrt
from tvmrt import devices, processor
from tvmrt.conformance import operators
from tvmrt.devices.dnnl import Dnnl, nearest_places
from tvmrt.devices.region_json import region_text
from tvmrt.error import TVMError
from tvmrt.frontend.onnx import import_model

ort = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(7)


@pytest.fixture(scope="module", autouse=True)
def device():
    if not tvmrt.get_global_func("tvmrt.device.find")("dnnl"):
        pytest.skip("the device dnnl is not built: oneDNN is missing")


class Everything(Dnnl):
    """The device without its judgement of what is worth a region."""

    def evaluate(self, region):
        return None


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def network(nodes, feeds, weights, outputs) -> onnx.ModelProto:
    """``nodes``: (operator, inputs, output, attributes)."""
    made = [
        helper.make_node(op, ins, [out] if isinstance(out, str) else out, name=f"n{i}", **attrs)
        for i, (op, ins, out, attrs) in enumerate(nodes)
    ]
    value = helper.make_tensor_value_info
    kinds = {
        "float32": TensorProto.FLOAT,
        "uint8": TensorProto.UINT8,
        "int8": TensorProto.INT8,
        "bool": TensorProto.BOOL,
    }
    graph = helper.make_graph(
        made,
        "g",
        [value(k, kinds[v.dtype.name], v.shape) for k, v in feeds.items()],
        [value(name, kinds[dtype], None) for name, dtype in outputs.items()],
        [numpy_helper.from_array(v, k) for k, v in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def judge(model: onnx.ModelProto, feeds) -> list[np.ndarray]:
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(feeds))


def run(model, feeds, tmp_path, device=None, executor="graph", **options):
    library = tvmrt.compile(model, devices=[device or Everything()], executor=executor, **options)
    library.export_library(tmp_path / "net.so")
    return library, run_library(tmp_path / "net.so", executor, dict(feeds))


def region_ops(library) -> list[list[str]]:
    return [[node.op for node in region.nodes] for region in library.partition.regions]


def test_every_operator_of_the_conformance_tests():
    findings = operators.check(Everything(), 1e-3)
    assert len(findings) > 30
    assert not [f for f in findings if not f.passed]


CHAINS = {
    "conv-relu": [("Conv", ["x", "w"], "c", {}), ("Relu", ["c"], "y", {})],
    "conv-swish": [
        ("Conv", ["x", "w"], "c", {}),
        ("Sigmoid", ["c"], "s", {}),
        ("Mul", ["c", "s"], "y", {}),
    ],
    "conv-bound-below-and-above": [
        ("Conv", ["x", "w"], "c", {}),
        ("Max", ["c", "low"], "d", {}),
        ("Min", ["d", "high"], "y", {}),
    ],
    "conv-plus-computed": [
        ("Conv", ["x", "w"], "c", {}),
        ("Tanh", ["x"], "t", {}),
        ("Add", ["c", "t"], "y", {}),
    ],
    "conv-plus-its-own-input": [("Conv", ["x", "w"], "c", {}), ("Add", ["c", "x"], "y", {})],
    "two-convs-added": [
        ("Conv", ["x", "w"], "c", {}),
        ("Conv", ["x", "v"], "d", {}),
        ("Add", ["c", "d"], "e", {}),
        ("Relu", ["e"], "y", {}),
    ],
    "same-kind-twice": [
        ("Conv", ["x", "w"], "c", {}),
        ("Relu", ["c"], "d", {}),
        ("Mul", ["d", "scale"], "e", {}),
        ("LeakyRelu", ["e"], "y", {"alpha": 0.2}),
    ],
    "read-again-after-in-place": [
        ("Conv", ["x", "w"], "c", {}),
        ("Mul", ["c", "c"], "d", {}),
        ("Mul", ["d", "c"], "e", {}),
        ("Add", ["c", "e"], "f", {}),
        ("Tanh", ["f"], "y", {}),
    ],
    "subtracted-from": [("Conv", ["x", "w"], "c", {}), ("Sub", ["x", "c"], "y", {})],
    "slices-and-concat": [
        ("Conv", ["x", "w"], "c", {}),
        ("Split", ["c"], ["a", "b"], {"axis": 1}),
        ("Relu", ["a"], "d", {}),
        ("Concat", ["b", "d"], "y", {"axis": 1}),
    ],
    "shuffled-channels": [
        ("Conv", ["x", "w"], "c", {}),
        ("Reshape", ["c", "split"], "d", {}),
        ("Transpose", ["d"], "e", {"perm": [0, 2, 1, 3, 4]}),
        ("Reshape", ["e", "whole"], "f", {}),
        ("Conv", ["f", "v"], "y", {}),
    ],
    "pixels-in-steps": [
        ("Conv", ["x", "w"], "c", {}),
        ("Slice", ["c", "first", "last", "axis", "step"], "d", {}),
        ("Slice", ["c", "first", "end", "axis", "step"], "e", {}),
        ("Relu", ["e"], "f", {}),
        ("Concat", ["d", "f"], "y", {"axis": 3}),
    ],
}


@pytest.mark.parametrize(
    ("chain", "executor"), [*((chain, "graph") for chain in CHAINS), ("two-convs-added", "aot")]
)
def test_chains_are_one_region_and_right(tmp_path, chain, executor):
    feeds = {"x": normal(1, 6, 7, 5)}
    weights = {
        "w": normal(6, 6, 1, 1),
        "v": normal(6, 6, 1, 1),
        "low": np.float32(-0.5).reshape(()),
        "high": np.float32(0.75).reshape(()),
        "scale": normal(1, 6, 1, 1),
        "split": np.array([1, 2, 3, 7, 5]),
        "whole": np.array([1, 6, 7, 5]),
        "first": np.array([0]),
        "last": np.array([5]),
        "end": np.array([4]),
        "axis": np.array([3]),
        "step": np.array([2]),
    }
    used = {name for _, names, _, _ in CHAINS[chain] for name in names}
    weights = {k: v for k, v in weights.items() if k in used}
    model = network(CHAINS[chain], feeds, weights, {"y": "float32"})
    library, (found,) = run(model, feeds, tmp_path, executor=executor)
    assert len(library.partition.regions) == 1
    np.testing.assert_allclose(found, judge(model, feeds)[0], 1e-4, 1e-5)


ALONE = {
    "slopes-of-channels": (
        (1, 8, 7, 5),
        [("Conv", ["x", "w"], "c", {}), ("PRelu", ["c", "slope"], "y", {})],
        {"w": normal(16, 8, 3, 3), "slope": normal(16, 1, 1)},
    ),
    "slope-of-all": (
        (1, 8, 7, 5),
        [("Conv", ["x", "w"], "c", {}), ("PRelu", ["c", "slope"], "y", {})],
        {"w": normal(16, 8, 3, 3), "slope": normal(1)},
    ),
    "slopes-of-rows": ((2, 3, 4), [("PRelu", ["x", "slope"], "y", {})], {"slope": normal(3, 1)}),
    "divided-by-what-flows": (
        (3, 4),
        [("Exp", ["x"], "e", {}), ("Div", ["two", "e"], "y", {})],
        {"two": np.float32([2])},
    ),
    "swish": ((3, 4), [("Sigmoid", ["x"], "s", {}), ("Mul", ["x", "s"], "y", {})], {}),
    "channels-normalised": (
        (1, 7, 4, 5),
        [("LRN", ["x"], "y", {"size": 3, "alpha": 0.02, "beta": 0.6, "bias": 1.5})],
        {},
    ),
    "product-of-batches-then-columns": (
        (2, 3, 4),
        [
            ("MatMul", ["x", "w"], "p", {}),
            ("Mul", ["p", "column"], "q", {}),
            ("Add", ["q", "whole"], "y", {}),
        ],
        {"w": normal(4, 5), "column": normal(5), "whole": normal(2, 3, 5)},
    ),
    "broadcast-first-operand": (
        (1, 4),
        [("Mul", ["x", "w"], "y", {})],
        {"w": normal(3, 4)},
    ),
    "blocks-cut": (
        (1, 32, 6, 6),
        [
            ("Conv", ["x", "w"], "c", {}),
            ("Split", ["c"], ["a", "b"], {"axis": 1}),
            ("Conv", ["a", "v"], "d", {}),
            ("Conv", ["b", "v"], "e", {}),
            ("Add", ["d", "e"], "y", {}),
        ],
        {"w": normal(64, 32, 3, 3), "v": normal(32, 32, 3, 3)},
    ),
}


@pytest.mark.parametrize("case", ALONE)
def test_operators_with_operands_of_every_form(tmp_path, case):
    shape, nodes, weights = ALONE[case]
    feeds = {"x": normal(*shape)}
    model = network(nodes, feeds, weights, {"y": "float32"})
    library, (found,) = run(model, feeds, tmp_path)
    assert len(library.partition.regions) == 1
    np.testing.assert_allclose(found, judge(model, feeds)[0], 1e-4, 1e-4)


def test_network_alone_on_the_device_has_no_copies_at_its_borders(tmp_path):
    feeds = {"x": normal(1, 6, 7, 5)}
    model = network(CHAINS["conv-relu"], feeds, {"w": normal(6, 6, 1, 1)}, {"y": "float32"})
    library, (found,) = run(model, feeds, tmp_path)
    assert [row.copied for row in library.summary.borders] == [False, False]
    np.testing.assert_allclose(found, judge(model, feeds)[0], 1e-4, 1e-5)


def test_truth_values_keep_the_layout_of_what_is_compared(tmp_path):
    feeds = {"x": normal(1, 16, 7, 5)}
    weights = {"w": normal(32, 16, 3, 3), "scale": normal(1, 32, 1, 1)}
    nodes = [("Conv", ["x", "w"], "c", {}), ("Greater", ["c", "scale"], "y", {})]
    model = network(nodes, feeds, weights, {"y": "bool"})
    library, (found,) = run(model, feeds, tmp_path)
    assert region_ops(library) == [["conv", "greater"]]
    np.testing.assert_array_equal(found, judge(model, feeds)[0])


CELLS = {"LSTM": 4, "GRU": 3, "RNN": 1}


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(("op", "before_reset"), [("LSTM", 0), ("GRU", 0), ("GRU", 1), ("RNN", 0)])
def test_recurrent_cells(tmp_path, op, before_reset, direction):
    steps, batch, inputs, hidden, gates = 5, 2, 3, 4, CELLS[op]
    count = 2 if direction == "bidirectional" else 1
    feeds = {"x": normal(steps, batch, inputs), "h": normal(count, batch, hidden)}
    weights = {
        "w": normal(count, gates * hidden, inputs),
        "r": normal(count, gates * hidden, hidden),
        "b": normal(count, 2 * gates * hidden),
    }
    attrs = {"hidden_size": hidden, "direction": direction}
    if op == "GRU":
        attrs["linear_before_reset"] = before_reset
    nodes = [(op, ["x", "w", "r", "b", "", "h"], ["y", "last"], attrs)]
    model = network(nodes, feeds, weights, {"y": "float32", "last": "float32"})
    library, found = run(model, feeds, tmp_path)
    assert sum(ops.count(op.lower()) for ops in region_ops(library)) == count
    for array, golden in zip(found, judge(model, feeds)):
        np.testing.assert_allclose(array, golden, 1e-4, 1e-5)


def integer_product(op: str, kind: str) -> tuple[onnx.ModelProto, dict]:
    low, high = (0, 256) if kind == "uint8" else (-128, 128)
    zero = np.array(120 if kind == "uint8" else -3, kind)
    shape = (3, 40) if op == "matmul" else (1, 8, 9, 7)
    feeds = {"x": RNG.integers(low, high, shape).astype(kind)}
    w_shape = (40, 12) if op == "matmul" else (12, 4 if op == "grouped-conv" else 8, 3, 3)
    weights = {
        "xs": np.float32(0.02),
        "xz": zero,
        "w": RNG.integers(-128, 128, w_shape).astype(np.int8),
        "ws": np.float32(0.01) if op == "matmul" else np.linspace(0.005, 0.02, 12, dtype="f"),
        "wz": np.int8(0) if op == "matmul" else np.zeros(12, np.int8),
        "ys": np.float32(0.15),
        "yz": zero,
        "b": RNG.integers(-500, 500, 12).astype(np.int32),
    }
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    if op == "matmul":
        nodes = [("QLinearMatMul", names, "y", {})]
        del weights["b"]
    else:
        attrs = {"pads": [1, 1, 1, 1], "group": 2 if op == "grouped-conv" else 1}
        nodes = [("QLinearConv", [*names, "b"], "y", attrs)]
    weights = {k: np.asarray(v) for k, v in weights.items()}
    return network(nodes, feeds, weights, {"y": kind}), feeds


@pytest.mark.parametrize("kind", ["uint8", "int8"])
@pytest.mark.parametrize("op", ["conv", "grouped-conv", "matmul"])
def test_integer_products_are_exact(tmp_path, op, kind):
    if processor.machine() == "x86_64" and not processor.flags() & {"avx512_vnni", "avx_vnni"}:
        pytest.skip("needs a processor with VNNI")
    model, feeds = integer_product(op, kind)
    library, (found,) = run(model, feeds, tmp_path)
    assert region_ops(library) == [["qmatmul" if op == "matmul" else "qconv"]]
    np.testing.assert_array_equal(found, judge(model, feeds)[0])


@pytest.mark.parametrize(
    ("zero", "regions"), [(128, [["qconv"]]), (127, [])], ids=["in the middle", "beside it"]
)
def test_unsigned_weights_are_moved_to_signed_ones(tmp_path, zero, regions):
    if processor.machine() == "x86_64" and not processor.flags() & {"avx512_vnni", "avx_vnni"}:
        pytest.skip("needs a processor with VNNI")
    feeds = {"x": RNG.integers(0, 256, (1, 8, 9, 7)).astype(np.uint8)}
    weights = {
        "xs": np.float32(0.02),
        "xz": np.uint8(120),
        "w": RNG.integers(0, 256, (12, 8, 3, 3)).astype(np.uint8),
        "ws": np.float32(0.01),
        "wz": np.uint8(zero),
        "ys": np.float32(0.15),
        "yz": np.uint8(110),
    }
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    weights = {k: np.asarray(v) for k, v in weights.items()}
    model = network([("QLinearConv", names, "y", {})], feeds, weights, {"y": "uint8"})
    library, (found,) = run(model, feeds, tmp_path)
    assert region_ops(library) == regions
    np.testing.assert_array_equal(found, judge(model, feeds)[0])


def test_integer_products_stay_on_the_cpu_where_they_overflow(tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "machine", lambda: "x86_64")
    monkeypatch.setattr(processor, "flags", lambda: frozenset({"avx2", "fma"}))
    model, feeds = integer_product("conv", "int8")
    library, (found,) = run(model, feeds, tmp_path)
    assert region_ops(library) == []
    (row,) = [row for row in library.summary.nodes if row.op_type == "QLinearConv"]
    assert "no exact products of bytes" in row.reason
    np.testing.assert_array_equal(found, judge(model, feeds)[0])


def digits() -> tuple[onnx.ModelProto, dict]:
    feeds = {"x": normal(1, 8, 12, 12)}
    weights = {"w": normal(16, 8, 3, 3) / 8, "v": normal(16, 16, 3, 3) / 12}
    nodes = [("Conv", ["x", "w"], "c", {}), ("Relu", ["c"], "d", {}), ("Conv", ["d", "v"], "y", {})]
    return network(nodes, feeds, weights, {"y": "float32"}), feeds


def test_bfloat16_inside_keeps_float32_outside(tmp_path):
    model, feeds = digits()

    class Reduced(Everything):
        def optimize(self, region):
            region.options["precision"] = "bfloat16"
            return super().optimize(region)

    _, (found,) = run(model, feeds, tmp_path, Reduced())
    golden = judge(model, feeds)[0]
    error = np.abs(found - golden).max() / np.abs(golden).max()
    assert found.dtype == np.float32
    assert 1e-6 < error < 0.02  # 8 bits of precision, not 24


def test_mixed_precision_keeps_within_the_error_that_is_asked_for(tmp_path):
    model, feeds = digits()
    options = {"mixed_precision": "bf16", "calibration": [feeds]}
    library, (found,) = run(model, feeds, tmp_path, **options, max_error=0.02)
    golden = judge(model, feeds)[0]
    (region,) = library.partition.regions
    assert {n.attrs.get("precision") for n in region.nodes if n.op == "conv"} == {"bfloat16"}
    assert 1e-6 < np.abs(found - golden).max() / np.abs(golden).max() < 0.02


def test_sessions_of_one_library_share_the_device(tmp_path):
    model, feeds = digits()
    _, (first,) = run(model, feeds, tmp_path)
    (second,) = run_library(tmp_path / "net.so", "graph", dict(feeds))
    np.testing.assert_array_equal(first, second)


REFUSED = {
    "where": ([("Where", ["m", "x", "x"], "y", {})], "oneDNN has no where"),
    "expand": ([("Expand", ["x", "shape"], "y", {})], "oneDNN has no expand"),
    "backwards": (
        [("Slice", ["x", "minus", "far", "axis", "minus"], "y", {})],
        "oneDNN does not read backwards",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_onednn_cannot_do_is_refused_with_the_reason(case):
    nodes, reason = REFUSED[case]
    feeds = {"x": normal(2, 3)}
    weights = {
        "m": np.array([[True, False, True]]),
        "shape": np.array([4, 2, 3]),
        "minus": np.array([-1]),
        "far": np.array([-100]),
        "axis": np.array([1]),
    }
    used = {name for _, names, _, _ in nodes for name in names}
    model = network(nodes, feeds, {k: v for k, v in weights.items() if k in used}, {"y": "float32"})
    node = import_model(model, None).nodes[-1]
    assert devices.get("dnnl").supports(node) == reason


@pytest.mark.parametrize("out", [3, 5, 8, 13])
def test_nearest_places_are_the_nearest_centres(out):
    centres = (np.arange(out) + 0.5) * 5 / out - 0.5
    distance = np.abs(centres[:, None] - np.arange(5)[None])
    chosen = distance[np.arange(out), nearest_places(5, out)]
    np.testing.assert_allclose(chosen, distance.min(1), atol=1e-6)


def test_region_without_work_returns_to_the_cpu():
    feeds = {"x": normal(2, 3)}
    model = network([("Relu", ["x"], "y", {})], feeds, {}, {"y": "float32"})
    library = tvmrt.compile(model, devices=["dnnl"])
    assert not library.partition.regions


def test_number_of_threads_may_change_between_runs(tmp_path):
    from tvmrt.contrib.graph_executor import GraphModule

    model, feeds = digits()
    run(model, feeds, tmp_path)
    configure = tvmrt.get_global_func("runtime.config_threadpool")
    net = GraphModule(tvmrt.runtime.load_module(tmp_path / "net.so")["default"](tvmrt.cpu(0)))
    net.set_input(**feeds)
    try:
        for threads in (1, 2, 1):
            configure(1, threads)
            net.run()
            found = net.get_output(0).numpy()
            np.testing.assert_allclose(found, judge(model, feeds)[0], 1e-4, 1e-5)
    finally:
        configure(1, 0)


def test_region_at_another_resolution_without_reloading(tmp_path):
    model, feeds = digits()
    run(model, feeds, tmp_path)
    module = tvmrt.runtime.load_module(tmp_path / "net.so")
    symbol = "tvmgen_default_dnnl_main_0"
    reshape = tvmrt.get_global_func("tvmrt.device.reshape")
    (part,) = tvmrt.compile(model, devices=[Everything()]).partition.regions
    region = json.loads(region_text([part], "dnnl")[0])["regions"][0]
    shapes = {"x": (1, 8, 20, 16), "c": (1, 16, 18, 14), "d": (1, 16, 18, 14), "y": (1, 16, 16, 12)}
    numbers = [*region["inputs"], *(node["outputs"][0] for node in region["nodes"])]
    changes = []
    for number, shape in zip(numbers, shapes.values()):
        changes += [number, tvmrt.runtime.ShapeTuple(shape)]
    reshape(module, symbol, *changes)
    large = normal(*shapes["x"])
    x, y = (tvmrt.nd.array(a) for a in (large, np.zeros(shapes["y"], np.float32)))
    module.get_function(symbol, query_imports=True)(x, y)
    np.testing.assert_allclose(y.numpy(), digits_of(large, model), 1e-4, 1e-5)


def digits_of(x: np.ndarray, model: onnx.ModelProto) -> np.ndarray:
    """onnxruntime's result for another resolution."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.input[0].CopyFrom(
        helper.make_tensor_value_info("x", TensorProto.FLOAT, list(x.shape))
    )
    return judge(copy, {"x": x})[0]


WINDOW = {"kernel": [2, 2], "strides": [2, 2], "dilations": [1, 1], "pads_before": [0, 0]}
HUGE_WINDOWS = {
    **{name: ({name: [2, 2**63 - 1]}, 2) for name in WINDOW},
    "result": ({}, 2**31 - 1),
    "padding": ({"strides": [2, 2**28], "kernel": [2, 2]}, 2**28),
}


@pytest.mark.parametrize(
    ("op", "name"),
    [("max_pool", name) for name in HUGE_WINDOWS]
    + [("conv", name) for name in HUGE_WINDOWS if name != "kernel"],  # a weights' shape says it
)
def test_a_huge_window_is_refused(op, name):
    """As a damaged library may have it: oneDNN would overflow, and divide by the zero it gets."""
    changed, width = HUGE_WINDOWS[name]
    shapes = {"x": [1, 2, 4, 4], "w": [2, 2, 2, 2], "y": [1, 2, 2, width]}
    with pytest.raises(TVMError, match=r"2\^28"):
        load_node(op, {**WINDOW, **changed}, shapes)


@pytest.mark.parametrize("op", ["avg_pool", "conv"])
@pytest.mark.parametrize("shape", [[4], [2, 2, 4], [1, 1, 2, 4, 4]], ids=str)
def test_windows_over_other_axes_are_refused(op, shape):
    """As a damaged library may have it: oneDNN copies as many extents as the result has."""
    with pytest.raises(TVMError, match="differ in their axes"):
        load_node(op, WINDOW, {"x": shape, "w": [2, 2, 2, 2], "y": [1, 2, 2, 2]})


@pytest.mark.parametrize(
    ("shape", "dtype"), [([1, 2, 0, 2**63 - 1], "float32"), ([1, 2, 4, 2**63 - 1], "")], ids=str
)
def test_extents_of_nothing_are_bounded_too(shape, dtype):
    """Strides are products of them."""
    shapes = {"x": shape, "w": [2, 2, 1, 1], "y": [1, 2, 3, 3]}
    with pytest.raises(ValueError, match="more memory than can be addressed"):
        load_node("conv", WINDOW, shapes, dtype)


def load_node(op: str, attrs: dict, shapes: dict, dtype: str = "float32") -> None:
    """Load a region of one node that computes y of x, and of the weights w if it is a conv."""
    tensors = [{"name": k, "dtype": "float32", "shape": v} for k, v in shapes.items()]
    tensors[0]["dtype"] = dtype
    tensors[1] |= {"offset": 0, "bytes": 64}
    inputs = [0, 1] if op == "conv" else [0]
    node = {"op": op, "name": "n", "inputs": inputs, "outputs": [2], "attrs": attrs}
    region = {"symbol": "r", "tensors": tensors, "nodes": [node], "inputs": [0], "outputs": [2]}
    head = {"format": "tvmrt-regions", "version": 1, "device": "dnnl", "regions": [region]}
    tvmrt.get_global_func("tvmrt.device.load_regions")(json.dumps(head), bytearray(64))


def test_products_of_nothing_stay_on_the_cpu(tmp_path):
    """oneDNN divides by the extents of matrices."""
    network = model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        {"x": np.zeros((0, 3), np.float32)},
        ["y"],
        {"w": np.ones((3, 2), np.float32)},
    )
    tvmrt.compile(network, devices=["dnnl"]).export_library(tmp_path / "net.so")
    factory = tvmrt.runtime.load_module(tmp_path / "net.so")["default"](tvmrt.cpu(0))
    run = tvmrt.contrib.graph_executor.GraphModule(factory)
    run.run()
    assert run.get_output(0).numpy().shape == (0, 2)

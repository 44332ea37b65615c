"""The device dnnl: operators against onnxruntime, fusion, layouts, bfloat16, sessions."""

from __future__ import annotations

import json

import needs
import numpy as np
import onnx
import pytest
from dnnl_case import Everything, judge, network, normal, region_ops, run
from onnx import TensorProto, helper
from sample_devices import run_library

import tvmrt
from tvmrt.compiler.devices.region_json import region_text
from tvmrt.conformance import operators
from tvmrt.plugins.dnnl.device import nearest_places

pytestmark = pytest.mark.usefixtures("dnnl")


def test_every_operator_of_the_conformance_tests():
    findings = operators.check(Everything(), 1e-3)
    assert len(findings) > 30
    lost = [f"{op}: NaN: gave numbers in place of NaN" for op in LOSE_NAN]
    assert not [f for f in findings if not f.passed and f.detail not in lost]


# What oneDNN computes by comparisons; alone, these stay on the CPU.
LOSE_NAN = ("Relu", "LeakyRelu", "Exp", "Max", "Min")

PRODUCT = ("MatMul", ["x", "w"], "m", {})
TURNED = ("Transpose", ["m"], "t", {"perm": [1, 0]})
OTHER = ("MatMul", ["x", "v"], "n", {})
READ_TWICE = {
    "sum of both": [PRODUCT, TURNED, ("Add", ["m", "t"], "y", {})],
    "product of both": [PRODUCT, TURNED, ("Mul", ["m", "t"], "y", {})],
    "difference": [PRODUCT, TURNED, ("Sub", ["t", "m"], "y", {})],
    "one row of it": [
        PRODUCT,
        ("Slice", ["m", "low", "high"], "r", {}),
        ("Mul", ["m", "r"], "y", {}),
    ],
    "summed into and turned": [
        PRODUCT,
        TURNED,
        OTHER,
        ("Add", ["n", "m"], "s", {}),
        ("Mul", ["s", "t"], "y", {}),
    ],
    "summed into and read": [
        PRODUCT,
        OTHER,
        ("Add", ["n", "m"], "s", {}),
        ("Mul", ["s", "m"], "y", {}),
    ],
    "summed into its own operand": [
        PRODUCT,
        ("MatMul", ["q", "m"], "n", {}),
        ("Add", ["n", "m"], "y", {}),
    ],
}


@pytest.mark.parametrize("case", READ_TWICE)
def test_what_is_read_again_is_not_written_over(case, tmp_path):
    """Operations write in place, but not where another view of the same memory is read."""
    nodes = READ_TWICE[case]
    weights = {"w": normal(64, 96), "v": normal(64, 96), "q": normal(96, 96)}
    weights |= {"low": np.int64([0]), "high": np.int64([1])}
    read = {name for _, inputs, _, _ in nodes for name in inputs}
    feeds = {"x": normal(96, 64)}
    model = network(nodes, feeds, {k: v for k, v in weights.items() if k in read}, {"y": "float32"})
    _, outputs = run(model, feeds, tmp_path)
    np.testing.assert_allclose(outputs[0], judge(model, feeds)[0], rtol=1e-3, atol=1e-2)


BOUNDS = {
    "below": [("Max", ["x", "low"], "y", {})],
    "above": [("Min", ["x", "high"], "y", {})],
    "both": [("Max", ["x", "low"], "m", {}), ("Min", ["m", "high"], "y", {})],
}


@pytest.mark.parametrize("case", BOUNDS)
def test_infinities_pass_a_bound_on_the_other_side(case, tmp_path):
    weights = {"low": np.float32([-0.5]), "high": np.float32([0.5])}
    read = {name for _, inputs, _, _ in BOUNDS[case] for name in inputs}
    x = normal(8, 64)
    x[0, 0], x[1, 1] = np.inf, -np.inf
    model = network(
        BOUNDS[case], {"x": x}, {k: v for k, v in weights.items() if k in read}, {"y": "float32"}
    )
    _, outputs = run(model, {"x": x}, tmp_path)
    np.testing.assert_array_equal(outputs[0], judge(model, {"x": x})[0])


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
    (wanted,) = judge(model, feeds)
    np.testing.assert_allclose(found, wanted, 1e-4, max(1e-4, 1e-6 * np.abs(wanted).max()))


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


def digits() -> tuple[onnx.ModelProto, dict]:
    feeds = {"x": normal(1, 8, 12, 12)}
    weights = {"w": normal(16, 8, 3, 3) / 8, "v": normal(16, 16, 3, 3) / 12}
    nodes = [("Conv", ["x", "w"], "c", {}), ("Relu", ["c"], "d", {}), ("Conv", ["d", "v"], "y", {})]
    return network(nodes, feeds, weights, {"y": "float32"}), feeds


def test_bfloat16_inside_keeps_float32_outside(tmp_path):
    needs.one_of("avx512bw", why="oneDNN computes in bfloat16 there")
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
    needs.one_of("avx512bw", why="oneDNN computes in bfloat16 there")
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


@pytest.mark.parametrize("out", [3, 5, 8, 13])
def test_nearest_places_are_the_nearest_centres(out):
    centres = (np.arange(out) + 0.5) * 5 / out - 0.5
    distance = np.abs(centres[:, None] - np.arange(5)[None])
    chosen = distance[np.arange(out), nearest_places(5, out)]
    np.testing.assert_allclose(chosen, distance.min(1), atol=1e-6)


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

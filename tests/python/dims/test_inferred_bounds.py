"""Dynamic dimensions whose bounds are inferred from their use, without arguments.

The reference is onnxruntime without optimisations, at three sizes.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from dynamic_networks import FLOAT, INT64, Draft
from dynamic_shape_networks import NETWORKS, DynamicNetwork, branches, picture, rows, skip, words
from onnx import helper

import tvmrt
from tvmrt.compiler.frontend.onnx.default_bounds import find_undeclared_dims
from tvmrt.error import TvmrtWarning, UnboundedDimensionsError


def bounds_of(library: Any) -> dict[str, tuple[int, int]]:
    return {symbol.name: (symbol.low, symbol.high) for symbol in library.program.dims()}


def remarks(call: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        result = call()
    return result, [str(each.message) for each in seen if issubclass(each.category, TvmrtWarning)]


def _in_numbers(declared: dict[str, Any], bounds: Any) -> tuple[int, int]:
    """Return numeric bounds of a dimension, which may be another one or a multiple of it."""
    if not isinstance(bounds, str):
        return bounds
    *step, name = bounds.split("*")
    low, high = (int(step[0]) if step else 1) * np.array(declared[name])
    return low, high


def proposed(text: str) -> dict[str, Any]:
    """Return the dictionary in an error's example."""
    return eval(re.search(r"dims=(\{.*?\})", text)[1])


@pytest.mark.parametrize("name", NETWORKS)
def test_bounds_follow_from_how_axes_are_used(name):
    case = NETWORKS[name]
    library, message = remarks(lambda: tvmrt.compile(case.make()))
    declared = proposed(message[-1])
    found = {n: _in_numbers(declared, b) for n, b in declared.items() if n in case.bounds}
    assert found == case.bounds
    total = library.summary.arena_bytes + sum(
        each.nbytes for each in (*library.summary.inputs, *library.summary.outputs)
    )
    size, unit = re.search(r"up to ([\d.]+) (\w+) for tensors", message[-1]).groups()
    bytes_said = float(size) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}[unit]
    assert bytes_said <= 1.01 * total
    assert bytes_said >= 0.99 * library.summary.arena_bytes
    # the example equals the inferred bounds
    assert bounds_of(tvmrt.compile(case.make(), dims=declared)) == bounds_of(library)


def reference(model: onnx.ModelProto) -> Any:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def check_results(
    found: Iterable[np.ndarray], expected: Iterable[np.ndarray], minimum: float = 1e-6
) -> None:
    """Compare outputs relative to their range, but at least ``minimum``."""
    for value, right in zip(found, expected):
        assert value.shape == right.shape
        scale = np.abs(right).max(initial=minimum)
        np.testing.assert_allclose(value, right, rtol=0, atol=2e-5 * scale)


def _check_runs(case: DynamicNetwork) -> None:
    model = case.make()
    session = reference(model)
    network, message = remarks(lambda: tvmrt.load(model, cache=False))
    assert len([text for text in message if "dynamic dimensions" in text]) == 1
    rng = np.random.default_rng(0)
    for sizes in case.sizes:
        inputs = case.inputs(rng, sizes)
        check_results(network(inputs).values(), session.run(None, inputs))


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_load_without_arguments_and_are_right(name):
    _check_runs(NETWORKS[name])


# Models of the collection, their dynamic input axes, and sizes for them.
SHARED = {
    "resnet8_f32": ({0: "seq", 1: "u", 2: "v"}, [(1, 32, 32), (3, 64, 32), (8, 96, 160)]),
    "yunet_n_320_f32": ({0: "h", 2: "u", 3: "v"}, [(1, 320, 320), (1, 64, 96)]),
    "speech_embedding_f32": ({0: "length"}, [(1,), (5,), (8,)]),
    "kws_dscnn_f32": ({0: "s1"}, [(1,), (3,), (8,)]),
    "bert_dummy_f32": ({0: "batch"}, [(1,), (5,), (8,)]),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED)
def test_collected_models_with_dynamic_axes(name):
    folder = os.environ.get("TVMRT_MODELS")
    if not folder:
        pytest.skip("the variable TVMRT_MODELS names no folder of models")
    model = onnx.load(Path(folder, f"{name}.onnx"))
    axes, sizes = SHARED[name]
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [info for info in model.graph.input if info.name not in weights]
    for info in inputs:
        for place, label in axes.items():
            info.type.tensor_type.shape.dim[place].dim_param = label
    del model.graph.value_info[:]
    for info in model.graph.output:
        for dim in info.type.tensor_type.shape.dim:
            dim.Clear()
    session = reference(model)
    network, _ = remarks(lambda: tvmrt.load(model, cache=False))
    rng = np.random.default_rng(0)
    for each in sizes:
        feeds = {}
        for info in inputs:
            shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
            for place, size in zip(axes, each):
                shape[place] = size
            kind = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            values = rng.normal(size=shape) if kind.kind == "f" else rng.integers(0, 2, shape)
            feeds[info.name] = values.astype(kind)
        check_results(network(feeds).values(), session.run(None, feeds), 0.05)


def test_a_classifier_loads_without_arguments():
    _check_runs(NETWORKS["points"])


def test_axes_in_branches_count():
    library, _ = remarks(lambda: tvmrt.compile(branches()))
    assert bounds_of(library) == {"q": (1, 8), "r": (1, 640), "s": (1, 640)}


def test_inferred_sizes_are_required_multiples():
    """The kernel adds a constraint of its own: the last window ends at the edge."""
    d = Draft(32)
    y = d.node("Conv", ["x", d.weight(2, 3, 9)], strides=[7])
    model = d.model({"x": (FLOAT, ["n", 3, "t"])}, {y: FLOAT})
    network, message = remarks(lambda: tvmrt.load(model, cache=False))
    assert proposed(message[-1])
    for extent in (35, 490):
        weights = onnx.numpy_helper.to_array(model.graph.initializer[0])
        x = np.random.default_rng(0).normal(size=(2, 3, extent)).astype(np.float32)
        starts = range(0, extent - 8, 7)
        right = np.stack([np.einsum("nct,kct->nk", x[..., i : i + 9], weights) for i in starts], -1)
        np.testing.assert_allclose(network(x), right, rtol=0, atol=1e-4)


def test_declared_dimensions_are_kept_and_others_inferred():
    library, message = remarks(lambda: tvmrt.compile(picture(), dims={"seq": (20, 30)}))
    assert bounds_of(library) == {"height": (1, 8), "s53": (8, 640), "seq": (20, 30)}
    assert set(proposed(message[-1])) == {"height", "s53"}


def test_unnamed_axes_are_declared_by_input_and_index():
    library = tvmrt.compile(skip(), dims={"x_0": 2, "x_2": (8, 16), "x_3": (16, 16)})
    assert library.program.input_types[0].shape[3] == 16
    with pytest.raises(KeyError, match=r"no input .* a dimension x_1; choose from .*x_3"):
        tvmrt.compile(skip(), dims={"x_1": 2})


def test_a_file_may_state_a_larger_picture():
    model = picture()
    entry = model.metadata_props.add()
    entry.key, entry.value = "imgsz", "[1024, 1280]"
    library, _ = remarks(lambda: tvmrt.compile(model))
    assert bounds_of(library)["s53"] == (8, 1280)


def wide() -> onnx.ModelProto:
    """A network with so many channels that a batch of images takes gigabytes."""
    d = Draft(30)
    y = d.node("Relu", [d.node("Conv", ["x", d.weight(64, 3, 1, 1)])])
    y = d.node(
        "Conv",
        [d.node("MaxPool", [y], kernel_shape=[2, 2], strides=[2, 2]), d.weight(96, 64, 3, 3)],
    )
    return d.model({"x": (FLOAT, ["n", 3, "h", "w"])}, {y: FLOAT})


def test_a_batch_is_as_large_as_memory_allows():
    library, message = remarks(lambda: tvmrt.compile(wide(), max_memory=700 << 20))
    (_, batch) = bounds_of(library)["n"]
    assert 1 < batch < 8
    assert f'"n": (1, {batch})' in message[-1]


def test_too_much_memory_error_has_a_working_example():
    with pytest.raises(UnboundedDimensionsError) as failure:
        tvmrt.compile(wide(), max_memory=32 << 20)
    text = str(failure.value)
    assert re.search(r"needs more than 32 MiB for tensors", text)
    example = proposed(text[text.index("for example") :])
    assert max(high for _, high in example.values()) >= 32
    tvmrt.compile(wide(), dims=example, max_memory=48 << 20)


def test_a_position_beyond_the_table_is_an_error():
    """The table has 40 rows. A call with 41 positions compiles a variant, whose run fails."""
    network, _ = remarks(lambda: tvmrt.load(words(), cache=False))
    ids = np.zeros((2, 41), np.int64)
    with pytest.raises(IndexError, match="index 40 is outside an extent of 40"):
        remarks(lambda: network(ids, np.zeros((2, 41), np.float32)))
    assert network.dims == {"height": (1, 8), "width": (1, 40)}


def test_axis_role_search_is_bounded():
    """Integers that double at each node, and functions that call others twice."""
    d = Draft(34)
    y = d.node("Shape", ["x"])
    for _ in range(60):
        y = d.node("Concat", [y, y], axis=0)
    doubled = d.model({"x": (FLOAT, ["n", 3])}, {y: INT64})
    nested = rows()
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    for i in range(60):
        op, domain = ("Relu", "") if i == 59 else (f"g{i + 1}", "f")
        calls = [helper.make_node(op, [a], [b], domain=domain) for a, b in ("ac", "cb")]
        function = helper.make_function("f", f"g{i}", ["a"], ["b"], calls, imports)
        nested.functions.append(function)
    nested.graph.node.append(helper.make_node("g0", ["x"], ["z"], domain="f"))
    for model, name in ((doubled, "n"), (nested, "sequence_length")):
        sizes = find_undeclared_dims(model, {}, {}, {}, [name]).sizes
        assert (sizes[name].low, sizes[name].high) == (1, 8)


def test_functions_of_a_file_count():
    model = picture()
    imports = [helper.make_opsetid("", 17)]
    body = [helper.make_node("Softmax", ["a"], ["b"], axis=0)]
    model.functions.append(helper.make_function("f", "over", ["a"], ["b"], body, imports))
    model.opset_import.append(helper.make_opsetid("f", 1))
    model.graph.node.append(helper.make_node("over", ["x"], ["z"], domain="f"))
    sizes = find_undeclared_dims(model, {}, {}, {}, ["height"]).sizes
    assert sizes["height"].high == 512


def test_memory_of_a_board_is_declared():
    with pytest.raises(UnboundedDimensionsError, match="memory of a C program is fixed") as failure:
        tvmrt.compile(rows(), target="cortex-m4")
    tvmrt.compile(rows(), target="cortex-m4", dims=proposed(str(failure.value)))


def test_input_without_rank_needs_a_shape():
    model = rows()
    model.graph.input[0].type.tensor_type.ClearField("shape")
    with pytest.raises(ValueError, match=r'the rank of input x; .* shapes={"x": \[1\]}'):
        tvmrt.compile(model)


def test_network_without_valid_size_is_refused():
    d = Draft(31)
    y = d.node("Unknown", ["x"])
    model = d.model({"x": (INT64, ["n", 4])}, {y: INT64})
    with pytest.raises(tvmrt.error.UnsupportedError, match=r"Unknown.* .unknown operator Unknown"):
        tvmrt.compile(model)

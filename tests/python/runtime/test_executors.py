"""The graph executor and the AOT executor, with common expectations."""

from __future__ import annotations

import json
import pickle
import threading
import time

import libraries
import numpy as np
import onnx
import pytest

import tvmrt
from tvmrt.contrib import graph_executor
from tvmrt.runtime.executor import AotModule, GraphModule

X = np.array([[1, 2, 3], [4, 5, 6]], np.float32)


@pytest.fixture(params=["graph", "aot"])
def executor(request):
    """Create a new executor of data/network.c."""
    library = tvmrt.runtime.load_module(request.getfixturevalue(f"{request.param}_library"))
    kind = GraphModule if request.param == "graph" else AotModule
    return kind(library["default"](tvmrt.cpu(0)))


@pytest.fixture
def graph(graph_library):
    library = tvmrt.runtime.load_module(graph_library)
    return GraphModule(library["default"](tvmrt.cpu(0)))


def assert_outputs(executor, x, w=libraries.WEIGHT):
    y, z = libraries.expected(x, w)
    np.testing.assert_allclose(executor.get_output(0).numpy(), y, rtol=1e-6)
    np.testing.assert_allclose(executor.get_output(1).numpy(), z, rtol=1e-6)


@pytest.mark.parametrize(
    "value",
    [X, X.tolist(), X.astype(np.float64), X.astype(np.int8), np.asfortranarray(X)],
    ids=["float32", "list", "float64", "int8", "fortran-order"],
)
def test_run_with_any_kind_of_value(executor, value):
    executor.set_input("x", value)
    executor.run()
    assert_outputs(executor, X)


@pytest.mark.parametrize("key", ["x", 0])
def test_set_input_by_name_or_index(executor, key):
    executor.set_input(key, X)
    executor.run()
    assert_outputs(executor, X)


def test_set_input_from_tensor(executor):
    executor.set_input("x", tvmrt.nd.array(X))
    executor.run()
    assert_outputs(executor, X)


def test_inputs_of_run(executor):
    executor.run(x=X)
    assert_outputs(executor, X)


def test_params_by_keyword(executor):
    executor.set_input(x=X, w=np.ones((2, 3)), not_there=np.ones(1))
    executor.run()
    assert_outputs(executor, X, np.ones((2, 3), np.float32))


def test_counts_and_names(executor):
    assert executor.get_num_outputs() == 2
    assert executor.get_num_inputs() in (1, 2)
    assert executor.get_input_index("x") == 0
    np.testing.assert_array_equal(executor.get_input("x").shape, (2, 3))


def test_output_into_a_tensor(executor):
    out = tvmrt.nd.empty((2,))
    executor.run(x=X)
    assert executor.get_output(1, out) is out
    np.testing.assert_allclose(out.numpy(), libraries.expected(X)[1], rtol=1e-6)


def take(executor, index: int) -> tvmrt.nd.NDArray:
    return executor.module["take_output"](index)


def test_taken_outputs_never_change(executor):
    kept = []
    for turn in range(5):
        executor.run(x=X * turn)
        kept.append((turn, take(executor, 0), take(executor, 1), take(executor, 0)))
        assert_outputs(executor, X * turn)
    for turn, y, z, again in kept:
        expected = libraries.expected(X * turn)
        np.testing.assert_allclose(y.numpy(), expected[0], rtol=1e-6)
        np.testing.assert_allclose(z.numpy(), expected[1], rtol=1e-6)
        np.testing.assert_allclose(again.numpy(), expected[0], rtol=1e-6)


def test_memory_of_taken_outputs_is_used_again(executor):
    addresses = set()
    for turn in range(10):
        executor.run(x=X)
        if turn > 0:
            y = take(executor, 0)  # while the one before is held
            addresses.add(y.data_address)
    assert len(addresses) <= 3


def test_outputs_that_are_not_taken_are_overwritten(executor):
    executor.run(x=X)
    borrowed = executor.get_output(0)
    executor.run(x=X * 2)
    np.testing.assert_allclose(borrowed.numpy(), libraries.expected(X * 2)[0], rtol=1e-6)


def test_a_bound_output_is_copied_when_it_is_taken(executor):
    y = aligned((2, 3))
    executor.set_output_zero_copy(0, y)
    executor.run(x=X)
    taken = take(executor, 0)
    executor.run(x=X * 2)
    np.testing.assert_allclose(taken.numpy(), libraries.expected(X)[0], rtol=1e-6)
    np.testing.assert_allclose(y, libraries.expected(X * 2)[0], rtol=1e-6)


def test_single_operators_do_not_change_taken_outputs(graph_library):
    library = tvmrt.runtime.load_module(graph_library)
    module = library["debug_create"]("default", tvmrt.cpu(0))
    executor = GraphModule(module)
    executor.run(x=X)
    executor.run(x=X)
    take(executor, 0)
    executor.run(x=X)
    taken = take(executor, 0)
    executor.set_input("x", X * 3)
    module["execute_node"](2)
    np.testing.assert_allclose(taken.numpy(), libraries.expected(X)[0], rtol=1e-6)
    np.testing.assert_allclose(
        executor.get_output(0).numpy(), libraries.expected(X * 3)[0], rtol=1e-6
    )


BAD_INPUTS = {
    "unknown-name": (("nope", X), KeyError, "nope"),
    "unknown-index": ((99, X), KeyError, "99"),
    "negative-index": ((-1, X), KeyError, "-1"),
    "wrong-shape": (("x", np.zeros((3, 2), np.float32)), ValueError, r"\(3, 2\)"),
    "wrong-rank": (("x", np.zeros(6, np.float32)), ValueError, "shape"),
    "text": (("x", "text"), (TypeError, ValueError), ""),
    "nothing": (("x", None), (TypeError, ValueError), ""),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
def test_bad_input_is_named(executor, name):
    args, kind, text = BAD_INPUTS[name]
    with pytest.raises(kind) as caught:
        executor.set_input(*args)
    assert not text or any(part in str(caught.value) for part in (text, "(3, 2)"))


def test_unknown_input_of_run(executor):
    with pytest.raises(KeyError, match="nope"):
        executor.run(nope=X)


@pytest.mark.parametrize("index", [2, -1, 99])
def test_unknown_output(executor, index):
    with pytest.raises((tvmrt.TVMError, IndexError, ValueError, KeyError)):
        executor.get_output(index)


def aligned(shape):
    raw = np.zeros(int(np.prod(shape)) * 4 + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + int(np.prod(shape)) * 4].view(np.float32).reshape(shape)


def test_zero_copy_input(executor):
    x = aligned((2, 3))
    executor.set_input_zero_copy("x", x)
    for turn in range(3):
        x[:] = X * turn
        executor.run()
        assert_outputs(executor, X * turn)


def test_zero_copy_output(executor):
    y = aligned((2, 3))
    key = "scale_add:0" if isinstance(executor, GraphModule) else 0
    executor.set_output_zero_copy(key, y)
    executor.run(x=X)
    np.testing.assert_allclose(y, libraries.expected(X)[0], rtol=1e-6)


def test_zero_copy_output_by_index(executor):
    y = aligned((2, 3))
    executor.set_output_zero_copy(0, y)
    executor.run(x=X)
    np.testing.assert_allclose(y, libraries.expected(X)[0], rtol=1e-6)


@pytest.mark.parametrize("kind", ["graph", "aot"])
def test_zero_copy_output_that_several_operators_write(kind, tmp_path):
    """Each operator writes its part of a concatenation."""
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["a"]),
        onnx.helper.make_node("Neg", ["x"], ["b"]),
        onnx.helper.make_node("Concat", ["x", "a", "b"], ["y"], axis=1),
    ]
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(nodes, "parts", [info("x", 1, [2, 3])], [info("y", 1, [2, 9])])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8
    )
    tvmrt.compile(model, executor=kind).export_library(str(tmp_path / "parts.so"))
    library = tvmrt.runtime.load_module(str(tmp_path / "parts.so"))
    network = (AotModule if kind == "aot" else GraphModule)(library["default"](tvmrt.cpu(0)))
    y = aligned((2, 9))
    network.set_output_zero_copy(0, y)
    network.run(x=X - 3)
    x = X - 3
    np.testing.assert_array_equal(y, np.concatenate([x, np.maximum(x, 0), -x], 1))


def test_zero_copy_keeps_the_memory(executor):
    executor.set_input_zero_copy("x", tvmrt.nd.array(X))
    junk = [tvmrt.nd.array(np.full((2, 3), 9, np.float32)) for _ in range(50)]
    executor.run()
    assert_outputs(executor, X)
    assert junk


def test_zero_copy_of_another_shape(executor):
    with pytest.raises((tvmrt.TVMError, ValueError)):
        executor.set_input_zero_copy("x", tvmrt.nd.empty((3, 2)))
    executor.run(x=X)
    assert_outputs(executor, X)


def test_load_params(executor):
    executor.load_params(tvmrt.save_param_dict({"w": np.ones((2, 3), np.float32)}))
    executor.run(x=X)
    assert_outputs(executor, X, np.ones((2, 3), np.float32))


@pytest.mark.parametrize("end_to_end", [False, True])
def test_benchmark(executor, end_to_end):
    begin = time.perf_counter()
    result = executor.benchmark(tvmrt.cpu(0), repeat=3, number=4, end_to_end=end_to_end, x=X)
    seconds = time.perf_counter() - begin
    assert len(result.results) == 3
    assert 0 < result.median and 4 * sum(result.results) <= seconds


def test_time_evaluator(executor):
    executor.set_input("x", X)
    begin = time.perf_counter()
    mean = executor.time_evaluator("run", tvmrt.cpu(0), number=5)().mean
    assert 0 < 5 * mean <= time.perf_counter() - begin


def test_input_info(graph):
    shapes, types = graph.get_input_info()
    assert shapes["x"] == (2, 3)
    assert types["x"] == "float32"


def test_many_instances_on_many_threads(graph_library):
    library = tvmrt.runtime.load_module(graph_library)
    failures = []

    def work(number):
        executor = GraphModule(library["default"](tvmrt.cpu(0)))
        for turn in range(50):
            x = X * (number + turn)
            executor.run(x=x)
            if not np.allclose(executor.get_output(0).numpy(), libraries.expected(x)[0]):
                failures.append((number, turn))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


# ---- the graph executor alone ----


@pytest.mark.parametrize(
    "device", [tvmrt.cpu(0), "cpu", [tvmrt.cpu(0)]], ids=["device", "name", "list"]
)
def test_create_from_graph_library_and_params(graph_library, device):
    (library,) = tvmrt.runtime.load_module(graph_library).imported_modules
    executor = graph_executor.create(json.dumps(libraries.GRAPH), library, device)
    executor.set_input("x", X)
    executor.set_input(w=libraries.WEIGHT)
    executor.run()
    assert_outputs(executor, X)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("{", tvmrt.TVMError), ("", tvmrt.TVMError), (5, ValueError)],
    ids=["damaged", "empty", "number"],
)
def test_create_from_something_else(toolbox, text, kind):
    with pytest.raises((kind, ValueError)):
        graph_executor.create(text, toolbox, tvmrt.cpu(0))


def test_create_without_device(toolbox):
    with pytest.raises(ValueError, match="not a device"):
        graph_executor.create(json.dumps(libraries.GRAPH), toolbox, object())


def test_missing_operator_is_named(toolbox):
    with pytest.raises((ValueError, tvmrt.TVMError), match="scale_add"):
        graph_executor.create(json.dumps(libraries.GRAPH), toolbox, tvmrt.cpu(0))


def test_share_params(graph_library):
    (library,) = tvmrt.runtime.load_module(graph_library).imported_modules
    text = json.dumps(libraries.GRAPH)
    first, second = (graph_executor.create(text, library, tvmrt.cpu(0)) for _ in range(2))
    data = tvmrt.save_param_dict({"w": libraries.WEIGHT})
    first.load_params(data)
    second.share_params(first, data)
    second.run(x=X)
    assert_outputs(second, X)


def test_profile(graph):
    report = graph.profile(x=X)
    names = [call["name"] for call in report.calls]
    assert any("scale_add" in name for name in names)
    assert report.total > 0
    assert "scale_add" in report.table()
    assert json.loads(report.json())["calls"]
    assert report.csv().startswith("name,count,seconds")
    assert [call["name"] for call in graph.module["profile"]().calls] == names


def test_profile_in_a_locale_with_commas(graph, decimal_comma):
    with decimal_comma():
        report = graph.profile(x=X)
    assert report.total > 0


def test_factory_functions(graph_library):
    library = tvmrt.runtime.load_module(graph_library)
    assert json.loads(library["get_graph_json"]())["arg_nodes"] == [0, 1]
    params = library["get_graph_params"]()
    np.testing.assert_array_equal(params["w"].numpy(), libraries.WEIGHT)


def test_library_is_pickled_not_the_executor(graph):
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(graph)


@pytest.mark.parametrize("give", ["bfloat16", "float32", "list"])
def test_bfloat16_input_takes_arrays(tmp_path, give):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    header = '<ir_version: 9, opset_import: ["" : 19]>'
    body = "g (bfloat16[2,3] x) => (float[2,3] y) { y = Cast<to = 1>(x) }"
    model = onnx.parser.parse_model(header + body)
    tvmrt.compile(model).export_library(tmp_path / "n.so")
    network = GraphModule(tvmrt.runtime.load_module(tmp_path / "n.so")["default"](tvmrt.cpu(0)))
    x = np.array([[0, 1, 2], [3, 4, 5.5]], ml_dtypes.bfloat16)
    network.set_input("x", x.astype(np.float32).tolist() if give == "list" else x.astype(give))
    network.run()
    np.testing.assert_array_equal(network.get_output(0).numpy(), x.astype(np.float32))


@pytest.mark.parametrize("method", ["set_input_zero_copy", "set_output_zero_copy"])
def test_non_tensor_value_is_reported_with_its_index(graph, method):
    name = "x" if "input" in method else 0
    with pytest.raises(TypeError, match=rf"put {name!r}: a str offers no DLPack tensor"):
        getattr(graph, method)(name, "text")

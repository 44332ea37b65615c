"""Kernels with constant operands that are not folded, as the result is too large or unsupported."""

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
import pytest
from onnx import helper, numpy_helper

import tvmrt
from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.compiler.ir import Builder
from tvmrt.contrib.graph_executor import GraphModule
from tvmrt.error import UnsupportedError


def cases():
    """Return the first two cases of the ONNX suite for each operator, by name."""
    with np.errstate(all="ignore"):
        found = node_cases.collect_testcases(None)
    by_operator: dict[str, list] = {}
    for case in found:
        nodes, data = case.model.graph.node, case.data_sets
        if len(nodes) == 1 and all(isinstance(a, np.ndarray) for a in data[0][0]):
            by_operator.setdefault(nodes[0].op_type, []).append(case)
    return {name: rows[:2] for name, rows in sorted(by_operator.items())}


def with_constants(case, count: int) -> onnx.ModelProto:
    """Return the model of a case with its first inputs as constants."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    infos, arrays = list(model.graph.input), case.data_sets[0][0]
    del model.graph.input[:]
    model.graph.input.extend(infos[count:])
    for info, array in list(zip(infos, arrays))[:count]:
        model.graph.initializer.append(numpy_helper.from_array(array, info.name))
    return model


@pytest.fixture
def nothing_folds(monkeypatch):
    monkeypatch.setattr(Builder, "_fold", lambda *args: None)


@pytest.mark.slow
def test_every_operator_accepts_constant_operands(nothing_folds):
    compiled = 0
    for rows in cases().values():
        for case in rows:
            for count in {1, len(case.model.graph.input)}:
                try:
                    tvmrt.compile(with_constants(case, count))
                    compiled += 1
                except UnsupportedError:
                    pass
                except ValueError as problem:
                    # an error about the node, not about a Python list
                    assert " is not in " not in str(problem), case.name
    assert compiled > 250


DIFFERENT = ("bf16", "fp16", "scales_linear_align", "scales_cubic_align")  # float32, or documented


@pytest.mark.slow
def test_nodes_of_constants_are_folded_to_the_results_of_the_suite():
    folded = 0
    for case in node_cases.collect_testcases(None):
        arrays = [each for data in case.data_sets[:1] for part in data for each in part]
        if not all(isinstance(a, np.ndarray) and a.dtype.kind in "iufb" for a in arrays):
            continue
        try:
            outputs = import_model(with_constants(case, len(case.model.graph.input))).outputs
        except (UnsupportedError, ValueError):
            continue  # another test runs these cases
        if any(v.data is None for v in outputs) or any(text in case.name for text in DIFFERENT):
            continue
        folded += 1
        for value, expected in zip(outputs, case.data_sets[0][1]):
            assert value.shape == expected.shape, case.name
            wide = [np.asarray(a, np.float64) for a in (value.data, expected)]
            np.testing.assert_allclose(*wide, rtol=1e-3, atol=1e-5, err_msg=case.name)
    assert folded > 1200


def info(name, *shape):
    return helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)


ADDED = {
    "CumSum": (dict(c=np.array([[1, 2, 3]], np.float32), n=np.array([1])), {},
               [[1, 3, 6]]),
    "ConvTranspose": (dict(c=np.array([[[1, 2]]], np.float32),
                           n=np.array([[[3, 5]]], np.float32)), dict(strides=[2]),
                      [[[3, 5, 6, 10]]]),
    "ReduceSum": (dict(c=np.array([[1, 2, 3]], np.float32), n=np.array([1])), {}, [[6]]),
    "ArgMax": (dict(c=np.array([[1, 4, 3]], np.float32)), dict(axis=1), [[1]]),
    "Gather": (dict(c=np.array([5, 6, 7], np.float32), n=np.array([2, 0])), {}, [7, 5]),
    "TopK": (dict(c=np.array([5, 9, 7], np.float32), n=np.array([2])), {}, [9, 7]),
}  # fmt: skip


@pytest.mark.parametrize("op", ADDED)
def test_unfolded_constants_are_computed_at_run_time(tmp_path, op, nothing_folds):
    arrays, attributes, expected = ADDED[op]
    outputs = ["r", "places"] if op == "TopK" else ["r"]
    nodes = [
        helper.make_node(op, list(arrays), outputs, **attributes),
        helper.make_node("Cast", ["r"], ["f"], to=onnx.TensorProto.FLOAT),
        helper.make_node("Add", ["x", "f"], ["y"]),
    ]
    ends = [info("x", 1)], [info("y", *np.shape(expected))]
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", *ends, weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    tvmrt.compile(model).export(tmp_path / "net.so")
    executor = GraphModule(tvmrt.runtime.load_module(tmp_path / "net.so")["default"](tvmrt.cpu(0)))
    executor.run(x=np.array([100], np.float32))
    np.testing.assert_array_equal(executor.get_output(0).numpy(), np.add(expected, 100))


def test_a_cumulative_sum_along_an_axis_of_one_dimension(tmp_path):
    """The reference evaluator does not support such an axis, so nothing is folded."""
    arrays = dict(c=np.array([[1, 2, 3]], np.float32), n=np.array([1]))
    nodes = [helper.make_node("CumSum", ["c", "n"], ["s"]),
             helper.make_node("Add", ["x", "s"], ["y"])]  # fmt: skip
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph(nodes, "g", [info("x", 1, 3)], [info("y", 1, 3)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    tvmrt.compile(model)

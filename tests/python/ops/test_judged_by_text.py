"""Results that the standard's text decides, where onnxruntime and the evaluator differ."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import tvmrt


def network(op, arrays, outputs, constants=(), opset=22, **attributes):
    """Return a model of one node; ``arrays``: operands by name, "" where one is left out."""
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for n, a in arrays.items()
        if n and n not in constants
    ]
    weights = [numpy_helper.from_array(arrays[n], n) for n in constants]
    node = helper.make_node(op, list(arrays), list(outputs), **attributes)
    results = [helper.make_empty_tensor_value_info(name) for name in outputs]
    graph = helper.make_graph([node], "g", infos, results, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def result(op, x, **attributes):
    return np.asarray(tvmrt.load(network(op, {"x": x}, ["y"], **attributes), cache=False)(x))


@pytest.mark.everyday(2)
@pytest.mark.parametrize("true", [False, True])
def test_nonzero_of_a_scalar_has_no_rows(true):
    found = result("NonZero", np.array(true))
    assert (found.shape, found.dtype) == ((0, int(true)), np.int64)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64", "int8", "int32"])
def test_shrink_of_integers_casts_its_attributes(dtype):
    x = np.array([0, 1, 2, 3, 100], dtype)
    assert result("Shrink", x, lambd=1.5, bias=1.5).tolist() == [0, 0, 1, 2, 99]
    if dtype.startswith("i"):
        assert result("Shrink", -x, lambd=1.5, bias=1.5).tolist() == [0, 0, -1, -2, -99]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_statistics_of_layer_normalization_are_float32(dtype):
    x = np.arange(12).reshape(3, 4).astype(dtype)
    arrays = {"x": x, "s": np.ones(4, dtype)}
    model = network("LayerNormalization", arrays, ["y", "mean", "inverse"])
    found = tvmrt.load(model, cache=False)(arrays)
    assert [found[n].dtype.name for n in ("y", "mean", "inverse")] == [dtype, "float32", "float32"]
    np.testing.assert_allclose(found["mean"][:, 0], [1.5, 5.5, 9.5])


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("dtype", ["uint8", "int32"])
def test_antialiased_integers_are_rounded(dtype, mode):
    x = np.random.default_rng(2).integers(0, 100, (1, 1, 9, 9)).astype(dtype)
    arrays = {"x": x, "": x, "s": np.float32([1, 1, 0.6, 0.6])}
    model = network("Resize", arrays, ["y"], ["s"], mode=mode, antialias=1)
    golden = ReferenceEvaluator(model).run(None, {"x": x})[0]
    np.testing.assert_array_equal(np.asarray(tvmrt.load(model, cache=False)(x)), golden)

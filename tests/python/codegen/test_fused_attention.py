"""Attention is one step on hosts, with the bits of the separate steps, and without memory for the
scores; compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import tvmrt

HEAD = '<ir_version: 10, opset_import: ["" : 21]> g '
INPUTS = (
    "(float[b,2,m,8] q, float[b,2,n,8] k, float[b,2,n,12] v, float[b,1,1,n] mask,"
    " float[1,1,m,n] causal)"
)
SCORES = "t = Transpose<perm = [0, 1, 3, 2]>(k) s = MatMul(q, t)"
SCALED = f"{SCORES} c = Constant<value_float = 0.3>() d = Mul(s, c)"
FORMS = {
    "plain": f"{SCORES} p = Softmax<axis = -1>(s) y = MatMul(p, v)",
    "scaled": f"{SCALED} p = Softmax<axis = -1>(d) y = MatMul(p, v)",
    "masked": f"{SCALED} e = Add(d, mask) p = Softmax<axis = -1>(e) y = MatMul(p, v)",
    "causal": f"{SCALED} e = Add(d, causal) p = Softmax<axis = -1>(e) y = MatMul(p, v)",
    "without NaN": f"{SCALED} e = Add(d, mask) p = Softmax<axis = -1>(e) nan = IsNaN(p)"
    " zero = Constant<value_float = 0.0>() w = Where(nan, zero, p) o = MatMul(w, v) y = Tanh(o)",
}


SIZES = ((1, 1, 9), (2, 4, 70), (1, 5, 300), (3, 37, 1), (1, 261, 555), (2, 0, 3))


def network(body: str) -> onnx.ModelProto:
    """Return a network with the inputs that its nodes read."""
    model = parser.parse_model(f"{HEAD} {INPUTS} => (float[b,2,m,12] y) {{ {body} }}")
    read = {name for node in model.graph.node for name in node.input}
    inputs = [each for each in model.graph.input if each.name in read]
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return model


def inputs_of(model: onnx.ModelProto, batch: int, queries: int, keys: int) -> dict[str, np.ndarray]:
    """Return inputs; all keys of the first mask and all keys after a query are hidden."""
    rng = np.random.default_rng(queries)
    sizes = {"b": batch, "m": queries, "n": keys}
    tensors = {}
    for each in model.graph.input:
        shape = [sizes.get(d.dim_param, d.dim_value) for d in each.type.tensor_type.shape.dim]
        tensors[each.name] = rng.normal(size=shape).astype(np.float32)
    if "causal" in tensors:
        later = np.triu(np.ones((queries, keys), bool), 1)
        tensors["causal"][:, :, later] = -np.inf
    if "mask" in tensors:
        tensors["mask"][:1] = -np.inf
    return tensors


@pytest.mark.everyday(1)
@pytest.mark.parametrize("form", FORMS)
def test_bits_of_the_separate_steps_at_any_size(form: str) -> None:
    """Sizes with few rows, several parts of the scores, remainders of tiles, and none."""
    model = network(FORMS[form])
    fused = tvmrt.load(model, cache=False)
    separate = tvmrt.load(model, cache=False, row_chains=False)
    reference = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for sizes in SIZES:
        tensors = inputs_of(model, *sizes)
        y = fused(tensors)["y"]
        np.testing.assert_array_equal(y, separate(tensors)["y"])
        np.testing.assert_array_equal(y, fused.with_threads(3)(tensors)["y"])
        (expected,) = reference.run(None, tensors)
        np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("form", FORMS)
def test_scores_take_no_memory(form: str) -> None:
    summary = tvmrt.compile(network(FORMS[form]), dims={"b": 2, "m": 300, "n": 500}).summary
    (operator,) = summary.operators
    assert {"MatMul_s", "Softmax_p"} < {*operator.onnx_nodes}
    assert summary.arena_bytes == 0


@pytest.mark.parametrize(
    "body",
    [
        f"{SCORES} p = Softmax<axis = -1>(s) o = MatMul(p, v) r = ReduceMax(p) y = Add(o, r)",
        f"{SCORES} p = Softmax<axis = 2>(s) y = MatMul(p, v)",
        f"{SCORES} p = LogSoftmax<axis = -1>(s) y = MatMul(p, v)",
        f"{SCORES} u = Transpose<perm = [0, 1, 3, 2]>(mask) e = Add(s, u)"
        " p = Softmax<axis = -1>(e) y = MatMul(p, v)",
    ],
    ids=["scores that others read", "softmax of columns", "logarithms", "mask of queries"],
)
def test_other_softmaxes_between_matmuls(body: str) -> None:
    """These stay separate steps."""
    model = network(body)
    tensors = inputs_of(model, 2, 40, 40)
    (expected,) = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    ).run(None, tensors)
    y = tvmrt.load(model, cache=False)(tensors)["y"]
    np.testing.assert_allclose(y, expected, rtol=2e-5, atol=2e-5)

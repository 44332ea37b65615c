"""Reductions over axes that are no neighbours, of tensors whose other axes are dynamic from size 1.

The reference is onnxruntime.
"""

from __future__ import annotations

from itertools import chain, combinations

import numpy as np
import pytest
from dynamic_networks import FLOAT, Draft

import tvmrt

runtime = pytest.importorskip("onnxruntime")

OPERATORS = (
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
)  # fmt: skip
SHAPES = (["batch", "length", "channels"], [2, "n", "n"], ["n", "c", 3, "w"])


def reductions(op: str, shape: list) -> tuple[Draft, list[str]]:
    """Reduce over every set of axes; the axes are an attribute or an operand."""
    d, results = Draft(), []
    ranks = range(1, len(shape) + 1)
    for axes in chain.from_iterable(combinations(range(len(shape)), k) for k in ranks):
        if op == "ReduceSum":
            results.append(d.node(op, ["x", d.constant(axes, np.int64)], keepdims=len(axes) % 2))
        else:
            results.append(d.node(op, ["x"], axes=list(axes), keepdims=len(axes) % 2))
    return d, results


def check(op: str, shape: list) -> None:
    d, results = reductions(op, shape)
    model = d.model({"x": (FLOAT, shape)}, {y: FLOAT for y in results})
    names = list(dict.fromkeys(n for n in shape if isinstance(n, str)))
    network = tvmrt.load(model, dims={name: (1, 6) for name in names}, cache=False)
    session = runtime.InferenceSession(model.SerializeToString())
    for sizes in ((1, 1, 1), (6, 6, 6), (1, 6, 2), (6, 1, 3), (3, 4, 1)):
        known = dict(zip(names, sizes))
        rng = np.random.default_rng(sum(sizes))
        x = rng.uniform(0.5, 1.5, [known.get(n, n) for n in shape]).astype(np.float32)
        for name, right in zip(results, session.run(results, {"x": x})):
            found = network({"x": x})[name]
            assert found.shape == right.shape, (name, sizes)
            np.testing.assert_allclose(found, right, 1e-5, 1e-5, err_msg=f"{name} {sizes}")


def test_means_over_separate_axes():
    check("ReduceMean", SHAPES[0])


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("op", OPERATORS)
def test_every_reduction_over_separate_axes(op, shape):
    check(op, shape)

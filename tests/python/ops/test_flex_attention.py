"""Errors of FlexAttention, which is imported as its function; the onnx package's node tests cover
its results."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx_graph import model

from tvmrt.compiler.frontend.onnx import import_model
from tvmrt.error import UnsupportedError

HEADS = np.ones((1, 4, 3, 2), np.float32)


def _graph(op: str, **attributes):
    info = helper.make_tensor_value_info
    ends = [info(name, TensorProto.FLOAT, [1, 4, 3, 3]) for name in ("scores", "changed")]
    node = helper.make_node(op, ["scores"], ["changed"], "change", **attributes)
    return helper.make_graph([node], "modifier", ends[:1], ends[1:])


REFUSED = {
    "heads": ({"k": HEADS[:, :3], "v": HEADS[:, :3]}, {}, ValueError, "Reshape_KAligned"),
    "axes": ({"q": HEADS[0]}, {}, ValueError, "Reshape_KAligned"),
    "type": ({}, {"score_mod": _graph("Cast", to=TensorProto.DOUBLE)}, ValueError,
             "is float32, expected float64"),
    "node": ({}, {"prob_mod": _graph("NoSuchOperator")}, UnsupportedError, "NoSuchOperator"),
}  # fmt: skip


@pytest.mark.parametrize("given, attributes, kind, words", REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(given, attributes, kind, words):
    arrays = {"q": HEADS, "k": HEADS, "v": HEADS, **given}
    domain = "ai.onnx.preview"
    node = helper.make_node(
        "FlexAttention", list("qkv"), ["y"], "flex", domain=domain, **attributes
    )
    with pytest.raises(kind, match=words):
        import_model(model([node], arrays, ["y"], opset=23, domains=[domain]))

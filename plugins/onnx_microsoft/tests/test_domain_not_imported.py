"""Test files that use the domain in nodes without importing it, as onnxruntime accepts them."""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

import tvmrt


def test_node_of_a_domain_that_is_not_imported_is_accepted():
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4]) for name in "xy"]
    node = helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")
    graph = helper.make_graph([node], "g", ends[:1], ends[1:])
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    x = np.float32([-1, -0.5, 0.5, 2])
    session = onnxruntime.InferenceSession(model.SerializeToString())
    found = tvmrt.load(model, cache=False)(x)
    np.testing.assert_allclose(found, session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-6)

"""Networks with strings, compared with onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_backend
import onnxruntime
from nn_case import IR_VERSION
from onnx import TensorProto, helper

STRING, INT64, FLOAT = TensorProto.STRING, TensorProto.INT64, TensorProto.FLOAT


def strings(*values, shape=None):
    array = np.array(values, object)
    return array if shape is None else array.reshape(shape)


def network(nodes, inputs, outputs, weights=(), opset=22) -> onnx.ModelProto:
    given = [helper.make_tensor_value_info(*each) for each in inputs]
    made = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
    graph = helper.make_graph(nodes, "strings", given, made, list(weights))
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 4)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def tensor(name, *values, shape=None):
    shape = [len(values)] if shape is None else shape
    return helper.make_tensor(name, STRING, shape, [v.encode() for v in values])


def expected(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))


def compare(model, *runs):
    """Compare each run of one library with onnxruntime."""
    compiled = onnx_backend.prepare(model)
    for feeds in runs:
        wanted, found = expected(model, feeds), compiled.run(feeds)._asdict()
        for name, array in wanted.items():
            assert found[name].shape == array.shape, name
            if array.dtype.kind == "f":
                np.testing.assert_allclose(found[name], array, rtol=1e-6, err_msg=name)
            else:
                np.testing.assert_array_equal(found[name], array, name)


def node(op, inputs, outputs, domain="", **attrs):
    outputs = outputs if isinstance(outputs, list) else [outputs]
    return helper.make_node(op, inputs, outputs, name=outputs[0], domain=domain, **attrs)

"""Helpers of the small networks of ``long_compilations``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

node, info = helper.make_node, helper.make_tensor_value_info
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Kind = Callable[[int], onnx.ModelProto]
Shape = Sequence[object]


def ints(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def model(
    nodes: Iterable[onnx.NodeProto],
    inputs: dict[str, Shape],
    outputs: dict[str, Shape],
    weights: Iterable[TensorProto] = (),
    opset: int = 17,
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """Return a network of float32 inputs and outputs by name."""
    ends = [[info(name, FLOAT, shape) for name, shape in e.items()] for e in (inputs, outputs)]
    graph = helper.make_graph(list(nodes), "g", *ends, list(weights))
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=list(functions))


def ints_scalar(name: str, value: int) -> TensorProto:
    return numpy_helper.from_array(np.array(value, np.int64), name)

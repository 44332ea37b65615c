"""onnxruntime as a fallback device: it runs ONNX nodes that tvmrt does not support.

The library must be installed (`pip install onnxruntime`) for compiling and for loading a network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmrt.compiler.sdk.devices import PackageDevice, register
from tvmrt.compiler.sdk.graph import DTYPES, Node, TensorType, Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnxruntime.foreign_nodes import IR_VERSION, nodes_to_onnx

PROVIDERS = ["CPUExecutionProvider"]
_MAX_TRIAL_ELEMENTS = (
    1 << 24
)  # maximum operand elements of a node that is run to find result shapes


@register
class OnnxRuntime(PackageDevice):
    """Operators that tvmrt does not support, run by onnxruntime's Python package on the CPU."""

    name = "onnxruntime"

    def supports(self, node: Node) -> str | None:
        """Accept ``onnx_node`` only; tvmrt computes its own operators."""
        return None if node.op == "onnx_node" else f"tvmrt has an operator for it: {node.op}"

    def adopt(
        self, node: Any, opsets: Mapping[str, int], inputs: Sequence[Value | None]
    ) -> list[TensorType]:
        """Return the result types that onnxruntime infers, or finds by running the node."""
        if absent := self.absent():
            raise UnsupportedError(absent)
        session = _open(_one_node_model(node, opsets, inputs))
        outputs = session.get_outputs()
        shapes = [output.shape for output in outputs]
        if not all(_is_known(shape) for shape in shapes):
            shapes = _infer_shapes_by_running(session, inputs)
        return [
            TensorType(tuple(s), DTYPES[_element_type(o.type)]) for o, s in zip(outputs, shapes)
        ]

    def _prepare(self, text: str, constants: bytes, options: str) -> Any:
        return _RegionContext(self._load_once(text, constants, options)).run

    def _load(self, region: dict[str, Any], constants: bytes, options: dict[str, Any]) -> _Session:
        return _Session(region, constants, options)


def _open(model: onnx.ModelProto, threads: int = 0) -> Any:
    """Open a session; an error of onnxruntime becomes UnsupportedError with its reason."""
    try:
        import onnxruntime
    except ImportError as problem:
        raise RuntimeError(
            "the package onnxruntime is not installed; pip install onnxruntime"
        ) from problem
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 4  # errors are raised, so they need no log
    settings.intra_op_num_threads = threads
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), settings, PROVIDERS)
    except Exception as problem:  # onnxruntime's errors share no specific base class
        raise UnsupportedError(f"it rejects the node ({_first_line(problem)})") from problem


def _first_line(problem: Exception) -> str:
    return str(problem).strip().split("\n", 1)[0][:300]


def _one_node_model(
    node: onnx.NodeProto, opsets: Mapping[str, int], inputs: Sequence[Value | None]
) -> onnx.ModelProto:
    """Return a model of one node; its constants are initializers, visible to shape inference."""
    inputs_of_node, constants = [], []
    for i, value in enumerate(inputs):
        if value is None:
            continue
        if value.data is not None:
            constants.append(numpy_helper.from_array(np.asarray(value.data), f"i{i}"))
        else:
            code = helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype.numpy))
            inputs_of_node.append(helper.make_tensor_value_info(f"i{i}", code, list(value.shape)))
    results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "one_node", inputs_of_node, results, constants)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return helper.make_model(graph, opset_imports=imports, ir_version=IR_VERSION)


def _is_known(shape: Sequence[Any]) -> bool:
    """Return whether a shape is known; an empty one may mean a scalar or an unknown shape."""
    return bool(shape) and all(isinstance(n, int) and n >= 0 for n in shape)


def _element_type(text: str) -> str:
    """Return the element type in an onnxruntime type such as ``tensor(float)``."""
    result = text[len("tensor(") : -1] if text.startswith("tensor(") else ""
    result = {"float": "float32", "double": "float64"}.get(result, result)
    if result not in DTYPES or result in ("float16", "bfloat16"):
        raise UnsupportedError(f"one of its outputs is {text}")
    return result


def _infer_shapes_by_running(session: Any, inputs: Sequence[Value | None]) -> list[tuple[int, ...]]:
    """Find the result shapes by two runs with different inputs, which must agree."""
    rows = [(f"i{i}", v) for i, v in enumerate(inputs) if v is not None and v.data is None]
    if sum(v.type.size for _, v in rows) > _MAX_TRIAL_ELEMENTS:
        raise UnsupportedError("its output shapes are not declared, and it is large")
    rng = np.random.default_rng(0)
    shapes_of_runs = []
    for most in (1, 2):  # zeros, then zeros and ones
        feeds = {name: rng.integers(0, most, v.shape).astype(v.dtype.numpy) for name, v in rows}
        try:
            shapes_of_runs.append([np.shape(array) for array in session.run(None, feeds)])
        except Exception as problem:
            raise UnsupportedError(
                f"its output shapes are neither declared nor inferred ({_first_line(problem)})"
            ) from problem
    if shapes_of_runs[0] != shapes_of_runs[1]:
        raise UnsupportedError("its output shapes depend on data")
    return shapes_of_runs[0]


class _Session:
    """onnxruntime session of a region, shared by its contexts."""

    def __init__(self, region: dict, constants: bytes, options: dict) -> None:
        self.session = _open(nodes_to_onnx(region, constants), int(options.get("threads", 0)))
        boundaries = [(f"t{i}", region["tensors"][i]) for i in region["inputs"]]
        self.inputs = [(name, _numpy(row)) for name, row in boundaries]
        boundaries = [(f"t{i}", region["tensors"][i]) for i in region["outputs"]]
        self.outputs = [(name, _numpy(row)) for name, row in boundaries]


def _numpy(row: Mapping[str, Any]) -> Any:
    return np.dtype(DTYPES[row["dtype"]].numpy).type


class _RegionContext:
    """Region in one context; inputs are read and outputs written in place."""

    def __init__(self, session: _Session) -> None:
        self._session = session
        self._binding = session.session.io_binding()
        self._bound_addresses = [0] * (len(session.inputs) + len(session.outputs))

    def run(self, symbol: str, *tensors: Any) -> None:
        for index, tensor in enumerate(tensors):
            if (
                tensor.data_address != self._bound_addresses[index]
            ):  # executors rarely move their tensors
                self._bind(index, tensor)
        self._session.session.run_with_iobinding(self._binding)

    def _bind(self, index: int, tensor: Any) -> None:
        inputs = self._session.inputs
        is_input = index < len(inputs)
        name, kind = inputs[index] if is_input else self._session.outputs[index - len(inputs)]
        bind = self._binding.bind_input if is_input else self._binding.bind_output
        bind(name, "cpu", 0, kind, list(tensor.shape), tensor.data_address)
        self._bound_addresses[index] = tensor.data_address

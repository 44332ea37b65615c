"""Regions as ONNX models, for libraries that read files of that format."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmrt.error import UnsupportedError
from tvmrt.ir import DTYPES

from .region_json import constants_of

OPSET = 18
IR_VERSION = 9

# Operators that are ONNX's by another name, with the same operands and no attributes.
PLAIN = {
    "abs": "Abs", "add": "Add", "ceil": "Ceil", "cos": "Cos", "div": "Div", "erf": "Erf",
    "exp": "Exp", "floor": "Floor", "identity": "Identity", "log": "Log", "max": "Max",
    "min": "Min", "mul": "Mul", "neg": "Neg", "pow": "Pow", "prelu": "PRelu",
    "reciprocal": "Reciprocal", "relu": "Relu", "sigmoid": "Sigmoid", "sin": "Sin",
    "softplus": "Softplus", "sqrt": "Sqrt", "sub": "Sub", "tanh": "Tanh",
}  # fmt: skip
REDUCTIONS = {
    "reduce_max": "ReduceMax", "reduce_mean": "ReduceMean", "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd", "reduce_sum": "ReduceSum",
}  # fmt: skip


class _Writer:
    """The nodes and constants of a model under construction; a tensor's name is its number."""

    def __init__(self, region: Mapping[str, Any]) -> None:
        self.region = region
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._made = 0

    def shape(self, number: int) -> list[int]:
        return self.region["tensors"][number]["shape"]

    def fresh(self) -> str:
        self._made += 1
        return f"v{self._made}"

    def numbers(self, values: Sequence[int]) -> str:
        """A constant of integers, by its name."""
        name = self.fresh()
        self.constants.append(numpy_helper.from_array(np.array(values, np.int64), name))
        return name

    def add(self, op: str, inputs: Sequence[str], output: str, **attributes: Any) -> None:
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))


def _plain(w: _Writer, node: Mapping, inputs: list[str], output: str) -> None:
    w.add(PLAIN[node["op"]], inputs, output)


def _matmul(w: _Writer, node: Mapping, inputs: list[str], output: str) -> None:
    product = output if len(inputs) < 3 or not inputs[2] else w.fresh()
    w.add("MatMul", inputs[:2], product)
    if product != output:
        w.add("Add", [product, inputs[2]], output)


def _window(attrs: Mapping) -> dict[str, list[int]]:
    pads = [*attrs["pads_before"], *attrs["pads_after"]]
    return {"strides": attrs["strides"], "dilations": attrs["dilations"], "pads": pads}


def _conv(w: _Writer, node: Mapping, inputs: list[str], output: str) -> None:
    attrs = node["attrs"]
    w.add("Conv", inputs, output, group=attrs["groups"], **_window(attrs))


def _pool(w: _Writer, node: Mapping, inputs: list[str], output: str) -> None:
    attrs = node["attrs"]
    window = {"kernel_shape": attrs["kernel"], **_window(attrs)}
    if node["op"] == "avg_pool" and any(step != 1 for step in window.pop("dilations")):
        raise UnsupportedError(f"{node['name']}: its windows are dilated")
    x, places = w.shape(node["inputs"][0])[2:], w.shape(node["outputs"][0])[2:]
    for i, (n, out) in enumerate(zip(x, places)):
        reach = attrs["dilations"][i] * (attrs["kernel"][i] - 1) + 1
        room = n + attrs["pads_before"][i] + attrs["pads_after"][i] - reach
        if room // attrs["strides"][i] + 1 != out:
            raise UnsupportedError(f"{node['name']}: its last window lies beyond the padding")
    if node["op"] == "max_pool":
        w.add("MaxPool", inputs, output, **window)
    else:
        w.add("AveragePool", inputs, output, count_include_pad=attrs["count_pads"], **window)


def _reshape(w: _Writer, node: Mapping, inputs: list[str], output: str) -> None:
    w.add("Reshape", [inputs[0], w.numbers(w.shape(node["outputs"][0]))], output, allowzero=1)


def _expand(w: _Writer, node: Mapping, inputs: list[str], output: str) -> None:
    w.add("Expand", [inputs[0], w.numbers(w.shape(node["outputs"][0]))], output)


def _transpose(w: _Writer, node: Mapping, inputs: list[str], output: str) -> None:
    w.add("Transpose", inputs, output, perm=node["attrs"]["perm"])


def _concat(w: _Writer, node: Mapping, inputs: list[str], output: str) -> None:
    w.add("Concat", inputs, output, axis=node["attrs"]["axis"])


def _slice(w: _Writer, node: Mapping, inputs: list[str], output: str) -> None:
    starts, steps = node["attrs"]["starts"], node["attrs"]["steps"]
    if any(step < 1 for step in steps):
        raise UnsupportedError(f"{node['name']}: it goes backwards")
    ends = [a + (n - 1) * s + 1 for a, n, s in zip(starts, w.shape(node["outputs"][0]), steps)]
    rows = [starts, ends, range(len(starts)), steps]
    w.add("Slice", [inputs[0], *(w.numbers(list(row)) for row in rows)], output)


def _pad(w: _Writer, node: Mapping, inputs: list[str], output: str) -> None:
    attrs = node["attrs"]
    pads = w.numbers([*attrs["before"], *attrs["after"]])
    value = inputs[1:2] if attrs["mode"] == "constant" else []
    if value and value[0] and w.shape(node["inputs"][1]):
        raise UnsupportedError(f"{node['name']}: its value is no scalar")
    w.add("Pad", [inputs[0], pads, *value], output, mode=attrs["mode"])


def _reduce(w: _Writer, node: Mapping, inputs: list[str], output: str) -> None:
    attrs = node["attrs"]
    axes = w.numbers(attrs["axes"])
    w.add(REDUCTIONS[node["op"]], [inputs[0], axes], output, keepdims=attrs["keepdims"])


def _softmax(w: _Writer, node: Mapping, inputs: list[str], output: str) -> None:
    attrs = node["attrs"]
    w.add("LogSoftmax" if attrs["log"] else "Softmax", inputs, output, axis=attrs["axis"])


Form = Callable[[_Writer, Mapping, "list[str]", str], None]
FORMS: dict[str, Form] = {
    **dict.fromkeys(PLAIN, _plain), **dict.fromkeys(REDUCTIONS, _reduce),
    "avg_pool": _pool, "concat": _concat, "conv": _conv, "expand": _expand, "matmul": _matmul,
    "max_pool": _pool, "pad": _pad, "reshape": _reshape, "slice": _slice, "softmax": _softmax,
    "transpose": _transpose,
}  # fmt: skip


def region_to_onnx(region: Mapping[str, Any], constants: bytes) -> onnx.ModelProto:
    """A region as an ONNX model of opset 18, whose inputs and outputs follow those of the region.

    Parameters
    ----------
    region
        The JSON of a region, as ``pre_run`` of a device gets it; shapes are those in it.
    constants
        The bytes that its constants' offsets count in.

    Raises
    ------
    UnsupportedError
        For an operator, or a use of it, that has no form in ONNX here; the text names the node, and
        ``place`` is its number.
    """
    writer = _Writer(region)
    for number, array in constants_of(region, constants).items():
        writer.constants.append(numpy_helper.from_array(array, f"t{number}"))
    for place, node in enumerate(region["nodes"]):
        try:
            _write_node(writer, node)
        except UnsupportedError as problem:
            problem.place = place
            raise
    graph = helper.make_graph(
        writer.nodes,
        region["name"],
        [_info(region, number) for number in region["inputs"]],
        [_info(region, number) for number in region["outputs"]],
        writer.constants,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _write_node(writer: _Writer, node: Mapping[str, Any]) -> None:
    form = FORMS.get(node["op"])
    if form is None or len(node["outputs"]) != 1:
        raise UnsupportedError(f"{node['name']}: {node['op']} has no form in ONNX here")
    inputs = [f"t{i}" if i >= 0 else "" for i in node["inputs"]]
    form(writer, node, inputs, f"t{node['outputs'][0]}")


def _info(region: Mapping[str, Any], number: int) -> onnx.ValueInfoProto:
    row = region["tensors"][number]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(DTYPES[row["dtype"]].numpy))
    return helper.make_tensor_value_info(f"t{number}", kind, row["shape"])

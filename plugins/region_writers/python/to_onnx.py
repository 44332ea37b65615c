"""Conversion of float32 regions to ONNX models, for libraries that read them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import defs, helper

from tvmrt.compiler.sdk.graph import OPS
from tvmrt.error import UnsupportedError
from tvmrt.plugins.region_writers.onnx_writer import Form, Writer, pool, tensor_info, window

OPSET = 18
IR_VERSION = 9


def _plain(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    """Write an operator by the name and the attributes that its declaration has in ONNX."""
    operator, operands, attributes = OPS[node["op"]], list(inputs), {}
    for rule in operator.contract.attributes.values():
        value = node["attrs"].get(rule.name)
        if rule.onnx_operand is not None:
            operands.insert(rule.onnx_operand, w.integers(value))
        elif value is not None:
            attributes[rule.onnx_name] = value
    w.add(operator.onnx.name, operands, output, **attributes)


def _matmul(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    product = output if len(inputs) < 3 or not inputs[2] else w.fresh()
    w.add("MatMul", inputs[:2], product)
    if product != output:
        w.add("Add", [product, inputs[2]], output)


def _conv(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    attrs = node["attrs"]
    w.add("Conv", inputs, output, group=attrs["groups"], **window(attrs))


def _conv_transpose(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    """Write ConvTranspose. A result smaller than the reach of the windows becomes padding at the
    end, a larger one becomes output_padding."""
    attrs = node["attrs"]
    x, kernel = w.shape(node["inputs"][0])[2:], w.shape(node["inputs"][1])[2:]
    given = (attrs[name] for name in ("strides", "dilations", "pads_before", "out_spatial"))
    after = [
        (n - 1) * stride + (k - 1) * dilation + 1 - before - out
        for n, k, stride, dilation, before, out in zip(x, kernel, *given)
    ]
    if any(-n >= stride for n, stride in zip(after, attrs["strides"])):
        raise UnsupportedError(f"{node['name']}: its result exceeds the windows by a stride")
    attributes = window({**attrs, "pads_after": [max(n, 0) for n in after]})
    attributes["output_padding"] = [max(-n, 0) for n in after]
    w.add("ConvTranspose", inputs, output, group=attrs["groups"], **attributes)


def _gather(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    if node["inputs"][1] not in w.arrays:
        raise UnsupportedError(f"{node['name']}: its indices are not constant")
    w.add("Gather", inputs, output, axis=node["attrs"]["axis"])


def _reshape(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    w.add("Reshape", [inputs[0], w.integers(w.shape(node["outputs"][0]))], output, allowzero=1)


def _expand(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    w.add("Expand", [inputs[0], w.integers(w.shape(node["outputs"][0]))], output)


def _pick(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    """Write Resize if its float32 scale selects the same elements, otherwise Gather nodes."""
    axes, indices = node["attrs"]["axes"], [w.arrays[i] for i in node["inputs"][1:]]
    x, y = w.shape(node["inputs"][0]), w.shape(node["outputs"][0])
    steps = {axis: np.arange(y[axis]) * x[axis] // max(y[axis], 1) for axis in axes}
    whole = all(_is_exact_scale(x[axis], y[axis]) for axis in axes)
    plain = all(np.array_equal(row, steps[axis]) for axis, row in zip(axes, indices))
    if len(x) == 4 and whole and plain:
        how = {"mode": "nearest", "nearest_mode": "floor"}
        how["coordinate_transformation_mode"] = "asymmetric"
        w.add("Resize", [inputs[0], "", "", w.integers(y)], output, **how)
        return
    taken = inputs[0]
    for i, (axis, row) in enumerate(zip(axes, indices)):
        result = output if i + 1 == len(indices) else w.fresh()
        w.add("Gather", [taken, w.constant(row)], result, axis=axis)
        taken = result


def _is_exact_scale(extent: int, out: int) -> bool:
    """Return whether source coordinates by out / extent in float32 round down exactly: the ratio is
    an integer, or 1/2, 1/4 and so on."""
    if extent == 0 or out == 0:
        return False
    step = extent // out
    return out % extent == 0 or (extent % out == 0 and step & (step - 1) == 0)


def _slice(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    starts, steps = node["attrs"]["starts"], node["attrs"]["steps"]
    if any(step < 1 for step in steps):
        raise UnsupportedError(f"{node['name']}: its step is negative")
    ends = [a + (n - 1) * s + 1 for a, n, s in zip(starts, w.shape(node["outputs"][0]), steps)]
    rows = [starts, ends, range(len(starts)), steps]
    w.add("Slice", [inputs[0], *(w.integers(list(row)) for row in rows)], output)


def _pad(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    attrs = node["attrs"]
    pads = w.integers([*attrs["before"], *attrs["after"]])
    value = inputs[1:2] if attrs["mode"] == "constant" else []
    if value and value[0] and w.shape(node["inputs"][1]):
        raise UnsupportedError(f"{node['name']}: its value is not a scalar")
    w.add("Pad", [inputs[0], pads, *value], output, mode=attrs["mode"])


def _softmax(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    attrs = node["attrs"]
    w.add("LogSoftmax" if attrs.get("log") else "Softmax", inputs, output, axis=attrs["axis"])


FORMS: dict[str, Form] = {
    "avg_pool": pool, "conv": _conv, "conv_transpose": _conv_transpose, "expand": _expand,
    "gather": _gather, "matmul": _matmul, "max_pool": pool, "pad": _pad, "pick": _pick,
    "reshape": _reshape, "slice": _slice, "softmax": _softmax,
}  # fmt: skip


@cache
def form_of(op: str) -> Form | None:
    """Return the function that writes an operator as ONNX; None if none does."""
    operator = OPS.get(op)
    name = operator and operator.onnx
    if op in FORMS or operator is None or name is None or name.domain:
        return FORMS.get(op)
    # one of several operators may compute more element types than ONNX's
    has_other_choices = any(a.onnx_choices for a in operator.contract.attributes.values())
    is_plain = not name.key and not has_other_choices and defs.has(name.name, OPSET, "")
    return _plain if is_plain else None


def region_to_onnx(region: Mapping[str, Any], constants: bytes) -> onnx.ModelProto:
    """Convert a region to an ONNX model of opset 18, with inputs and outputs in the same order.

    Parameters
    ----------
    region
        JSON of the region, as passed to a device's ``pre_run``; shapes are taken from it.
    constants
        Bytes that the offsets of the region's constants refer to.

    Raises
    ------
    UnsupportedError
        For an operator, or a use of it, that cannot be written as ONNX. The text names the node,
        and ``place`` is its index.
    """
    writer = Writer(region, constants)
    for index, node in enumerate(region["nodes"]):
        try:
            _write_node(writer, node)
        except UnsupportedError as problem:
            problem.node_index = index
            raise
    graph = helper.make_graph(
        writer.nodes,
        region["name"],
        [tensor_info(region, tensor_id) for tensor_id in region["inputs"]],
        [tensor_info(region, tensor_id) for tensor_id in region["outputs"]],
        writer.constants(),
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)


def _write_node(writer: Writer, node: Mapping[str, Any]) -> None:
    form = form_of(node["op"])
    if form is None or len(node["outputs"]) != 1:
        raise UnsupportedError(f"{node['name']}: {node['op']} cannot be written as ONNX")
    inputs = [f"t{i}" if i >= 0 else "" for i in node["inputs"]]
    form(writer, node, inputs, f"t{node['outputs'][0]}")

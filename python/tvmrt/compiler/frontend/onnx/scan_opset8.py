"""Scan of opset 8: a Scan of opset 9 per batch element; the batch is the first axis of operands."""

from __future__ import annotations

from collections.abc import Callable

import onnx
from onnx import helper

from tvmrt.compiler.ir import Value
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option

from .context import NodeContext
from .sequences import stack_iterations


def import_batched_scan(
    ctx: NodeContext, scan: Callable[[NodeContext], list[Value | None]]
) -> list:
    """Import a batched Scan by ``scan``, the importer of Scan without a batch."""
    lengths, operands = ctx.input(0), ctx.inputs[1:]
    if lengths is not None:
        raise UnsupportedError(
            "the batch elements have different scan lengths; convert the model to opset 9"
        )
    count = ctx.required(1).shape[0] if operands else 0
    if not isinstance(count, int) or count < 1:
        raise UnsupportedError(
            f"Scan of opset 8 over a batch of {count!r}; fix it with {option('shapes')}"
        )
    ctx.check_table_size(count, "the batch")
    node, columns = _opset9_node(ctx), []
    for index in range(count):
        rows = [None if v is None else ctx.element(v, 0, index) for v in operands]
        inner = NodeContext(node, ctx.name, rows, 9, ctx.builder, ctx.importer)
        inner.scope = ctx.scope
        columns.append(scan(inner))
    return [stack_iterations(ctx, values, 0) for values in zip(*columns)]


def _opset9_node(ctx: NodeContext) -> onnx.NodeProto:
    """Return the equivalent node of opset 9 for one batch element."""
    node = onnx.NodeProto()
    node.CopyFrom(ctx.node)
    del node.input[0], node.attribute[:]
    for attribute in ctx.node.attribute:
        if attribute.name == "directions":
            node.attribute.append(
                helper.make_attribute("scan_input_directions", list(attribute.ints))
            )
        else:
            node.attribute.append(attribute)
    return node

"""Gather rows of a table of small elements before widening them, instead of widening the table.

An embedding in int4 has tens of thousands of rows, and a run reads a few of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.extent import Whole
from tvmrt.compiler.ir.small import in_memory

from .rewrite import rewrite

SIGNED = {"int4": 8, "int2": 2}  # with the sign bit
UNSIGNED = ("uint4", "uint2")
SCALING = ("dequantize", "mul")  # a table with parameters, which are the later operands


def gather_narrow(graph: Graph) -> None:
    """Move each ``gather`` before the nodes that compute its table from a small constant (widening,
    dequantisation, block scales); bit-packed tables are gathered as whole bytes. Results are
    unchanged."""
    rewrite(graph, _taken_first)


def _taken_first(b: Builder, node: Node) -> Value | None:
    if node.op != "gather" or not _is_made_of_table(node.inputs[0], node.attrs["axis"]):
        return None
    return _Rows(b, node).of(node.inputs[0])


def _is_made_of_table(value: Value, axis: int) -> bool:
    """Return whether a value is computed row by row, along the axis, from a small table."""
    made = value.producer
    if made is None:
        return False
    x = made.inputs[0] if made.inputs else None
    if made.op == "widen" and x.is_constant:
        kind = x.dtype.name
        return not x.dtype.is_packed or kind in SIGNED or kind in UNSIGNED
    if made.op == "reshape":
        same = x.shape[: axis + 1] == value.shape[: axis + 1]
    else:
        parameters = [p for p in made.inputs[1:] if p is not None]
        same = made.op in SCALING and x.shape == value.shape
        same = same and all(_has_rows(p, x, axis) for p in parameters)
    return same and _is_made_of_table(x, axis)


def _has_rows(parameter: Value, x: Value, axis: int) -> bool:
    """Return whether a parameter is a scalar, or has one or all rows along the axis."""
    if not parameter.shape:
        return True
    fits = len(parameter.shape) == len(x.shape)
    return fits and parameter.shape[axis] in (1, x.shape[axis])


class _Rows:
    """Rewriter of the operators before one gather."""

    def __init__(self, b: Builder, node: Node) -> None:
        self.b, self.name = b, node.name
        self.indices, self.axis = node.inputs[1], node.attrs["axis"]

    def emit(self, op: str, inputs: list[Value | None], **attrs: Any) -> Value:
        return self.b.emit(op, inputs, self.name, **attrs)

    def taken(self, x: Value) -> Value:
        return self.emit("gather", [x, self.indices], axis=self.axis)

    def shape(self, before: Sequence[Whole]) -> tuple[Whole, ...]:
        """Return a shape with the indices' extents in place of the axis."""
        return (*before[: self.axis], *self.indices.shape, *before[self.axis + 1 :])

    def of(self, value: Value) -> Value:
        made = value.producer
        x = made.inputs[0]
        if made.op == "widen":
            return self.widened(x, made.attrs["to"])
        if made.op == "reshape":
            return self.emit("reshape", [self.of(x)], shape=self.shape(value.shape))
        parameters = [self.parameter(p) for p in made.inputs[1:]]
        return self.emit(made.op, [self.of(x), *parameters], **made.attrs)

    def parameter(self, p: Value | None) -> Value | None:
        if p is None or not p.shape:
            return p
        if p.shape[self.axis] != 1:
            return self.taken(p)
        ones = (1,) * len(self.indices.shape)
        shape = (*p.shape[: self.axis], *ones, *p.shape[self.axis + 1 :])
        return self.emit("reshape", [p], shape=shape)

    def widened(self, table: Value, to: str) -> Value:
        kind, axis = table.dtype.name, self.axis
        if not table.dtype.is_packed:
            return self.emit("widen", [self.taken(table)], to=to)
        packed = _rows_of_bytes(table.data, axis, 8 // table.dtype.bits)
        rows = self.taken(self.b.const(packed, f"{table.name}_rows"))
        numbers = self.apart(rows, table.dtype.bits, prod(table.shape[axis + 1 :]))
        if kind in SIGNED:
            sign = self.b.const(np.int8(SIGNED[kind]), self.name)
            numbers = self.emit("cast", [numbers], to="int8")
            numbers = self.emit("sub", [self.emit("bit_xor", [numbers, sign]), sign])
        return self.emit("reshape", [numbers], shape=self.shape(table.shape))

    def apart(self, packed: Value, bits: int, width: int) -> Value:
        """Unpack bytes to uint8 numbers along the last axis, lowest bits first."""
        column = self.emit("reshape", [packed], shape=(*packed.shape, 1))
        shifts = self.b.const(np.arange(0, 8, bits, dtype=np.uint8), self.name)
        mask = self.b.const(np.uint8((1 << bits) - 1), self.name)
        numbers = self.emit("bit_and", [self.emit("shift_right", [column, shifts]), mask])
        whole = packed.shape[-1] * (8 // bits)
        numbers = self.emit("reshape", [numbers], shape=(*packed.shape[:-1], whole))
        if whole == width:
            return numbers
        rank, sizes = len(packed.shape), (*packed.shape[:-1], width)
        return self.emit("slice", [numbers], starts=(0,) * rank, steps=(1,) * rank, sizes=sizes)


def _rows_of_bytes(table: np.ndarray, axis: int, each: int) -> np.ndarray:
    """Return [..., extent of the axis, bytes]: the later axes, padded to whole bytes."""
    width = prod(table.shape[axis + 1 :])
    rows = table.reshape(*table.shape[: axis + 1], width)
    spare = [(0, 0)] * (axis + 1) + [(0, -width % each)]
    filled = np.pad(rows.view(np.uint8), spare).view(table.dtype)
    return in_memory(filled).reshape(*table.shape[: axis + 1], -1)

"""Gather rows of a table of small elements before widening them, instead of widening the table.

An embedding in int4 has tens of thousands of rows, and a run reads a few of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.low_bit_types import to_memory_format
from tvmrt.compiler.ir.sizes import SymInt

from .rewrite import at, rewrite

SIGNED = {"int4": 8, "int2": 2}  # with the sign bit
UNSIGNED = ("uint4", "uint2")


def gather_before_widen(graph: Graph) -> None:
    """Move each ``gather`` before the nodes that compute its table from a small constant (widening,
    dequantisation, block scales); bit-packed tables are gathered as whole bytes. Results are
    unchanged."""
    rewrite(graph, _gather_first)


@at("gather")
def _gather_first(b: Builder, node: Node) -> Value | None:
    if not _is_made_of_table(node.inputs[0], node.attrs["axis"]):
        return None
    return _GatherRewriter(b, node).of(node.inputs[0])


def _is_made_of_table(value: Value, axis: int) -> bool:
    """Return whether a value is computed row by row, along the axis, from a small table."""
    node = value.producer
    rule = None if node is None else _RULES.get(node.op)
    return rule is not None and rule.keeps_rows(node, axis)


def _widens_table(node: Node, axis: int) -> bool:
    table = node.inputs[0]
    is_known = not table.dtype.is_packed or table.dtype.name in (*SIGNED, *UNSIGNED)
    return table.is_constant and is_known


def _reshapes_rows(node: Node, axis: int) -> bool:
    x = node.inputs[0]
    same = x.shape[: axis + 1] == node.output.shape[: axis + 1]
    return same and _is_made_of_table(x, axis)


def _scales_rows(node: Node, axis: int) -> bool:
    x, *parameters = node.inputs
    same = x.shape == node.output.shape
    same = same and all(p is None or _has_rows(p, x, axis) for p in parameters)
    return same and _is_made_of_table(x, axis)


def _has_rows(parameter: Value, x: Value, axis: int) -> bool:
    """Return whether a parameter is a scalar, or has one or all rows along the axis."""
    if not parameter.shape:
        return True
    fits = len(parameter.shape) == len(x.shape)
    return fits and parameter.shape[axis] in (1, x.shape[axis])


class _GatherRewriter:
    """Rewriter of the operators before one gather."""

    def __init__(self, b: Builder, node: Node) -> None:
        self.b, self.name = b, node.name
        self.indices, self.axis = node.inputs[1], node.attrs["axis"]

    def emit(self, op: str, inputs: list[Value | None], **attrs: Any) -> Value:
        return self.b.emit(op, inputs, self.name, **attrs)

    def gather_rows(self, x: Value) -> Value:
        return self.emit("gather", [x, self.indices], axis=self.axis)

    def shape(self, before: Sequence[SymInt]) -> tuple[SymInt, ...]:
        """Return a shape with the indices' extents in place of the axis."""
        return (*before[: self.axis], *self.indices.shape, *before[self.axis + 1 :])

    def of(self, value: Value) -> Value:
        return _RULES[value.producer.op].rewrite(self, value.producer)

    def reshape(self, node: Node) -> Value:
        rows = self.of(node.inputs[0])
        return self.emit("reshape", [rows], shape=self.shape(node.output.shape))

    def scale(self, node: Node) -> Value:
        x, *parameters = node.inputs
        operands = [self.of(x), *map(self.parameter, parameters)]
        return self.emit(node.op, operands, **node.attrs)

    def parameter(self, p: Value | None) -> Value | None:
        if p is None or not p.shape:
            return p
        if p.shape[self.axis] != 1:
            return self.gather_rows(p)
        ones = (1,) * len(self.indices.shape)
        shape = (*p.shape[: self.axis], *ones, *p.shape[self.axis + 1 :])
        return self.emit("reshape", [p], shape=shape)

    def widen(self, node: Node) -> Value:
        table, to = node.inputs[0], node.attrs["to"]
        kind, axis = table.dtype.name, self.axis
        if not table.dtype.is_packed:
            return self.emit("widen", [self.gather_rows(table)], to=to)
        packed = _pad_to_bytes(table.data, axis, 8 // table.dtype.bits)
        rows = self.gather_rows(self.b.const(packed, f"{table.name}_rows"))
        codes = self.unpack_bits(rows, table.dtype.bits, prod(table.shape[axis + 1 :]))
        if kind in SIGNED:
            sign = self.b.const(np.int8(SIGNED[kind]), self.name)
            codes = self.emit("cast", [codes], to="int8")
            codes = self.emit("sub", [self.emit("bit_xor", [codes, sign]), sign])
        return self.emit("reshape", [codes], shape=self.shape(table.shape))

    def unpack_bits(self, packed: Value, bits: int, width: int) -> Value:
        """Unpack bytes to uint8 numbers along the last axis, lowest bits first."""
        column = self.emit("reshape", [packed], shape=(*packed.shape, 1))
        shifts = self.b.const(np.arange(0, 8, bits, dtype=np.uint8), self.name)
        mask = self.b.const(np.uint8((1 << bits) - 1), self.name)
        codes = self.emit("bit_and", [self.emit("shift_right", [column, shifts]), mask])
        all_codes = packed.shape[-1] * (8 // bits)
        codes = self.emit("reshape", [codes], shape=(*packed.shape[:-1], all_codes))
        if all_codes == width:
            return codes
        rank, sizes = len(packed.shape), (*packed.shape[:-1], width)
        return self.emit("slice", [codes], starts=(0,) * rank, steps=(1,) * rank, sizes=sizes)


def _pad_to_bytes(table: np.ndarray, axis: int, each: int) -> np.ndarray:
    """Return [..., extent of the axis, bytes]: the later axes, padded to whole bytes."""
    width = prod(table.shape[axis + 1 :])
    rows = table.reshape(*table.shape[: axis + 1], width)
    spare = [(0, 0)] * (axis + 1) + [(0, -width % each)]
    filled = np.pad(rows.view(np.uint8), spare).view(table.dtype)
    return to_memory_format(filled).reshape(*table.shape[: axis + 1], -1)


class _Rule(NamedTuple):
    """Whether a node computes its rows from those of a table, and the same on gathered rows."""

    keeps_rows: Callable[[Node, int], bool]
    rewrite: Callable[[_GatherRewriter, Node], Value]


_SCALE = _Rule(_scales_rows, _GatherRewriter.scale)
_RULES = {
    "dequantize": _SCALE,
    "mul": _SCALE,
    "reshape": _Rule(_reshapes_rows, _GatherRewriter.reshape),
    "widen": _Rule(_widens_table, _GatherRewriter.widen),
}

"""Pointers to a node's inputs, wherever they lie: operands, constants, absent ones."""

from __future__ import annotations

from tvmrt.compiler.ir.program import CHANNELS_LAST, channels_last_order

from .writer import FunctionWriter


def input_pointer(f: FunctionWriter, index: int, name: str) -> str:
    """Return an input by index: an operand, a constant in the demanded layout, or NULL."""
    lowering = f.step.lowering
    inputs = lowering.node.inputs
    value = inputs[index] if index < len(inputs) else None
    if value is None:
        return "NULL"
    if not value.is_constant:
        return f.name_read(f.step.read_values.index(value), name)
    data = value.data
    if lowering.demand(value) == CHANNELS_LAST:
        data = data.transpose(channels_last_order(data.ndim))
    return f.constant(name, data)


def input_pointers(f: FunctionWriter, *names: str, first: int = 0) -> list[str]:
    """Return the inputs from index ``first`` on, named after their roles."""
    return [input_pointer(f, i, name) for i, name in enumerate(names, first)]

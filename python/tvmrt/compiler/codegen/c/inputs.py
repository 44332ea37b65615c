"""A node's inputs, wherever they lie: operands, constants, absent ones."""

from __future__ import annotations

from tvmrt.compiler.ir import Strided, Value, dense
from tvmrt.compiler.ir.program import CHANNELS_LAST, Step, channels_last_order

from .writer import FunctionWriter


def value_pointer(f: FunctionWriter, value: Value | None, name: str) -> str:
    """Return the pointer to an operand, to a constant in the demanded layout, or NULL."""
    if value is None:
        return "NULL"
    if not value.is_constant:
        return f.name_read(f.step.read_values.index(value), name)
    data = value.data
    if f.step.lowering.demand(value) == CHANNELS_LAST:
        data = data.transpose(channels_last_order(data.ndim))
    return f.constant(name, data)


def value_layout(step: Step, value: Value) -> Strided:
    """Return the layout of an operand, or that of a row-major constant."""
    if value.is_constant:
        return dense(value.shape)
    return step.reads[step.read_values.index(value)].at


def input_pointer(f: FunctionWriter, index: int, name: str) -> str:
    """Return the pointer to an input by index, or NULL."""
    inputs = f.step.lowering.node.inputs
    return value_pointer(f, inputs[index] if index < len(inputs) else None, name)


def input_pointers(f: FunctionWriter, *names: str, first: int = 0) -> list[str]:
    """Return the pointers to the inputs from index ``first`` on, named after their roles."""
    return [input_pointer(f, i, name) for i, name in enumerate(names, first)]

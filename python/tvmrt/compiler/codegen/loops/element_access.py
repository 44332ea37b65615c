"""Access to elements in memory, including bit-packed types."""

from __future__ import annotations

from tvmrt.compiler.ir import DType
from tvmrt.compiler.ir.low_bit_types import LOW_BIT_HEADER

from ..c.formatting import GAP, call
from ..c.writer import FunctionWriter


def element(f: FunctionWriter, dtype: DType, pointer: str, index: str) -> str:
    """Return the expression of an element; for a bit-packed type, its code."""
    if not dtype.is_packed:
        return f"{pointer}[{index}]"
    f.include(LOW_BIT_HEADER)
    return call(f"tvmrt_get_{dtype.bits}bits", pointer, index)


def store(f: FunctionWriter, dtype: DType, index: str, value: str) -> None:
    """Print the assignment of ``value`` to an element of the result."""
    if not dtype.is_packed:
        f.line(f"{f.write()}[{index}] ={GAP}{value};")
        return
    f.include(LOW_BIT_HEADER)
    f.line(f"{call(f'tvmrt_put_{dtype.bits}bits', f.write(), index, value)};")

"""Elements in memory: one each place, or several a byte."""

from __future__ import annotations

from tvmrt.compiler.ir import DType
from tvmrt.compiler.ir.small import SMALL

from ..c.text import GAP, call
from ..c.writer import FunctionWriter


def element(f: FunctionWriter, dtype: DType, pointer: str, index: str) -> str:
    """The expression of an element; of a packed one, of its code."""
    if not dtype.is_packed:
        return f"{pointer}[{index}]"
    f.include(SMALL)
    return call(f"tvmrt_get_{dtype.bits}bits", pointer, index)


def store(f: FunctionWriter, dtype: DType, index: str, value: str) -> None:
    """Print that the result's element becomes ``value``."""
    if not dtype.is_packed:
        f.line(f"{f.write()}[{index}] ={GAP}{value};")
        return
    f.include(SMALL)
    f.line(f"{call(f'tvmrt_put_{dtype.bits}bits', f.write(), index, value)};")

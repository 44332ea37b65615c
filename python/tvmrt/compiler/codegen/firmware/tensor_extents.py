"""The sizes of a run of a firmware network that is called with tensors: their shapes have them.

Inputs bring the sizes; results, whose tensors bring room, are given the extents of the run. All is
compared before anything is written. Of tensors whose extents are all fixed no shape is read.
"""

from __future__ import annotations

from tvmrt.compiler.ir.extent import Extent
from tvmrt.compiler.ir.graph import TensorType
from tvmrt.compiler.ir.program import Program

from ..c.text import OUT_OF_RANGE, refusal
from . import extents

_SHAPE_OF = [
    "/* The extents of a tensor of so many axes; NULL for another. */",
    "static int64_t *shape_of(TVMValue value, int32_t ndim) {",
    "  const DLTensor *tensor = (const DLTensor *)value.v_handle;",
    "  return tensor->ndim == ndim ? tensor->shape : NULL;",
    "}",
    "",
]

Row = tuple[int, TensorType]  # place among the arguments


def function(program: Program) -> list[str]:
    """Lines of C: what the others call."""
    return _SHAPE_OF if program.dims() else []


def read(program: Program, prefix: str) -> list[str]:
    """Lines of run, behind those that refuse missing tensors: each size in a variable of its name,
    and the extents of results."""
    if not program.dims():
        return []
    inputs = _open(0, program.input_types)
    outputs = _open(len(program.input_types), program.output_types)
    lines = []
    for place, type in [*inputs, *outputs]:
        lines.append(f"  int64_t *const shape{place} = shape_of(args[{place}], {type.rank});")
        lines += refusal(f"shape{place} == NULL")
    lines += _sizes(program, prefix, inputs)
    lines += [
        line
        for place, type in outputs
        for axis, extent in enumerate(type.shape)
        for line in refusal(
            f"shape{place}[{axis}] {'<' if isinstance(extent, Extent) else '!='} {extent}",
            OUT_OF_RANGE,
        )
    ]
    return lines + [
        f"  shape{place}[{axis}] = {extent};"
        for place, type in outputs
        for axis, extent in enumerate(type.shape)
        if isinstance(extent, Extent)
    ]


def values(program: Program) -> list[str]:
    """What run passes to main for the sizes."""
    return [symbol.c for symbol in program.dims()]


def _open(first: int, types: tuple[TensorType, ...] | list[TensorType]) -> list[Row]:
    """Tensors of which a run chooses an extent."""
    rows = enumerate(types, first)
    return [(i, t) for i, t in rows if any(isinstance(n, Extent) for n in t.shape)]


def _sizes(program: Program, prefix: str, inputs: list[Row]) -> list[str]:
    """A dimension is what its first axis has, within its bounds; other axes are held to that."""
    left = {symbol.extent: (symbol, name) for symbol, name in extents.members(program)}
    lines, later = [], []
    for place, type in inputs:
        for axis, extent in enumerate(type.shape):
            at = f"shape{place}[{axis}]"
            if extent not in left:
                later += refusal(f"{at} != {extent}", OUT_OF_RANGE)
                continue
            symbol, name = left.pop(extent)
            lines += extents.check(at, prefix, name)
            lines.append(f"  const int {symbol.c} = (int){at};")
    return lines + later

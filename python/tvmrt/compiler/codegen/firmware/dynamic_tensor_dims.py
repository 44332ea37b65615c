"""Dynamic dimensions of a firmware network that is called with tensors, read from their shapes.

Inputs determine the sizes. The shapes of outputs give the available memory and are set to the
actual extents. All checks precede all writes. Shapes of tensors with fixed extents are not read.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.sizes import Extent
from tvmrt.compiler.ir.tensor_type import TensorType

from ..c.formatting import OUT_OF_RANGE, reject_if
from . import dynamic_dims

_SHAPE_OF = [
    "/* Return the extents of a tensor; NULL if its rank differs. */",
    "static int64_t *shape_of(TVMValue value, int32_t ndim) {",
    "  const DLTensor *tensor = (const DLTensor *)value.v_handle;",
    "  return tensor->ndim == ndim ? tensor->shape : NULL;",
    "}",
    "",
]

TensorArgument = tuple[int, TensorType]  # argument index and type


def function(program: Program) -> list[str]:
    """Return the C helper function."""
    return _SHAPE_OF if program.dims() else []


def read(program: Program, prefix: str) -> list[str]:
    """Return lines of run after the NULL checks: a variable for each size, then the extents of the
    outputs."""
    if not program.dims():
        return []
    inputs = _with_dynamic_shapes(0, program.input_types)
    outputs = _with_dynamic_shapes(len(program.input_types), program.output_types)
    lines = []
    for place, type in [*inputs, *outputs]:
        lines.append(f"  int64_t *const shape{place} = shape_of(args[{place}], {type.rank});")
        lines += reject_if(f"shape{place} == NULL")
    lines += _sizes(program, prefix, inputs)
    lines += [
        line
        for place, type in outputs
        for axis, extent in enumerate(type.shape)
        for line in reject_if(
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
    """Return the arguments that run passes to main for the sizes."""
    return [symbol.c for symbol in program.dims()]


def _with_dynamic_shapes(first: int, types: Sequence[TensorType]) -> list[TensorArgument]:
    """Return the tensors with dynamic extents."""
    rows = enumerate(types, first)
    return [(i, t) for i, t in rows if any(isinstance(n, Extent) for n in t.shape)]


def _sizes(program: Program, prefix: str, inputs: list[TensorArgument]) -> list[str]:
    """Read each dimension from its first axis, check its bounds, and check all other axes."""
    left = {symbol.extent: (symbol, name) for symbol, name in dynamic_dims.members(program)}
    lines, later = [], []
    for place, type in inputs:
        for axis, extent in enumerate(type.shape):
            at = f"shape{place}[{axis}]"
            if extent not in left:
                later += reject_if(f"{at} != {extent}", OUT_OF_RANGE)
                continue
            symbol, name = left.pop(extent)
            lines += dynamic_dims.check(at, prefix, name)
            lines.append(f"  const int {symbol.c} = (int){at};")
    return lines + later

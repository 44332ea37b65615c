"""Checks of outputs against the bounds of dimensions that only outputs have."""

from __future__ import annotations

import onnx

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes import (
    SymInt,
    bounds,
    extent_text,
    is_unbounded,
    symbols_of,
    upper_bound,
)

from .import_state import ImportState


def limit_to_declared_bounds(
    importer: ImportState, info: onnx.ValueInfoProto, value: Value
) -> Value:
    """Return the output, limited to the declared bound (``--dim``) of its dimensions. A run that
    would exceed a bound ends with an error before the output is written.

    A dimension that an input has, too, is skipped: its extent comes from that input, even if the
    output's name for it is wrong. Zero elements are within any bound. Raises ValueError if every
    run would exceed a bound.
    """
    tensor = info.type.tensor_type
    names = [d.dim_param for d in tensor.shape.dim]
    if not info.type.HasField("tensor_type") or len(names) != len(value.shape):
        return value
    for axis, (name, extent) in enumerate(zip(names, value.shape)):
        if not name or name not in importer.dims:
            continue
        declared = importer.dims.extent_in_file(name)
        if (
            declared is None
            or is_unbounded(declared)
            or declared == extent
            or symbols_of(declared) & importer.declarations.symbols()
        ):
            continue
        low, high = bounds(extent)
        limit = upper_bound(declared)
        if low > limit:
            raise ValueError(
                f"output {info.name} has {extent_text(extent)} elements along axis {axis}, but "
                f"dimension {name} is declared up to {limit}; raise its bound"
            )
        if high > limit:
            value = _emit_bound_check(importer, info.name, name, (value, axis), limit)
    return value


def _emit_bound_check(
    importer: ImportState,
    output: str,
    dimension: str,
    axis_of_value: tuple[Value, int],
    limit: int,
) -> Value:
    value, axis = axis_of_value
    builder, dims = importer.builder, importer.dims
    builder.sources, builder.guard = (output,), None
    extent: SymInt = value.shape[axis]
    number = builder.emit("extents", [], output, values=(extent,), shape=())
    name = dims.unique_name(f"{output}_{dimension}")
    what = f"dimension {dimension} of output {output}"
    source = builder.emit("count", [number], output, extent=name, what=what, low=0, high=limit)
    sizes = list(value.shape)
    sizes[axis] = dims.declare_symbol(name, 0, limit, source, extent)
    starts, steps = (0,) * len(sizes), (1,) * len(sizes)
    return builder.emit("slice", [value], output, starts=starts, steps=steps, sizes=tuple(sizes))

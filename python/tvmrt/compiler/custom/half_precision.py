"""Half precision in custom operators.

Networks compute in float32; inputs and outputs in half precision are converted. A custom operator
with a body for half precision gets the caller's own tensor instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tvmrt.compiler.ir import Builder, Trait, Value, constant


def convert_to_half(
    builder: Builder,
    inputs: Sequence[Value | None],
    declared: Sequence[str],
    types: Mapping[str, Sequence[str]],
) -> list[Value | None]:
    """Return the inputs, with tensors before widening if the operator takes half precision.

    ``declared``: the declared type of each input; ``types``: element types by the names that
    stand for several of them.
    """
    operands = list(inputs)
    half_types: dict[str, str] = {}
    for i, (type, value) in enumerate(zip(declared, inputs)):
        source = half_source(value)
        if source is not None and source.dtype.name in types.get(type, (type,)):
            operands[i] = source
            half_types[type] = source.dtype.name
    for i, (type, value) in enumerate(zip(declared, operands)):
        if value is not None and type in half_types and value.dtype.name != half_types[type]:
            operands[i] = _to_half(builder, value, half_types[type])
    return operands


def widen(builder: Builder, values: Sequence[Value]) -> list[Value]:
    """Return the values, with half precision converted to float32."""
    return [
        builder.emit("cast", [v], v.name, to="float32") if v.dtype.is_half else v for v in values
    ]


def half_source(value: Value | None) -> Value | None:
    """Return the caller's half-precision tensor that a value was widened from; else None."""
    if value is None or value.producer is None or not value.producer.has(Trait.CONVERTS):
        return None
    source = value.producer.inputs[0]
    return (
        source
        if source is not None and source.dtype.is_half and value.dtype.name == "float32"
        else None
    )


def _to_half(builder: Builder, value: Value, to: str) -> Value:
    """Convert a value to half precision; exact for constants, which were widened when read."""
    if value.data is None:
        return builder.emit("cast", [value], value.name, to=to)
    from tvmrt.compiler.ir import DTYPES

    return constant(np.asarray(value.data).astype(DTYPES[to].numpy), value.name)

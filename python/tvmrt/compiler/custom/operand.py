"""Operands of an operator: names, element types and layouts, and checks of a node's tensors.

Networks compute in float32; inputs and outputs in half precision are converted. A custom operator
with a body for half precision gets the caller's own tensor instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir import DTYPES, Builder, TensorType, Trait, Value, constant
from tvmrt.compiler.ir.strided import Layout, parse_layout

ANY_LAYOUT = "any"


@dataclass(frozen=True)
class Tensor:
    """Declaration of an input or output.

    Parameters
    ----------
    name
        C identifier, used in kernels and messages.
    type
        Element type such as ``float32``, or a name in the operator's ``types``: operands with the
        same name have the same element type.
    layouts
        Supported layouts of the operand, ``("NCHW", "NHWC")``. The first layout of one operand is
        used with the first of every other, and so on; an operand with a single layout has it in
        all combinations. ``"any"``: the kernel is elementwise and independent of the order in
        memory; all such operands of the operator have one order. Empty: row-major.
    optional
        Whether nodes may omit it; kernels then get a null pointer. Inputs only.
    """

    name: str
    type: str = "T"
    layouts: tuple[str, ...] | str = ()
    optional: bool = False

    def parsed_layouts(self) -> tuple[Layout, ...]:
        """Return the layouts by their names; none for row-major and ``any``."""
        if isinstance(self.layouts, str):
            return () if self.layouts == ANY_LAYOUT else (parse_layout(self.layouts),)
        return tuple(parse_layout(name) for name in self.layouts)


def check_operands(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], types: Mapping[str, Sequence[str]]
) -> None:
    """Raise ValueError if a declaration is inconsistent."""
    names: set[str] = set()
    counts: set[int] = set()
    for field, operands in (("inputs", inputs), ("outputs", outputs)):
        if not isinstance(operands, (tuple, list)) or any(
            not isinstance(operand, Tensor) for operand in operands
        ):
            raise ValueError(f"{field}: {operands!r} is not a list of tvmrt.custom.Tensor")
    if not outputs:
        raise ValueError("outputs: empty; an operator has at least one output")
    for operand in (*inputs, *outputs):
        if not operand.name.isidentifier() or operand.name in names:
            raise ValueError(f"operand {operand.name!r}: names are C identifiers, each used once")
        names.add(operand.name)
        if operand.type not in types and operand.type not in DTYPES:
            raise ValueError(
                f"operand {operand.name}: type {operand.type} is neither an element type "
                "nor declared in types"
            )
        counts.add(len(operand.parsed_layouts()))
    if len(counts - {0, 1}) > 1:
        raise ValueError(
            "operands declare different numbers of layouts; give each operand the same number"
        )
    for name, allowed in types.items():
        for dtype in allowed:
            if dtype not in DTYPES:
                raise ValueError(
                    f"type {name}: unknown element type {dtype}; choose from {', '.join(DTYPES)}"
                )
    optional = [i for i, operand in enumerate(inputs) if operand.optional]
    if any(o.optional for o in outputs):
        raise ValueError("an output cannot be optional; declare one operator with and one without")
    if optional and not all(o.optional for o in inputs[optional[0] :]):
        raise ValueError("an optional input cannot precede a required one")


def check_inputs(
    names: Sequence[str], optional: Sequence[str], given: Sequence[TensorType | None]
) -> None:
    """Raise ValueError if a node has a wrong number of inputs, or lacks one."""
    least = len(names) - len(optional)
    if not least <= len(given) <= len(names):
        count = f"{least} to {len(names)}" if optional else str(least)
        raise ValueError(f"inputs: expected {count}, the node has {len(given)}")
    for name, type in zip(names, given):
        if type is None and name not in optional:
            raise ValueError(f"input {name} is missing")


def types_of(arrays: Sequence[np.ndarray | None]) -> list[TensorType | None]:
    """Return the types of arrays; None for an input that is left out."""
    return [None if a is None else TensorType(a.shape, DTYPES[a.dtype.name]) for a in arrays]


def bind_types(
    inputs: Sequence[Tensor], types: Mapping[str, Sequence[str]], given: Sequence[TensorType | None]
) -> dict[str, str]:
    """Return element types by the type names of the declaration.

    Raises ValueError for a wrong number of inputs and for an element type that does not fit.
    """
    check_inputs([i.name for i in inputs], [i.name for i in inputs if i.optional], given)
    bound: dict[str, str] = {}
    for operand, type in zip(inputs, given):
        if type is None:
            continue
        allowed = types.get(operand.type, (operand.type,))
        name = type.dtype.name
        if name not in allowed:
            raise ValueError(
                f"input {operand.name} has element type {name}; the operator takes "
                f"{' or '.join(allowed)}"
            )
        if bound.setdefault(operand.type, name) != name:
            raise ValueError(
                f"input {operand.name} has element type {name}; "
                f"it must be {bound[operand.type]} like the inputs before it"
            )
    return bound


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
        source = _half_source(value)
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


def _half_source(value: Value | None) -> Value | None:
    """Return the caller's half-precision tensor that a value was widened from; else None."""
    if value is None or value.producer is None or not value.producer.has(Trait.CONVERTS):
        return None
    source = value.producer.inputs[0]
    is_half = source is not None and source.dtype.is_half and value.dtype.name == "float32"
    return source if is_half else None


def _to_half(builder: Builder, value: Value, to: str) -> Value:
    """Convert a value to half precision; exact for constants, which were widened when read."""
    if value.data is None:
        return builder.emit("cast", [value], value.name, to=to)
    return constant(np.asarray(value.data).astype(DTYPES[to].numpy), value.name)

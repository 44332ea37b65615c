"""Select one of two values by a run-time condition."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes import INT_MAX, SymInt, is_unbounded, lower_bound, upper_bound
from tvmrt.error import UnsupportedError

from . import string_tensors
from .context import NodeContext
from .sequence_values import AbsentOptional, Alternatives, DynamicOptional, OnnxValue, TensorList


def select(
    ctx: NodeContext, condition: Value, a: OnnxValue | None, b: OnnxValue | None
) -> OnnxValue | None:
    """Select ``a`` if a scalar condition holds, else ``b``; None if one of them is None.

    Raises UnsupportedError if the two values cannot be represented by one.
    """
    if a is None or b is None:
        return None
    if isinstance(a, (AbsentOptional, DynamicOptional)) or isinstance(
        b, (AbsentOptional, DynamicOptional)
    ):
        return _select_optional(ctx, condition, a, b)
    if isinstance(a, TensorList) and isinstance(b, TensorList):
        if len(a.values) != len(b.values):
            raise UnsupportedError(
                f"the branches return sequences of {len(a.values)} and {len(b.values)} tensors"
            )
        return TensorList([select(ctx, condition, *pair) for pair in zip(a.values, b.values)])
    if not (isinstance(a, Value) and isinstance(b, Value)):
        raise UnsupportedError(
            "the branches return sequences, one of which is selected at run time"
        )
    if a is b:
        return a
    a, b = string_tensors.unify_strings(ctx.builder, a, b)
    if a.type == b.type and not a.dtype.is_low_bit:
        return ctx.emit("where", [condition, a, b])
    if a.dtype != b.dtype or a.type.rank != b.type.rank:
        raise UnsupportedError(
            f"the branches return {a.type} and {b.type}; element type and rank must be the same"
        )
    shape = tuple(_selected_extent(ctx, condition, *pair) for pair in zip(a.shape, b.shape))
    return ctx.emit("choice", [condition, a, b], shape=shape)


def select_any_rank(
    ctx: NodeContext, condition: Value, a: OnnxValue | None, b: OnnxValue | None, name: str
) -> OnnxValue | None:
    """Select one of two values by a condition, or keep both as alternatives if their ranks differ.
    ``name``: the node that selects."""
    if a is None or b is None or a is b:
        return a if b is not None else None
    if not (isinstance(a, Value) and isinstance(b, Value)):
        if isinstance(a, Alternatives) or isinstance(b, Alternatives):
            return Alternatives(name, condition, a, b)
        return select(ctx, condition, a, b)
    elements = [_elements(ctx, v) for v in (a, b)]
    shapes = all(k is not None for k in elements)  # shapes, which later nodes read as constants
    if a.type == b.type and shapes and elements[0].tolist() == elements[1].tolist():
        # a new tensor, for each of them is computed in one branch only
        return a if a.data is not None else ctx.integer_tensor(elements[0], a.dtype.name)
    if a.dtype == b.dtype and (a.type.rank != b.type.rank or (shapes and a.dtype.is_int)):
        return Alternatives(name, condition, a, b)
    return select(ctx, condition, a, b)


def _elements(ctx: NodeContext, value: Value) -> np.ndarray | None:
    if value.data is not None:
        return np.asarray(value.data, object) if value.data.size <= 64 else None
    return ctx.extents.get(value)


def _selected_extent(ctx: NodeContext, condition: Value, a: SymInt, b: SymInt) -> SymInt:
    """Return the extent of the selected value."""
    if a == b:
        return a
    numbers = [ctx.integer_tensor(np.asarray(n, object)) for n in (a, b)]
    number = ctx.emit("where", [condition, *numbers])
    high = INT_MAX if is_unbounded(a, b) else max(upper_bound(a), upper_bound(b))
    return ctx.data_dependent_extent(number, min(lower_bound(a), lower_bound(b)), high, "extent")


def _select_optional(ctx: NodeContext, condition: Value, a: OnnxValue, b: OnnxValue) -> OnnxValue:
    """Select one of two optional values."""
    if isinstance(a, AbsentOptional) and isinstance(b, AbsentOptional):
        return a
    there = ctx.emit("where", [condition, _presence(ctx, a), _presence(ctx, b)])
    values = [v.value if isinstance(v, DynamicOptional) else v for v in (a, b)]
    tensors = [v for v in values if not isinstance(v, AbsentOptional)]
    return DynamicOptional(
        tensors[0] if len(tensors) == 1 else select(ctx, condition, *tensors), there
    )


def _presence(ctx: NodeContext, onnx_value: OnnxValue) -> Value:
    return (
        onnx_value.is_present
        if isinstance(onnx_value, DynamicOptional)
        else ctx.const(not isinstance(onnx_value, AbsentOptional))
    )

"""Encoders of categories: LabelEncoder, CategoryMapper, OneHotEncoder."""

from __future__ import annotations

import math

import numpy as np

from tvmrt.compiler.sdk.frontend import (
    NodeContext,
    decode_string,
    onnx_op,
    retype,
    table_type,
)
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_ml.operators.domain import DOMAIN
from tvmrt.plugins.onnx_text.operators.text import find_strings

_KINDS = ("int64s", "floats", "strings", "tensor")
_DEFAULTS = {"int64s": -1, "floats": -0.0, "strings": "_Unused"}
_MAX_TABLE_KEY = 1 << 16  # integer keys in [0, _MAX_TABLE_KEY) are looked up by index


def _table(ctx: NodeContext, side: str) -> tuple[str, np.ndarray]:
    """Return the type and the elements of the attribute with the keys or values."""
    lists = [(kind, ctx.attr(f"{side}_{kind}")) for kind in _KINDS]
    lists = [(kind, elements) for kind, elements in lists if elements is not None]
    if len(lists) != 1:
        raise ValueError(f"one of {', '.join(f'{side}_{kind}' for kind in _KINDS)} must be given")
    kind, elements = lists[0]
    if kind == "tensor":
        elements = np.asarray(elements).reshape(-1)
        if elements.dtype.kind in "OSU":
            return "strings", np.asarray([decode_string(e) for e in elements], object)
        return kind, elements
    types = {"int64s": np.int64, "floats": np.float32, "strings": object}
    return kind, np.asarray(elements, types[kind])


def _keys_as_numbers(
    ctx: NodeContext, x: Value, kind: str, keys: np.ndarray
) -> tuple[Value, np.ndarray]:
    """Return x and the keys as numbers. String keys become indices into the strings that x may
    contain, or into the keys."""
    if kind != "strings":
        if x.type.is_string:
            raise ValueError("the keys are numbers, the input has strings")
        return x, keys
    if not x.type.is_string:
        raise ValueError(f"the keys are strings, the input has {x.dtype} elements")
    names = x.type.labels
    if names is None:
        x, names = find_strings(ctx, x, keys.tolist())
    index_of = {name: i for i, name in enumerate(names)}
    return x, np.array([index_of.get(key, -1) for key in keys], np.int64)


def _default(ctx: NodeContext, kind: str):
    default = ctx.attr("default_tensor")
    if default is not None:
        return (
            decode_string(default.reshape(-1)[0]) if kind == "strings" else default.reshape(-1)[0]
        )
    if kind == "tensor":
        return 0
    return ctx.attr(f"default_{kind[:-1]}", _DEFAULTS[kind])


def map_keys(
    ctx: NodeContext, x: Value, keys: np.ndarray, values: np.ndarray, default: object
) -> Value:
    """Map each element to the value of the first equal key, or to the default."""
    distinct = {}
    for key, value in zip(keys.tolist(), values.tolist()):
        distinct.setdefault(None if isinstance(key, float) and math.isnan(key) else key, value)
    keys = np.array([np.nan if key is None else key for key in distinct], keys.dtype)
    values = np.array([*distinct.values(), default], values.dtype)
    ctx.check_table_size(values.size, "the keys")
    if x.dtype.is_int and keys.size and 0 <= keys.min() and keys.max() < _MAX_TABLE_KEY:
        return _lookup_by_index(ctx, x, keys, values)
    order = ctx.reshape(x, (*x.shape, 1))
    equal = ctx.emit("equal", [order, ctx.const(keys, x.dtype.numpy)])
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        nan = ctx.emit("logical_and", [ctx.emit("is_nan", [order]), ctx.const(np.isnan(keys))])
        equal = ctx.emit("logical_or", [equal, nan])
    # at most one key matches, so the maximum is its index + 1, or 0 without a match
    number = ctx.const(np.arange(1, keys.size + 1), np.int32)
    index = ctx.emit("where", [equal, number, ctx.const(0, np.int32)])
    index = ctx.emit("reduce_max", [index], axes=(len(x.shape),), keepdims=0)
    return ctx.emit("gather", [ctx.const(np.roll(values, 1)), index], axis=0)


def _lookup_by_index(ctx: NodeContext, x: Value, keys: np.ndarray, values: np.ndarray) -> Value:
    """Look up small integer keys in a table with the default at both ends."""
    first, last = int(keys.min()), int(keys.max())
    table = np.full(last - first + 3, values[-1], values.dtype)
    table[keys.astype(np.int64) - first + 1] = values[:-1]
    x = ctx.cast(x, "int64")
    x = ctx.emit("min", [x, ctx.like(last + 1, x)])
    x = ctx.emit("max", [x, ctx.like(first - 1, x)])
    index = ctx.emit("sub", [x, ctx.like(first - 1, x)])
    return ctx.emit("gather", [ctx.const(table), index], axis=0)


@onnx_op("LabelEncoder", domain=DOMAIN)
def label_encoder(ctx: NodeContext) -> Value:
    x, names = ctx.required(0), ctx.attr("classes_strings")
    if names is not None:
        return _map_categories(ctx, x, names, np.arange(len(names)))
    keys_kind, keys = _table(ctx, "keys")
    kind, values = _table(ctx, "values")
    if keys.size != values.size or keys.size == 0:
        raise ValueError(f"there are {keys.size} keys for {values.size} values")
    x, keys = _keys_as_numbers(ctx, x, keys_kind, keys)
    default = _default(ctx, kind)
    if kind == "strings":
        return _map_to_strings(ctx, x, keys, list(values), default)
    return map_keys(ctx, x, keys, values, default)


@onnx_op("CategoryMapper", domain=DOMAIN)
def category_mapper(ctx: NodeContext) -> Value:
    x, names = ctx.required(0), ctx.attr("cats_strings") or []
    numbers = np.asarray(ctx.attr("cats_int64s") or [], np.int64)
    if len(names) != numbers.size or not names:
        raise ValueError(f"there are {len(names)} cats_strings for {numbers.size} cats_int64s")
    return _map_categories(ctx, x, names, numbers)


def _map_categories(ctx: NodeContext, x: Value, names: list[str], numbers: np.ndarray) -> Value:
    """Map strings to integers or integers to strings, depending on the type of x."""
    if x.type.is_string:
        x, keys = _keys_as_numbers(ctx, x, "strings", np.asarray(names, object))
        return map_keys(ctx, x, keys, numbers, ctx.attr("default_int64", -1))
    return _map_to_strings(ctx, x, numbers, names, ctx.attr("default_string", "_Unused"))


def _map_to_strings(
    ctx: NodeContext, x: Value, keys: np.ndarray, values: list[str], default: str
) -> Value:
    """Map elements to indices into the strings that the node can return."""
    names = list(dict.fromkeys([*values, default]))
    index_of = {name: i for i, name in enumerate(names)}
    numbers = np.array([index_of[value] for value in values], np.int64)
    result = map_keys(ctx, x, np.asarray(keys), numbers, index_of[default])
    return retype(result, table_type(names))


@onnx_op("OneHotEncoder", domain=DOMAIN)
def one_hot_encoder(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    names, numbers = ctx.attr("cats_strings"), ctx.attr("cats_int64s")
    if bool(names) == bool(numbers):
        raise ValueError("one of cats_int64s and cats_strings must be given")
    if not ctx.attr("zeros", 1):
        raise UnsupportedError("zeros=0 (stop at rows of unknown categories) is not supported")
    kind = "strings" if names else "int64s"
    x, keys = _keys_as_numbers(
        ctx, x, kind, np.asarray(names or numbers, object if names else np.int64)
    )
    wide = ctx.reshape(ctx.cast(x, "int64"), (*x.shape, 1))
    equal = ctx.emit("equal", [wide, ctx.const(keys, np.int64)])
    return ctx.cast(equal, "float32")

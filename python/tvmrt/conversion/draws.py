"""Random inputs on which a converted network is compared with its original.

The first sizes get values of several kinds, so that a decision by values goes both ways. Dynamic
dimensions get two more sizes, because exporters may record a size as a constant.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tvmrt.conversion.original import Draws, Input

EXTENT = 2  # of dynamic dimensions in the first draws; exporters treat 1 as fixed
_OTHER_SIZES = 2
_KINDS = 6  # kinds of values
_MAX_OTHER = 64  # largest extent that is tried as another size
_SMALL_INTEGERS = 2  # without an example, integers are 0 or 1, which most models accept

_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Div: operator.floordiv,
}  # fmt: skip

Sizes = Mapping[str, int]


def draw(inputs: Sequence[Input], bounds: Mapping[str, Sequence[int]]) -> Iterator[Draws]:
    """Return draws of inputs.

    Parameters
    ----------
    bounds
        (Minimum, maximum) of each dynamic dimension, by name.
    """
    rng = np.random.default_rng(0)
    first = first_sizes(inputs, bounds)
    others = list(other_sizes(first, bounds)) if first else []
    feeds = (_of_kinds(rng, inputs, sizes) for sizes in (first, *others))
    yield Draws(_KINDS, chain.from_iterable(feeds))
    more = ({each.name: _shuffled(rng, each, sizes) for each in inputs} for sizes in others)
    yield Draws(_OTHER_SIZES, more)


def first_sizes(inputs: Sequence[Input], bounds: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the extents of dynamic dimensions: those of the examples, 2 instead of 1."""
    sizes: dict[str, int] = {}
    for each in inputs:
        extents = [EXTENT] * len(each.shape) if each.example is None else each.example.shape
        for name, extent in zip(each.shape, extents):
            if name in bounds:
                low, high = bounds[str(name)]
                sizes.setdefault(str(name), min(max(extent, EXTENT, low), max(high, low)))
    others = {name: min(max(EXTENT, low), high) for name, (low, high) in bounds.items()}
    return {**others, **sizes}


def other_sizes(first: Sizes, bounds: Mapping[str, Sequence[int]]) -> Iterator[dict[str, int]]:
    """Yield sizes other than the first: unequal ones, the smallest, and multiples of the first."""
    tried = [dict(first)]
    names = sorted(first)
    candidates = [
        {name: first[name] + 1 + i for i, name in enumerate(names)},
        {name: max(1, bounds[name][0]) for name in names},
        *({name: factor * first[name] for name in names} for factor in (2, 3, 4)),
        *({name: first[name] + more for name in names} for more in (1, 2, 8)),
        {name: min(bounds[name][1], _MAX_OTHER) for name in names},
    ]
    for each in candidates:
        if each not in tried and all(bounds[n][0] <= e <= bounds[n][1] for n, e in each.items()):
            tried.append(each)
            yield each


def _of_kinds(
    rng: np.random.Generator, inputs: Sequence[Input], sizes: Sizes
) -> Iterator[dict[str, np.ndarray]]:
    """Yield inputs: the examples, values of each kind, and then values that occur in the examples,
    which most models accept."""
    has_example = any(each.example is not None for each in inputs)
    if has_example:
        yield {each.name: resized(each, sizes) for each in inputs}
    for kind in range(_KINDS):
        yield {each.name: _values(rng, each, sizes, kind) for each in inputs}
    for _ in range(_KINDS if has_example else 0):
        yield {each.name: _shuffled(rng, each, sizes) for each in inputs}


def _shape(each: Input, sizes: Sizes) -> tuple[int, ...]:
    return tuple(_extent(n, sizes) if isinstance(n, str) else n for n in each.shape)


def _extent(text: str, sizes: Sizes) -> int:
    """Return the value of a dimension, or of a sum or product of several."""

    def value(node: ast.AST) -> int:
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](value(node.left), value(node.right))
        return int(node.value) if isinstance(node, ast.Constant) else sizes[ast.unparse(node)]

    return sizes[text] if text in sizes else value(ast.parse(text.strip(), mode="eval").body)


def resized(each: Input, sizes: Sizes) -> np.ndarray:
    """Return the example of an input, repeated or cut to these sizes; drawn if there is none."""
    if each.example is None:
        return _values(np.random.default_rng(0), each, sizes, 0)
    return _fitted(each.example, _shape(each, sizes))


def _fitted(values: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    for axis, extent in enumerate(shape):
        if values.shape[axis] != extent:
            values = values.take(np.arange(extent) % values.shape[axis], axis)
    return np.ascontiguousarray(values)


def _shuffled(rng: np.random.Generator, each: Input, sizes: Sizes) -> np.ndarray:
    """Return values that occur in the example of an input."""
    if each.example is None or each.example.size == 0:
        return _values(rng, each, sizes, 0)
    return rng.choice(each.example.ravel(), _shape(each, sizes)).astype(each.example.dtype)


def _values(rng: np.random.Generator, each: Input, sizes: Sizes, kind: int) -> np.ndarray:
    shape: Any = _shape(each, sizes)
    dtype = _numpy_dtype(each.dtype)
    values: Any
    if dtype.kind == "b":
        values = rng.random(shape) < (0.5, 0.5, 2, -1, 0.2, 0.8)[kind]  # 2: all, -1: none
    elif dtype.kind in "iu":
        values = rng.integers(*_range_of_integers(each, dtype), shape)
    else:
        values = _floats(rng, shape, kind)
        if each.example is not None and each.example.size:
            example = each.example.astype(np.float64)
            mean, deviation = np.nanmean(example), np.nanstd(example)
            if np.isfinite(mean) and deviation > 0:
                values = values * deviation + (mean if kind in (0, 5) else 0)
    return np.asarray(values).astype(dtype)


def _floats(rng: np.random.Generator, shape: Sequence[int], kind: int) -> np.ndarray:
    """Return values that are normal, positive, negative, large, mostly zero or normal again."""
    values = rng.standard_normal(shape)
    if kind in (1, 2):
        return np.abs(values) if kind == 1 else -np.abs(values)
    if kind == 3:
        return 10 * values
    return values * (rng.random(shape) < 0.2) if kind == 4 else values


def _range_of_integers(each: Input, dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the first integer to draw and the end of the range."""
    if each.example is not None and each.example.size:
        low, high = int(each.example.min()), int(each.example.max())
        return (0, _SMALL_INTEGERS) if 0 <= low and high <= 1 else (low, high + 1)
    if dtype.itemsize == 1:  # quantised values
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max) + 1
    return 0, _SMALL_INTEGERS


def _numpy_dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        import ml_dtypes

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)

"""Operators that move elements: joining and padding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .contract import Contract, holds, let
from .graph import Node, Value
from .op import Op, register
from .sizes import sym_sum
from .sizes.assumptions import are_equal
from .tensor_type import TensorType
from .traits import Trait


def _differ_only_along(axis: int, parts: Sequence[TensorType]) -> bool:
    first = parts[0].shape
    return all(
        t.rank == len(first)
        and all(are_equal(a, b) for d, (a, b) in enumerate(zip(first, t.shape)) if d != axis)
        for t in parts
    )


def _concat_shape(axis: int, parts: Sequence[TensorType]) -> list[int]:
    shape = list(parts[0].shape)
    shape[axis] = sym_sum(t.shape[axis] for t in parts)
    return shape


@register("concat", onnx="Concat")
class Concat(Op):
    """Concatenate along ``axis``."""

    traits = frozenset({Trait.CONCATENATES, Trait.ANY_LAYOUT})

    contract = Contract(
        "parts+: E=any[*] -> y: E[*Y]",
        "axis: axis of parts",
        rules=[
            holds(
                "parts have the same extents but along axis",
                _differ_only_along,
            ),
            let(
                "*Y",
                "the extents of a part, along axis the sum of all",
                _concat_shape,
            ),
        ],
        example={"parts": (2, 3)},
    )

    def evaluate(self, arrays, attrs):
        return [np.concatenate(arrays, attrs["axis"])]


def concat_of(value: Value | None) -> Node | None:
    """Return the node that concatenates parts to this value; None if it is not concatenated."""
    node = None if value is None else value.producer
    return node if node is not None and node.op == "concat" else None


@register("pad")
class Pad(Op):
    """Pad by ``before`` and ``after`` elements per axis; the value defaults to zero."""

    contract = Contract(
        "data: E=any[*S], value?: E[*] -> y: E[*Y]",
        "before: ints[*S] 0.., after: ints[*S] 0.., mode: constant|reflect|edge|wrap",
        rules=[
            holds("value is one number", lambda value: value is None or value.size == 1),
            holds(
                "an axis without elements is padded by a constant",
                lambda S, before, after, mode: (
                    mode == "constant" or all(n or not b + a for n, b, a in zip(S, before, after))
                ),
            ),
            let(
                "*Y",
                "S + before + after",
                lambda S, before, after: [n + b + a for n, b, a in zip(S, before, after)],
            ),
        ],
    )

    def evaluate(self, arrays, attrs):
        pads = list(zip(attrs["before"], attrs["after"]))
        extra = {}
        if attrs["mode"] == "constant":
            value = arrays[1] if len(arrays) > 1 and arrays[1] is not None else 0
            extra["constant_values"] = np.asarray(value).reshape(())
        return [np.pad(arrays[0], pads, attrs["mode"], **extra)]

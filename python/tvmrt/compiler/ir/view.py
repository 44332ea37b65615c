"""View operators: the elements of a tensor in another shape, order or selection."""

from __future__ import annotations

from math import prod
from operator import gt
from typing import Any

import numpy as np

from .contract import Contract, holds, let
from .graph import Node, Value
from .op import VIEW, Op, broadcast, register
from .sizes import Extent, SymInt, all_sizes, lower_bound, symbols_of, upper_bound, value_at
from .sizes.assumptions import are_equal
from .sizes.forms import allocation_extent
from .sizes.undecided import statically_known_true
from .strided import Strided
from .traits import Trait


class ViewOp(Op):
    """View of one tensor; ``access`` returns its strides, or None if there are none."""

    kind = VIEW
    traits = frozenset({Trait.MOVES_ELEMENTS})

    def access(self, source: Strided, attrs: dict[str, Any]) -> Strided | None:
        raise NotImplementedError(self.name)


@register("reshape")
class Reshape(ViewOp):
    """Reshape to the extents ``shape``. Row-major order is kept."""

    traits = ViewOp.traits | {Trait.REARRANGES}

    contract = Contract(
        "x: E=any[*S] -> y: E[*shape]",
        "shape: ints 0..",
        rules=[
            holds(
                "shape has as many elements as x", lambda x, shape: are_equal(prod(shape), x.size)
            ),
        ],
        example={"S": (2, 6), "shape": (3, 4)},
    )

    def evaluate(self, arrays, attrs):
        return [arrays[0].reshape(attrs["shape"])]

    def access(self, source, attrs):
        return source.reshape(attrs["shape"])


@register("transpose", onnx="Transpose")
class Transpose(ViewOp):
    """Transpose: output axis d is input axis perm[d]."""

    traits = ViewOp.traits | {Trait.REARRANGES}

    contract = Contract(
        "x: E=any[*S] -> y: E[*Y]",
        "perm: order of x",
        rules=[let("*Y", "S in the order perm", lambda S, perm: [S[p] for p in perm])],
    )

    def evaluate(self, arrays, attrs):
        return [np.transpose(arrays[0], attrs["perm"])]

    def access(self, source, attrs):
        return source.transpose(attrs["perm"])


def _is_in_bounds(extent: SymInt, start: SymInt, step: int, size: SymInt) -> bool:
    """Return whether all elements of a slice are inside; an empty slice is inside."""
    if not isinstance(size, Extent) and not size:
        return True
    last = start + (size - 1) * step
    if step > 0:
        fits = statically_known_true(gt, extent, allocation_extent(last)) or last < extent
        return 0 <= start and fits  # for an empty slice, last is before start
    if lower_bound(size) == 0 < upper_bound(size) and not statically_known_true(gt, extent, start):
        return _is_in_bounds_or_empty(extent, start, last, size)
    return 0 <= start < extent and 0 <= last


def _is_in_bounds_or_empty(extent: SymInt, start: SymInt, last: SymInt, size: SymInt) -> bool:
    """Return whether the first and last element are inside for all sizes with a nonempty slice."""
    sizes = all_sizes(symbols_of(extent, start, last, size))
    if sizes is None:
        return 0 <= start < extent and 0 <= last
    extent, start, last, size = (value_at(n, sizes) for n in (extent, start, last, size))
    inside = np.logical_and(start >= 0, start < extent) & np.greater_equal(last, 0)
    return bool(np.all(inside | np.equal(size, 0)))


@register("slice")
class Slice(ViewOp):
    """Slice with ``starts``, ``steps`` and ``sizes`` for each axis; steps may be negative."""

    contract = Contract(
        "x: E=any[*S] -> y: E[*sizes]",
        "starts: ints[*S], steps: ints[*S], sizes: ints[*S] 0..",
        rules=[
            holds(
                "all elements from starts on, sizes of them by steps, lie inside S",
                lambda S, starts, steps, sizes: all(
                    _is_in_bounds(n, start, step, size)
                    for n, start, step, size in zip(S, starts, steps, sizes)
                ),
            )
        ],
        example={"S": (4, 5), "starts": (3, 0), "steps": (-2, 1), "sizes": (2, 5)},
    )

    def evaluate(self, arrays, attrs):
        index = np.ix_(
            *(
                start + step * np.arange(size)
                for start, step, size in zip(attrs["starts"], attrs["steps"], attrs["sizes"])
            )
        )
        return [arrays[0][index] if arrays[0].ndim else arrays[0]]

    def access(self, source, attrs):
        return source.slice(attrs["starts"], attrs["steps"], attrs["sizes"])


def slice_of(value: Value) -> Node | None:
    """Return the node that slices a tensor to this value; None if it is not a slice."""
    node = value.producer
    return node if node is not None and node.op == "slice" else None


@register("expand")
class Expand(ViewOp):
    """Broadcast to the extents ``shape`` by numpy's rules."""

    contract = Contract(
        "x: E=any[*S] -> y: E[*shape]",
        "shape: ints 0..",
        rules=[
            holds("S broadcasts to shape", lambda S, shape: broadcast(S, shape) == tuple(shape))
        ],
        example={"S": (3, 1), "shape": (2, 3, 4)},
    )

    def evaluate(self, arrays, attrs):
        return [np.broadcast_to(arrays[0], attrs["shape"])]

    def access(self, source, attrs):
        return source.expand(attrs["shape"])

"""Data-dependent sizes, deduplicated: two counts of the same elements are one size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import Any

from tvmrt.compiler.ir import Builder, Value
from tvmrt.compiler.ir.sizes import SymInt, data_dependent_symbols, lower_bound, upper_bound
from tvmrt.compiler.ir.value_numbering import ValueNumbers


@dataclass(frozen=True)
class _KnownSize:
    extent: SymInt
    source: Value | None  # the tensor with the size


class DataDependentSizes:
    """The data-dependent sizes of one import."""

    def __init__(self) -> None:
        self._values = ValueNumbers()
        self._known: dict[tuple[Any, ...], list[_KnownSize]] = {}

    def intern(
        self,
        builder: Builder,
        emit: Callable[..., Value],
        scalar: Value,
        bounds: tuple[int, SymInt],
        make: Callable[[Value, int, SymInt], SymInt],
    ) -> SymInt:
        """Return a data-dependent integer scalar as an extent.

        ``make`` declares the extent of a number with its lower and upper bound. It is called only
        if no earlier extent within ``bounds`` is known to be the same number.
        """
        low, high = bounds
        key, mask, factor = self._values.count(scalar)
        guards = {None, builder.guard and (self._values.of(builder.guard[0]), builder.guard[1])}
        for guard in guards:
            for earlier in self._known.get((key, guard), ()):
                extent = earlier.extent * factor
                fits = lower_bound(extent) >= low and upper_bound(extent) <= upper_bound(high)
                if fits and _is_in_graph(builder, earlier.source):
                    return extent
        if mask is not None and factor != 1:
            scalar, high = emit("count_nonzero", [mask]), prod(mask.shape)
        extent = make(scalar, low if factor == 1 else 0, high)
        counts = data_dependent_symbols(extent)
        source: Any = counts[0].source if counts else None
        guard = source.producer.guard if source is not None else None
        guard_key = guard and (self._values.of(guard[0]), guard[1])
        self._known.setdefault((key, guard_key), []).append(_KnownSize(extent, source))
        return extent * factor


def _is_in_graph(builder: Builder, source: Value | None) -> bool:
    """Return whether a tensor's producer is still in the graph; importers may undo an attempt."""
    return source is None or any(node is source.producer for node in builder.graph.nodes)

"""Data-dependent sizes, deduplicated: two counts of the same elements are one size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmrt.compiler.ir import Builder, Trait, Value
from tvmrt.compiler.ir.sizes import SymInt, data_dependent_symbols, lower_bound, upper_bound
from tvmrt.compiler.ir.value_numbering import ValueNumbers


class DataDependentSizes:
    """The data-dependent sizes of one import."""

    def __init__(self) -> None:
        self._values = ValueNumbers()
        self._known: dict[tuple[int, Any], list[SymInt]] = {}

    def intern(
        self, builder: Builder, scalar: Value, low: int, high: SymInt, make: Callable[[], SymInt]
    ) -> SymInt:
        """Return a data-dependent integer scalar as an extent; ``make`` declares it if no earlier
        extent from ``low`` to ``high`` is known to be the same number."""
        number = scalar
        while number.producer is not None and _keeps_integer(number):
            number = number.producer.inputs[0]  # type: ignore[assignment]
        key, guard = self._values.of(number), self._key(builder.guard)
        for each in {None, guard}:
            for extent in self._known.get((key, each), ()):
                fits = lower_bound(extent) >= low and upper_bound(extent) <= upper_bound(high)
                if fits and _is_in_graph(builder, extent):
                    return extent
        extent = make()
        producers = [s.source.producer for s in data_dependent_symbols(extent)[:1]]
        guards = [self._key(node.guard) for node in producers if node is not None]
        self._known.setdefault((key, next(iter(guards), None)), []).append(extent)
        return extent

    def _key(self, guard: tuple[Value, bool] | None) -> tuple[int, bool] | None:
        return guard and (self._values.of(guard[0]), guard[1])


def _keeps_integer(value: Value) -> bool:
    """Return whether a node returns its integer scalar unchanged."""
    node = value.producer
    x = node.inputs[0] if node is not None and node.inputs else None
    if node is None or x is None:
        return False
    converts = node.has(Trait.CONVERTS) and x.dtype.is_int and value.dtype.bits >= 32
    return converts or node.has(Trait.REARRANGES)


def _is_in_graph(builder: Builder, extent: SymInt) -> bool:
    """Return whether a size is still computed in the graph; importers may undo an attempt."""
    producers = [s.source.producer for s in data_dependent_symbols(extent)[:1]]
    return all(p is None or any(node is p for node in builder.graph.nodes) for p in producers)

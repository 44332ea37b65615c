"""Smaller size bounds for regions that a device refuses at the largest sizes of a run.

Contract: bounds are evaluated together: the device accepts the region with all of them as largest
sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvmrt.compiler.ir import Region, Value
from tvmrt.compiler.ir.custom import copy_graph
from tvmrt.compiler.ir.sizes import Extent, Symbol
from tvmrt.option_syntax import option

Sizes = tuple[Symbol, ...]


def with_sizes(region: Region, sizes: Sequence[Symbol]) -> Region:
    """Return a copy of the region whose extents have the bounds of ``sizes``, matched by name."""
    graph = copy_graph(region.graph)
    by_name = {s.name: s.extent for s in sizes}
    values: list[Value] = [*graph.inputs, *(v for node in graph.nodes for v in node.outputs)]
    for value in values:
        value.type = replace(value.type, shape=_apply_bounds(value.type.shape, by_name))
    for node in graph.nodes:
        node.attrs = {key: _apply_bounds(attr, by_name) for key, attr in node.attrs.items()}
    region_sizes = tuple(next(new for new in sizes if new.name == s.name) for s in region.sizes)
    return replace(region, graph=graph, sizes=region_sizes)


def _apply_bounds(value: Any, by_name: Mapping[str, Any]) -> Any:
    if isinstance(value, Extent):
        return value.substitute(by_name)
    if type(value) in (tuple, list):
        return type(value)(_apply_bounds(each, by_name) for each in value)
    return value


def largest_accepted(sizes: Sizes, accepts: Callable[[Sizes], bool]) -> Sizes | None:
    """Find the largest accepted sizes by bisection; None if the smallest are refused. The upper
    bounds together are known to be refused."""

    def are_accepted(values: Sequence[int]) -> bool:
        return accepts(tuple(replace(s, high=high) for s, high in zip(sizes, values)))

    if all(s.low == s.high for s in sizes) or not are_accepted([s.low for s in sizes]):
        return None
    # all in proportion, then each as far as possible
    steps = max(s.high - s.low for s in sizes)

    def share(step: int) -> list[int]:
        return [s.low + (s.high - s.low) * step // steps for s in sizes]

    highs = share(_find_maximum(0, steps - 1, lambda step: are_accepted(share(step))))
    for i, size in enumerate(sizes if len(sizes) > 1 else ()):
        highs[i] = _find_maximum(
            highs[i], size.high, lambda high, i=i: are_accepted([*highs[:i], high, *highs[i + 1 :]])
        )
    return tuple(replace(s, high=high) for s, high in zip(sizes, highs))


def _find_maximum(low: int, high: int, is_accepted: Callable[[int], bool]) -> int:
    """Return the maximum accepted number by bisection; ``low`` is accepted."""
    if low == high or is_accepted(high):
        return high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if is_accepted(middle) else (low, middle)
    return low


def suggest_options(accepted: Sizes, sizes: Sizes, may_fall_back: bool) -> str:
    """Return options for a user to run a region on the device up to the sizes that it accepts."""
    changed = [new for new, old in zip(accepted, sizes) if new != old]
    suggestions = []
    if all(s.source is None for s in changed):  # bounds of the others follow from the network
        dims = {s.name: (s.low, s.high) for s in changed}
        suggestions.append(f"compile with {option('dims', dims)}")
    if may_fall_back:
        suggestions.append(
            f"compile with {option('device_fallback', True)}: larger sizes run on the CPU"
        )
    return (
        f"; it takes sizes up to {sizes_text(accepted)}: {', or '.join(suggestions)}"
        if suggestions
        else ""
    )


def sizes_text(sizes: Sizes) -> str:
    """Return the upper bound of each size as text."""
    return ", ".join(f"{s.name} = {s.high}" for s in sizes)

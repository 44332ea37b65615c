"""Operators that move elements, by index arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from .code import NodeCode, prints

REDUCED = {
    "none": "{x}", "add": "{y} + {x}", "mul": "{y} * {x}", "max": "ref_max({y}, {x})",
    "min": "ref_min({y}, {x})",
}  # fmt: skip
OUTSIDE = {
    "constant": "{0}", "edge": "ref_clamp({0}, {1})", "wrap": "ref_wrap({0}, {1})",
    "reflect": "ref_reflect({0}, {1})",
}  # fmt: skip


def moves(operator: str) -> Callable:
    """Decorate the function that returns the place in operand 0 of a place in the result."""

    def add(source: Callable[[NodeCode, list[str]], list[str] | str]) -> Callable:
        @prints(operator)
        def move(code: NodeCode) -> None:
            with code.loops(code.y.shape) as places:
                code.line(f"{code.raw(code.y, places)} = {code.raw(0, source(code, places))};")

        return move

    return add


@moves("reshape")
def reshape(code: NodeCode, places: list[str]) -> str:
    return code.raw(code.y, places).partition("[")[2].removesuffix("]")


@moves("expand")
def expand(code: NodeCode, places: list[str]) -> list[str]:
    return places


@moves("transpose")
def transpose(code: NodeCode, places: list[str]) -> list[str]:
    return [places[code.attrs["perm"].index(axis)] for axis in range(len(places))]


@moves("slice")
def slice_(code: NodeCode, places: list[str]) -> list[str]:
    rows = zip(code.attrs["starts"], places, code.attrs["steps"])
    return [f"{start} + {i} * ({step})" for start, i, step in rows]


@moves("pick")
def pick(code: NodeCode, places: list[str]) -> list[str]:
    by_axis = {axis: code.raw(i, places[axis]) for i, axis in enumerate(code.attrs["axes"], 1)}
    return [by_axis.get(axis, place) for axis, place in enumerate(places)]


@moves("gather")
def gather(code: NodeCode, places: list[str]) -> list[str]:
    axis, end = code.attrs["axis"], code.attrs["axis"] + len(code.shape(1))
    index = f"ref_index({code.at(1, places[axis:end])}, {code.shape(0)[axis]})"
    return [*places[:axis], index, *places[end:]]


@prints("concat")
def concat(code: NodeCode) -> None:
    axis, start = code.attrs["axis"], 0
    for part in code.node.inputs:
        with code.loops(part.shape) as places:
            to = [f"{start} + {p}" if d == axis else p for d, p in enumerate(places)]
            code.line(f"{code.raw(code.y, to)} = {code.raw(part, places)};")
        start += part.shape[axis]


@prints("pad")
def pad(code: NodeCode) -> None:
    shape, mode = code.shape(0), code.attrs["mode"]
    with code.loops(code.y.shape) as places:
        sources = [f"s{d}" for d in range(len(places))]
        for s, place, before, extent in zip(sources, places, code.attrs["before"], shape):
            text = OUTSIDE[mode].format(f"{place} - {before}", extent)
            code.line(f"const long {s} = {text};")
        inside = " && ".join(f"{s} >= 0 && {s} < {n}" for s, n in zip(sources, shape)) or "1"
        other = code.raw(1, "0") if mode == "constant" and code.has(1) else "0"
        text = f"{inside} ? {code.raw(0, sources)} : {other}"
        code.line(f"{code.raw(code.y, places)} = {text};")


@prints("scatter_nd")
def scatter_nd(code: NodeCode) -> None:
    with code.loop("i", prod(code.y.shape)):
        code.line(f"{code.raw(code.y, 'i')} = {code.raw(0, 'i')};")
    *outer, count = code.shape(1)
    with code.loops(code.shape(2)) as places:
        target = list(places[len(outer) :])
        for d in reversed(range(count)):
            index = code.at(1, [*places[: len(outer)], str(d)])
            code.line(f"const long k{d} = ref_index({index}, {code.shape(0)[d]});")
            target.insert(0, f"k{d}")
        reduced = REDUCED[code.attrs["reduction"]]
        code.store(target, reduced.format(y=code.raw(code.y, target), x=code.at(2, places)))

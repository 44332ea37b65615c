"""Operators that move elements, by index arithmetic."""

from __future__ import annotations

from math import prod

import numpy as np

from tvmrt.compiler.sdk.graph import Node

from .code import NodeCode, prints

REDUCED = {
    "none": "{x}", "add": "{y} + {x}", "mul": "{y} * {x}", "max": "ref_max({y}, {x})",
    "min": "ref_min({y}, {x})",
}  # fmt: skip
OUTSIDE = -(1 << 40)  # place of an element that a padding has


def sources(node: Node) -> tuple[int, list[np.ndarray]] | None:
    """Return the place in operand 0 of each element of the result, as a sum of a number and one
    array for each axis; None if it is not such a sum, or depends on computed operands.

    The definition of the operator moves the places instead of elements.
    """
    x, *others = node.inputs
    if not all(v is None or v.is_constant for v in others) and node.op != "pad":
        return None
    rest = [np.int64(OUTSIDE)] if node.op == "pad" else [v.data for v in others if v is not None]
    places = np.arange(x.type.size).reshape(x.shape)
    (found,) = node.operator.evaluate([places, *rest], node.attrs)
    if found.size == 0:
        return 0, [np.zeros(n, np.int64) for n in found.shape]
    at = np.unravel_index(int(found.argmax()), found.shape)
    base = int(found[at])
    lines = [found[(*at[:d], slice(None), *at[d + 1 :])] for d in range(found.ndim)]
    lines = [np.where(line < 0, OUTSIDE, line - base) for line in lines]
    whole = base + sum(np.ix_(*lines)) if lines else np.asarray(base)
    is_sum = np.array_equal(np.maximum(whole, -1), np.maximum(found, -1))
    return (base, lines) if is_sum else None


@prints("identity", "reshape", "expand", "transpose", "slice", "pick", "pad")
def move(code: NodeCode) -> None:
    found = sources(code.node)
    assert found is not None
    base, lines = found
    terms = [str(base)]
    for d, line in enumerate(lines):
        step = int(line[1]) if line.size > 1 else 0
        if not np.array_equal(line, step * np.arange(line.size)):
            code.line(f"static const int64_t p{d}[] = {{{', '.join(map(str, line))}}};")
            terms.append(f"p{d}[i{d}]")
        elif step:
            terms.append(f"i{d} * ({step})")
    with code.loops(code.y.shape) as places:
        text = code.raw(0, " + ".join(terms))
        if any((line == OUTSIDE).any() for line in lines):
            code.line(f"const int64_t place = {' + '.join(terms)};")
            other = code.raw(1, "0") if code.has(1) else "0"
            text = f"place < 0 ? {other} : {code.raw(0, 'place')}"
        code.line(f"{code.raw(code.y, places)} = {text};")


@prints("gather")
def gather(code: NodeCode) -> None:
    axis, end = code.attrs["axis"], code.attrs["axis"] + len(code.shape(1))
    with code.loops(code.y.shape) as places:
        index = f"ref_index({code.at(1, places[axis:end])}, {code.shape(0)[axis]})"
        source = code.raw(0, [*places[:axis], index, *places[end:]])
        code.line(f"{code.raw(code.y, places)} = {source};")


@prints("concat")
def concat(code: NodeCode) -> None:
    axis, start = code.attrs["axis"], 0
    for part in code.node.inputs:
        with code.loops(part.shape) as places:
            to = [f"{start} + {p}" if d == axis else p for d, p in enumerate(places)]
            code.line(f"{code.raw(code.y, to)} = {code.raw(part, places)};")
        start += part.shape[axis]


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

"""Reductions, softmax, layer normalisation and search for extremes."""

from __future__ import annotations

from math import prod

from .code import NodeCode, prints

_STEPS = {
    "reduce_sum": "acc += {x}", "reduce_mean": "acc += {x}", "reduce_prod": "acc *= {x}",
    "reduce_max": "if (!(acc >= {x}) && acc == acc) acc = {x}",
    "reduce_min": "if (!(acc <= {x}) && acc == acc) acc = {x}",
    "reduce_sum_square": "acc += {x} * {x}",
}  # fmt: skip
_STARTS = {  # of integers and of floats
    "reduce_max": ("INT64_MIN", "-INFINITY"), "reduce_min": ("INT64_MAX", "INFINITY"),
    "reduce_prod": ("1", "1"),
}  # fmt: skip


@prints(*_STEPS)
def reduce(code: NodeCode) -> None:
    shape, axes, op = code.shape(0), code.attrs["axes"], code.node.op
    is_float = code.y.dtype.is_float
    wraps = op in ("reduce_sum", "reduce_prod", "reduce_sum_square")
    wide = "double" if is_float else "uint64_t" if wraps else "int64_t"
    with code.loops([1 if d in axes else n for d, n in enumerate(shape)]) as outer:
        code.line(f"{wide} acc = {_STARTS.get(op, ('0', '0'))[is_float]};")
        with code.loops([shape[d] for d in axes], "k") as inner:
            inside = dict(zip(axes, inner))
            places = [inside.get(d, place) for d, place in enumerate(outer)]
            code.line(_STEPS[op].format(x=f"({code.at(0, places)})") + ";")
        kept = (
            outer if code.attrs["keepdims"] else [p for d, p in enumerate(outer) if d not in axes]
        )
        count = prod(shape[d] for d in axes)
        code.store(kept, f"acc / {count if is_float else max(count, 1)}" if "mean" in op else "acc")


@prints("argmax", "argmin")
def argmax(code: NodeCode) -> None:
    """The first extreme element, or the last of equals; NaN precedes every number."""
    shape, axis = code.shape(0), code.attrs["axis"]
    sign = ">" if code.node.op == "argmax" else "<"
    with code.loops([1 if d == axis else n for d, n in enumerate(shape)]) as places:
        code.line("long best = 0;")
        with code.loop("k", shape[axis]):
            x, b = (code.at(0, [*places[:axis], k, *places[axis + 1 :]]) for k in ("k", "best"))
            better = f"{x} {sign} {b} || ({x} != {x} && {b} == {b})"
            if code.attrs["select_last"]:
                better += f" || {x} == {b} || ({x} != {x} && {b} != {b})"
            code.line(f"if ({better}) best = k;")
        kept = places if code.attrs["keepdims"] else [*places[:axis], *places[axis + 1 :]]
        code.store(kept, "best")


@prints("softmax")
def softmax(code: NodeCode) -> None:
    shape, axis = code.shape(0), code.attrs["axis"]
    with code.loops([1 if d == axis else n for d, n in enumerate(shape)]) as places:
        at = [*places[:axis], "k", *places[axis + 1 :]]
        x = code.at(0, at)
        code.line("double most = -INFINITY, sum = 0;")
        with code.loop("k", shape[axis]):
            code.line(f"if (!(most >= {x}) && most == most) most = {x};")
        with code.loop("k", shape[axis]):
            code.line(f"sum += exp({x} - most);")
        with code.loop("k", shape[axis]):
            log = code.attrs.get("log")
            code.store(at, f"{x} - most - log(sum)" if log else f"exp({x} - most) / sum")


@prints("layer_norm")
def layer_norm(code: NodeCode) -> None:
    """(x - mean) / sqrt(variance + epsilon) * scale + shift."""
    shape, axis = code.shape(0), code.attrs["axis"]
    n = prod(shape[axis:])
    with code.loop("r", prod(shape[:axis])):
        x = code.at(0, f"r * {n} + k")
        code.line("double mean = 0, variance = 0;")
        if code.attrs["centre"]:
            with code.loop("k", n):
                code.line(f"mean += {x} / {n};")
        with code.loop("k", n):
            code.line(f"variance += ({x} - mean) * ({x} - mean) / {n};")
        with code.loop("k", n):
            y = f"({x} - mean) / sqrt(variance + {float(code.attrs['epsilon'])!r})"
            scaled = f"{y} * {code.at(1, 'k')}" if code.has(1) else y
            code.store(f"r * {n} + k", f"{scaled} + {code.or_zero(2, 'k')}")

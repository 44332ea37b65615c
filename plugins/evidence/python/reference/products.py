"""Convolutions, matrix products, pooling and resampling: sums in double, integers exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .code import NodeCode, c_type, prints


@contextmanager
def window(
    code: NodeCode, kernel: Sequence[int], outs: Sequence[str], inside: str = "continue;"
) -> Iterator[tuple[list[str], list[str]]]:
    """Loop over a window. Places outside of x run the statement ``inside``."""
    a, shape = code.attrs, code.node.inputs[0].shape[2:]
    with code.loops(kernel, "k") as taps:
        sources = [f"s{d}" for d in range(len(kernel))]
        for d, s in enumerate(sources):
            step, dilation, before = (a[k][d] for k in ("strides", "dilations", "pads_before"))
            code.line(f"const long {s} = {outs[d]} * {step} + k{d} * {dilation} - {before};")
        outside = " || ".join(f"{s} < 0 || {s} >= {n}" for s, n in zip(sources, shape))
        code.line(f"if ({outside}) {inside}")
        yield taps, sources


def conv_sum(code: NodeCode, places: Sequence[str], term: str) -> None:
    """Add the products of a convolution to ``sum``; ``term``: of {x} and {w}."""
    w, (n, channel, *outs) = code.shape(1), places
    with code.loop("c", w[1]):
        source = f"{channel} / {w[0] // code.attrs['groups']} * {w[1]} + c"
        with window(code, w[2:], outs) as (taps, sources):
            x, weight = code.at(0, [n, source, *sources]), code.at(1, [channel, "c", *taps])
            code.line(f"sum += {term.format(x=x, w=weight, channel=channel)};")


def matmul_sum(code: NodeCode, places: Sequence[str], term: str) -> None:
    """Add the products of a matrix product to ``sum``."""
    *batch, row, column = places
    with code.loop("k", code.shape(0)[-1]):
        a, b = code.at(0, [*batch, row, "k"]), code.at(1, [*batch, "k", column])
        code.line(f"sum += {term.format(x=a, w=b, channel=column)};")


@prints("conv", "matmul")
def product(code: NodeCode) -> None:
    is_conv = code.node.op == "conv"
    with code.loops(code.y.shape) as places:
        code.line(f"double sum = {code.or_zero(2, places[1] if is_conv else places)};")
        (conv_sum if is_conv else matmul_sum)(code, places, "{x} * {w}")
        code.store(places, "sum")


@prints("conv_transpose")
def conv_transpose(code: NodeCode) -> None:
    """Input i and a tap add to the result at i * stride + tap * dilation - before."""
    w, a, x = code.shape(1), code.attrs, code.shape(0)
    per_group = w[0] // a["groups"]
    with code.loops(code.y.shape) as (n, channel, *outs):
        code.line(f"double sum = {code.or_zero(2, channel)};")
        with code.loop("c", per_group), code.loops(w[2:], "k") as taps:
            source, sources = f"{channel} / {w[1]} * {per_group} + c", []
            for d, tap in enumerate(taps):
                stride, step, before = (a[k][d] for k in ("strides", "dilations", "pads_before"))
                code.line(f"const long p{d} = {outs[d]} + {before} - {tap} * {step};")
                code.line(
                    f"if (p{d} < 0 || p{d} % {stride} || p{d} / {stride} >= {x[2 + d]}) continue;"
                )
                sources.append(f"p{d} / {stride}")
            weight = code.at(1, [source, f"{channel} % {w[1]}", *taps])
            code.line(f"sum += {code.at(0, [n, source, *sources])} * {weight};")
        code.store([n, channel, *outs], "sum")


@prints("max_pool")
def max_pool(code: NodeCode) -> None:
    dtype = code.y.dtype
    low = "-INFINITY" if dtype.is_float else "0" if not dtype.is_signed else f"INT{dtype.bits}_MIN"
    with code.loops(code.y.shape) as places:
        code.line(f"{c_type(code.y)} most = {low};")
        with window(code, code.attrs["kernel"], places[2:]) as (_, sources):
            x = code.raw(0, [*places[:2], *sources])
            code.line(f"if ({x} > most || {x} != {x}) most = {x};")
        code.store(places, "most")


def mean_of_windows(code: NodeCode, places: Sequence[str], total: str, zero: int) -> None:
    """Print the sum of x - zero and the count of a window; padding counts if the node says so."""
    a = code.attrs
    code.line(f"{total} sum = 0;")
    code.line("long count = 0;")
    beyond = ""
    if a["count_pads"]:  # what lies beyond the padding does not count
        ends = zip(code.shape(0)[2:], a["pads_after"])
        within = " && ".join(f"s{d} < {n + after}" for d, (n, after) in enumerate(ends))
        beyond = f"count += {within}; "
    inside = f"{{ {beyond}continue; }}"
    with window(code, a["kernel"], places[2:], inside) as (_, sources):
        code.line("count++;")
        code.line(f"sum += {code.at(0, [*places[:2], *sources])} - ({zero});")


@prints("avg_pool")
def avg_pool(code: NodeCode) -> None:
    with code.loops(code.y.shape) as places:
        mean_of_windows(code, places, "double", 0)
        code.store(places, "sum / count")


@prints("qavg_pool_zero_first")
def qavg_pool_zero_first(code: NodeCode) -> None:
    """clamp(round(mean / y_scale + y_zero)): the zero point is added before the rounding."""
    a = code.attrs
    with code.loops(code.y.shape) as places:
        mean_of_windows(code, places, "int64_t", a["x_zero"])
        mean = f"(double)sum / count * {float(a['x_scale'])!r} / {float(a['y_scale'])!r}"
        code.store(places, f"ref_saturate({mean} + {a['y_zero']}, 0, {a['low']}, {a['high']})")


@prints("qmatmul")
def qmatmul(code: NodeCode) -> None:
    """The exact sum of (x - x_zero) * (w - w_zero) and the bias, or its product with a scale."""
    to, zero = code.attrs["to"], f"({{x}} - ({code.attrs['x_zero']}))"
    with code.loops(code.y.shape) as places:
        channel = {
            i: "0" if code.has(i) and code.shape(i) in ((), (1,)) else places[-1] for i in (2, 3, 4)
        }
        code.line(f"int64_t sum = {code.or_zero(3, channel[3])};")
        matmul_sum(code, places, f"{zero} * ({{w}} - {code.or_zero(4, channel[4])})")
        scaled = f"(float)sum * {code.at(2, channel[2])}"
        code.store(places, "sum" if to == "int32" else scaled)


@prints("resample")
def resample(code: NodeCode) -> None:
    axis = code.attrs["axis"]
    with code.loops(code.y.shape) as places:
        code.line("double sum = 0;")
        with code.loop("k", code.shape(1)[1]):
            source = list(places)
            source[axis] = code.raw(1, [places[axis], "k"])
            code.line(f"sum += {code.at(0, source)} * {code.at(2, [places[axis], 'k'])};")
        code.store(places, "sum")

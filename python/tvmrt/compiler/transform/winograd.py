"""Winograd for 3x3 convolutions of stride 1, where it is faster and accurate enough."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.limits import constant_bytes
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import lower_bound, symbols_of
from tvmrt.compiler.ir.winograd import TAPS, TILE_SIZES, WinogradConversion, winograd_tiles

from .rewrite import rewrite

# Cost of a layer in multiply-adds; fitted to times of tests/bench/bench_winograd.py, AVX-512.
# per tile: computing and storing its elements, loading and summing them
CHANNEL_COST = {2: 150, 4: 500}
TILE_COST = {2: 5000, 4: 12000}
ACCUMULATION_COST = 12  # of a sum over channels: register tiles start with zeros, end with stores
PIXEL_COST = 60  # of a sum over a window, for the same reason
# Cost of reading a weight by the bytes of weights of the layer: from the caches of a core, from a
# shared cache, from memory.
READ_COST = ((256 << 10, 1.5), (4 << 20, 10.0), (float("inf"), 20.0))
GAIN = 1.15  # minimum speed-up: a layer must gain more than its larger weights may cost others
SAMPLES = 16  # tiles that are used to measure the error of a layer
CHANNELS = 32  # result channels that are used for it
# Limits of the default: weights grow by at most a quarter, or by an amount that is small on any
# host, and the error is like that of float32 sums in another order.
MAX_GROWTH_DIVISOR, SMALL_GROWTH_BYTES = 4, 4 << 20
DEFAULT_MAX_ERROR = 4e-6


def to_winograd(
    graph: Graph, max_error: float | None, max_growth_bytes: int | None = None
) -> list[WinogradConversion]:
    """Replace convolutions by Winograd convolutions.

    Parameters
    ----------
    graph
        Changed in place.
    max_error
        Maximum error (of a ``WinogradConversion``); layers above it are not replaced. None: no
        limit.
    max_growth_bytes
        Maximum growth of weights in bytes, spent first on layers that gain most per byte. None:
        no limit.

    Returns
    -------
    A row for each layer that would be faster, in the order of the network, except for layers
    that exceed ``max_growth_bytes``.
    """
    options = [each for node in graph.nodes for each in _options_of(node, max_error)]
    affordable = _affordable(options, max_growth_bytes)
    direct = [each for each in options if each.report.size == 1]
    rows = {id(each.node): each.report for each in (*direct, *affordable)}

    def replace_node(b: Builder, node: Node) -> Value | None:
        report = rows.get(id(node))
        return None if report is None or report.size == 1 else _emit_winograd(b, node, report.size)

    order = [rows[id(node)] for node in graph.nodes if id(node) in rows]
    rewrite(graph, replace_node)
    return order


def to_winograd_within_limits(graph: Graph) -> list[WinogradConversion]:
    """Apply :func:`to_winograd` with the limits of the default: little memory and little error."""
    max_growth_bytes = max(constant_bytes(graph) // MAX_GROWTH_DIVISOR, SMALL_GROWTH_BYTES)
    return to_winograd(graph, DEFAULT_MAX_ERROR, max_growth_bytes)


@dataclass(frozen=True)
class _Option:
    """Layer with one tile extent: multiply-adds saved, and growth of its weights in bytes. With
    extent 1 if the error of all faster ones is too large."""

    node: Node
    report: WinogradConversion
    saved_macs: float = 0.0
    max_growth_bytes: int = 0


def _options_of(node: Node, max_error: float | None) -> list[_Option]:
    """Return the tile extents of a layer that are faster and accurate enough, fastest first."""
    if not _is_supported(node):
        return []
    options, error = [], 0.0
    weights = node.inputs[1]
    for size, gain in _faster_tiles(node):
        error = error_of(weights.data, size)
        if max_error is None or error <= max_error:
            saved_macs = _shape(node).direct_cost() * (1 - 1 / gain)
            more = weights.type.nbytes * ((size + TAPS - 1) ** 2 - TAPS**2) // TAPS**2
            options.append(
                _Option(node, WinogradConversion(node.name, size, gain, error), saved_macs, more)
            )
    if error and not options:
        options.append(_Option(node, WinogradConversion(node.name, 1, 1.0, error)))
    return options


def _affordable(options: Sequence[_Option], max_growth_bytes: int | None) -> list[_Option]:
    """Return one option per layer, the fastest that the growth of weights allows."""
    selected: dict[int, _Option] = {}
    left = float("inf") if max_growth_bytes is None else max_growth_bytes
    faster = [each for each in options if each.report.size > 1]
    for each in sorted(faster, key=lambda each: -each.saved_macs / max(1, each.max_growth_bytes)):
        before = selected.get(id(each.node))
        more = each.max_growth_bytes - (before.max_growth_bytes if before else 0)
        if more <= left and (before is None or each.saved_macs > before.saved_macs):
            selected[id(each.node)] = each
            left -= more
    return list(selected.values())


@dataclass(frozen=True)
class _Shape:
    """Properties of a layer that its time depends on."""

    images: int
    height: int
    width: int
    ins: int
    outs: int

    def tile_count(self, size: int) -> int:
        return self.images * ceil_div(self.height, size) * ceil_div(self.width, size)

    def direct_cost(self) -> float:
        """Return the cost of direct convolution in multiply-adds."""
        pixels = self.images * self.height * self.width
        return pixels * self.outs * (TAPS * TAPS * self.ins + PIXEL_COST)

    def winograd_cost(self, size: int) -> float:
        positions, tile_count = (size + TAPS - 1) ** 2, self.tile_count(size)
        weights = positions * self.ins * self.outs
        read_cost = next(each for limit, each in READ_COST if weights * 4 <= limit)
        per_tile = CHANNEL_COST[size] * (self.ins + self.outs) + TILE_COST[size]
        multiplications = positions * (self.ins + ACCUMULATION_COST) * self.outs
        return tile_count * (multiplications + per_tile) + weights * read_cost


def _is_supported(node: Node) -> bool:
    if node.op != "conv" or node.inputs[0].type.rank != 4:
        return False
    x, w, attrs = node.inputs[0], node.inputs[1], node.attrs
    ones = (*attrs["strides"], *attrs["dilations"], attrs["groups"])
    return (
        tuple(w.shape[2:]) == (TAPS, TAPS)
        and all(n == 1 for n in ones)
        and w.is_constant
        and not w.keeps_layout  # it is stored in the library in a device's format
        and bool(np.isfinite(w.data).all())
        and not symbols_of(*x.shape[1:], *node.output.shape[1:])  # only the batch may be dynamic
    )


def _shape(node: Node) -> _Shape:
    x, y = node.inputs[0].shape, node.output.shape
    return _Shape(lower_bound(x[0]), y[2], y[3], x[1], y[1])


def _faster_tiles(node: Node) -> Iterator[tuple[int, float]]:
    """Yield (tile extent, speed-up) of the faster ones, the fastest first."""
    if not all(map(lower_bound, (*node.inputs[0].shape, *node.output.shape))):
        return
    shape = _shape(node)
    gains = {size: shape.direct_cost() / shape.winograd_cost(size) for size in TILE_SIZES}
    for size in sorted(TILE_SIZES, key=lambda size: -gains[size]):
        if gains[size] >= GAIN:
            yield size, gains[size]


def error_of(weights: np.ndarray, size: int) -> float:
    """Return the relative root mean square error of results for standard normal inputs."""
    some = weights[:CHANNELS]
    edge = size + TAPS - 1
    x = np.random.default_rng(0).standard_normal((SAMPLES, some.shape[1], edge, edge), np.float32)
    layer_tiles = winograd_tiles(x, some, size)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.float64), (TAPS, TAPS), (2, 3))
    exact = np.einsum("scijkl,ockl->soij", windows, some.astype(np.float64), optimize=True)
    scale = np.sqrt(np.square(exact).mean())
    return float(np.sqrt(np.square(layer_tiles - exact).mean()) / scale) if scale else 0.0


def _emit_winograd(b: Builder, node: Node, size: int) -> Value:
    pads = {name: tuple(node.attrs[name]) for name in ("pads_before", "pads_after")}
    return b.emit("conv_winograd", list(node.inputs), node.name, size=size, **pads)

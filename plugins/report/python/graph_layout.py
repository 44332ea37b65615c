"""Layout of a network's graph: layers by depth, few crossings, short edges.

The layout is computed when a report is written, so that a page opens without delay and needs no
layout library. It follows Sugiyama: layers by the longest path, order within a layer by the mean
position of neighbours, and positions as near to the neighbours as their widths allow. An edge that
crosses layers has a point in each; all edges from one vertex share these points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SWEEPS = 8
MAX_POINTS = 20_000  # of edges that cross layers; longer edges beyond the limit are drawn straight


@dataclass
class Layout:
    """Positions in units of a vertex's width and of the distance between layers.

    ``x`` and ``layer`` have an entry per vertex; ``bends`` has, for each edge, the x in each layer
    that it crosses.
    """

    x: list[float]
    layer: list[int]
    bends: list[list[float]]


@dataclass
class _Points:
    """Vertices, followed by the points where edges cross layers; ``up`` and ``down`` link points of
    neighbouring layers."""

    layer: list[int]
    up: list[list[int]] = field(default_factory=list)
    down: list[list[int]] = field(default_factory=list)
    passed: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.count = len(self.layer)  # number of vertices
        self.up = [[] for _ in self.layer]
        self.down = [[] for _ in self.layer]

    def add(self, layer: int) -> int:
        self.layer.append(layer)
        self.up.append([])
        self.down.append([])
        return len(self.layer) - 1

    def link(self, above: int, below: int) -> None:
        self.down[above].append(below)
        self.up[below].append(above)


def layout_graph(count: int, edges: Sequence[tuple[int, int]]) -> Layout:
    """Place ``count`` vertices; the first vertex of each edge has the smaller number."""
    layers = _layers(count, edges)
    points = _with_points(layers, edges)
    rows: list[list[int]] = [[] for _ in range(max(points.layer, default=-1) + 1)]
    for point, layer in enumerate(points.layer):
        rows[layer].append(point)
    x = [0.0] * len(points.layer)
    for row in rows:
        _center_row(row, x, points)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        for row in rows if downwards else reversed(rows):
            _move_row(row, x, points, points.up if downwards else points.down, sweep < SWEEPS - 2)
    least = min(x[:count], default=0.0)
    x = [round(each - least, 2) for each in x]
    bends = [_bends(a, b, points, x) for a, b in edges]
    return Layout(x[:count], layers, bends)


def _layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Layer by the longest path; a vertex without predecessors is just above its first reader."""
    layers = [0] * count
    for a, b in sorted(edges, key=lambda edge: edge[1]):
        layers[b] = max(layers[b], layers[a] + 1)
    has_above = {b for _, b in edges}
    first: dict[int, int] = {}
    for a, b in edges:
        first[a] = min(first.get(a, layers[b]), layers[b])
    return [layers[i] if i in has_above or i not in first else first[i] - 1 for i in range(count)]


def _with_points(layers: list[int], edges: Sequence[tuple[int, int]]) -> _Points:
    points = _Points(list(layers))
    last: dict[int, int] = {}
    for a, b in edges:
        last[a] = max(last.get(a, 0), layers[b])
    room = MAX_POINTS
    for a in sorted(last, key=lambda a: last[a] - layers[a]):
        passed = range(layers[a] + 1, last[a])
        if len(passed) > room:
            break
        room -= len(passed)
        points.passed[a] = [points.add(layer) for layer in passed]
        for above, below in zip([a, *points.passed[a]], points.passed[a]):
            points.link(above, below)
    for a, b in edges:
        before = layers[b] - layers[a] - 1
        if before == 0:
            points.link(a, b)
        elif a in points.passed:
            points.link(points.passed[a][before - 1], b)
    return points


def _width(point: int, points: _Points) -> float:
    return 1.15 if point < points.count else 0.3


def _center_row(row: list[int], x: list[float], points: _Points) -> None:
    """Place a row side by side around 0."""
    widths = [_width(point, points) for point in row]
    at = -sum(widths) / 2
    for point, width in zip(row, widths):
        x[point] = at + width / 2
        at += width


def _move_row(
    row: list[int], x: list[float], points: _Points, adjacent: list[list[int]], order: bool
) -> None:
    """Move a row towards its neighbours in ``adjacent``; reorder it if `order` is set."""
    positions = {point: _target_position(point, x, points, adjacent[point]) for point in row}
    if order:
        row.sort(key=positions.__getitem__)
    # After subtracting the width to the left of each point, positions must not decrease. Violating
    # neighbours are merged into blocks at their mean, the nearest solution (isotonic regression).
    shifts, at = [], 0.0
    for i, point in enumerate(row):
        half = _width(point, points) / 2
        at += half if i else 0.0
        shifts.append(at)
        at += half
    blocks: list[tuple[float, float, int]] = []  # mean, weight, number of points
    for point, shift in zip(row, shifts):
        block = (positions[point] - shift, 4.0 if point < points.count else 1.0, 1)
        while blocks and blocks[-1][0] > block[0]:
            mean, weight, size = blocks.pop()
            total = weight + block[1]
            block = ((mean * weight + block[0] * block[1]) / total, total, size + block[2])
        blocks.append(block)
    means = [mean for mean, _, size in blocks for _ in range(size)]
    for point, shift, mean in zip(row, shifts, means):
        x[point] = mean + shift


def _target_position(point: int, x: list[float], points: _Points, adjacent: list[int]) -> float:
    """Return the mean position of neighbours. The point's own kind has more weight, which
    straightens chains of vertices and long edges."""
    own = point < points.count
    weights = [1.0 if (n < points.count) == own else 0.1 for n in adjacent]
    total = sum(weights)
    return sum(x[n] * w for n, w in zip(adjacent, weights)) / total if adjacent else x[point]


def _bends(a: int, b: int, points: _Points, x: list[float]) -> list[float]:
    between = points.layer[b] - points.layer[a] - 1
    return [x[point] for point in points.passed.get(a, [])[:between]]

"""Pictures of a memory plan: time on x, addresses downwards, one box per tensor.

Text and SVG are drawn from a :class:`Picture`; the SVG is a Jinja2 template.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from tvmrt.compiler.export.summary import covered_bytes
from tvmrt.compiler.ir.program import RowFusionPlan
from tvmrt.compiler.pictures import frontier_picture
from tvmrt.compiler.pictures.operator_kinds import OTHER, kind_of
from tvmrt.compiler.pictures.render import render

MARKS = string.ascii_uppercase + string.ascii_lowercase + string.digits
FREE = "·"


@dataclass(frozen=True)
class Box:
    """Tensor in memory: ``size`` bytes at ``offset`` from step ``first`` to ``last``; ``kind`` is
    the kind of the operator that writes it."""

    name: str
    offset: int
    size: int
    first: int
    last: int
    kind: str = OTHER


@dataclass(frozen=True)
class Picture:
    """Content of a picture: boxes, names of the steps, and the bytes of the plan.

    ``networks``: names with the first step of each; ``pools``: names with the first byte. If memory
    was limited, ``plans`` has for each network the bytes of its plan, and all alternative plans.
    """

    boxes: Sequence[Box]
    steps: Sequence[str]
    arena_bytes: int
    lower_bound_bytes: int
    weights_bytes: int = 0
    networks: Sequence[tuple[str, int]] = ()
    pools: Sequence[tuple[str, int]] = ()
    plans: Sequence[tuple[int, Sequence[RowFusionPlan]]] = ()

    def count_steps(self) -> int:
        """Return the number of steps on the time axis."""
        return max([len(self.steps), *(box.last + 1 for box in self.boxes)], default=1) or 1

    def peak(self) -> tuple[int, int]:
        """Return the first step with the maximum number of bytes in use, and that number."""
        live_ranges: list[list[tuple[int, int]]] = [[] for _ in range(self.count_steps())]
        for box in self.boxes:
            for step in range(box.first, box.last + 1):
                live_ranges[step].append((box.offset, box.offset + box.size))
        live = [covered_bytes(spans) for spans in live_ranges]
        return live.index(max(live)), max(live)


def of_libraries(libraries: Sequence[Any]) -> Picture:
    """Make one picture of networks: their pools stacked, their steps one after the other."""
    pools = [[pool for lib in libraries for pool in lib.summary.pools if pool.name == name]
             for name in (pool.name for pool in libraries[0].summary.pools)]  # fmt: skip
    begins, height = {}, 0
    for same in pools:
        begins[same[0].name] = height
        height += max(pool.used_bytes for pool in same)
    boxes: list[Box] = []
    steps: list[str] = []
    networks = []
    for library in libraries:
        networks.append((library.module_name, len(steps)))
        boxes += _boxes(library, begins, len(steps), named=len(pools) > 1)
        steps += [operator.name for operator in library.summary.operators]
    summaries = [library.summary for library in libraries]
    plans = [(each.arena_bytes, each.row_plans) for each in summaries if len(each.row_plans) > 1]
    return Picture(
        boxes, steps, height, max(each.lower_bound_bytes for each in summaries),
        sum(each.weights_bytes for each in summaries), networks, list(begins.items()), plans,
    )  # fmt: skip


def _boxes(library: Any, begins: Mapping[str, int], step: int, named: bool) -> list[Box]:
    """Return the tensors of a network whose first step is ``step`` and whose pools start at
    ``begins``; inputs and outputs in pools are clipped to existing steps."""
    summary = library.summary
    end = step + max(len(summary.operators) - 1, 0)
    kinds = {
        buffer.name: kind_of(each.group.root.op)
        for each in library.program.steps
        for buffer in (*(access.buffer for access in each.writes), each.scratch)
        if buffer is not None
    }
    return [
        Box(
            f"{row.buffer} in {row.pool}" if named else row.buffer,
            begins.get(row.pool, 0) + row.offset,
            row.size,
            step + max(row.first, 0),
            min(step + row.last, end),
            kinds.get(row.buffer, OTHER),
        )
        for row in summary.plan
    ]


def _caption(picture: Picture) -> str:
    bound = picture.lower_bound_bytes
    ratio = f" ({picture.arena_bytes / bound:.3f} of it)" if bound else ""
    return (
        f"{picture.arena_bytes:,} bytes for {len(picture.boxes)} tensors over "
        f"{picture.count_steps()} steps; at least {bound:,} by their lifetimes{ratio}"
    )


def text(picture: Picture, width: int = 72, height: int = 18) -> str:
    """Draw with one letter per tensor, at most ``width`` by ``height`` characters, and a key.

    A tensor smaller than a row still gets one, so that none is missing from the picture.
    """
    steps, arena = picture.count_steps(), max(picture.arena_bytes, 1)
    columns = min(width, steps * max(1, width // steps))
    grid = [[FREE] * columns for _ in range(height)]
    order = sorted(range(len(picture.boxes)), key=lambda i: -picture.boxes[i].size)
    for index in order:
        box = picture.boxes[index]
        top = min(box.offset * height // arena, height - 1)
        bottom = max(top + 1, round((box.offset + box.size) * height / arena))
        left = box.first * columns // steps
        right = max(left + 1, (box.last + 1) * columns // steps)
        for row in grid[top:bottom]:
            row[left:right] = MARKS[index % len(MARKS)] * (min(right, columns) - left)
    label = len(f"{arena:,}")
    lines = [_caption(picture)]
    for number, row in enumerate(grid):
        lines.append(f"{number * arena // height:>{label},} |{''.join(row)}|")
    lines.append(f"{arena:>{label},}  step 0 to {steps - 1}")
    for index, box in enumerate(picture.boxes):
        lines.append(
            f"  {MARKS[index % len(MARKS)]}  {box.size:>{label},} B at {box.offset:>{label},}, "
            f"steps {box.first} to {box.last}  {box.name}"
        )
    return "\n".join(lines)


LEFT, TOP, RIGHT, BOTTOM = 90, 62, 16, 58  # margins in pixels
LETTER = 6.5  # pixels per letter of labels
LEGEND = 110  # pixels per entry of the legend


def _common_prefix_length(names: Sequence[str]) -> int:
    """Return the length of the common prefix of names, up to the end of a part."""
    same = takewhile(lambda letters: len(set(letters)) == 1, zip(*names))
    start = "".join(letters[0] for letters in same)
    return max(map(start.rfind, "_/.")) + 1


def _short_names(names: Sequence[str]) -> dict[str, str]:
    """Return names without their common prefix and suffix."""
    if len(set(names)) < 2:
        return {name: name for name in names}
    begin = _common_prefix_length(names)
    end = _common_prefix_length([name[begin:][::-1] for name in names])
    return {name: name[begin : len(name) - end] or name for name in names}


def _label(name: str, length: float, depth: float) -> str:
    """Return the end of a name that fits, or nothing if too little fits."""
    length_limit = int((length - 4) / LETTER)
    if depth < 12 or length_limit < min(len(name), 5):
        return ""
    return name if len(name) <= length_limit else f"…{name[1 - length_limit :]}"


def _rows(picture: Picture, across: float, down: float) -> list[dict[str, Any]]:
    """Return the boxes in pixels, with labels where they fit: tensors with the same memory overlap
    for a step, and of overlapping labels only the first is kept."""
    several = len(picture.pools) > 1  # their names are at the side
    plain = [b.name.rpartition(" in ")[0] if several else b.name for b in picture.boxes]
    short, rows = _short_names(plain), []
    occupied: list[tuple[float, float, float, float]] = []
    for box, name in zip(picture.boxes, plain):
        w, h = (box.last + 1 - box.first) * across, box.size * down
        x, y = LEFT + box.first * across, TOP + box.offset * down
        upright = h > w and len(short[name]) * LETTER + 4 > w
        label = _label(short[name], h, w) if upright else _label(short[name], w, h)
        half = (7.0, len(label) * LETTER / 2) if upright else (len(label) * LETTER / 2, 7.0)
        cx, cy = x + w / 2, y + h / 2
        if any(abs(cx - a) < half[0] + c and abs(cy - b) < half[1] + d for a, b, c, d in occupied):
            label = ""
        if label:
            occupied.append((cx, cy, *half))
        place = {"x": x, "y": y, "width": w, "height": h}
        rows.append({"box": box, **place, "label": label, "upright": upright})
    return rows


def svg(picture: Picture, width: int = 960, height: int = 480) -> str:
    """Draw an SVG document of ``width`` by ``height`` pixels; boxes show their names on hover.

    Raises ImportError if Jinja2 is missing.
    """
    steps, arena = picture.count_steps(), max(picture.arena_bytes, 1)
    across, down = (width - LEFT - RIGHT) / steps, (height - TOP - BOTTOM) / arena
    rows = _rows(picture, across, down)
    peak, live = picture.peak()
    kinds = list(dict.fromkeys(box.kind for box in picture.boxes))
    fitting = max(1, (width - LEFT - RIGHT) // LEGEND)
    frontiers = [
        frontier_picture.frontier_values(
            taken, plans, (LEFT, height + i * frontier_picture.HEIGHT), width
        )
        for i, (taken, plans) in enumerate(picture.plans)
    ]
    return render(
        "memory.svg.j2", picture=picture, caption=_caption(picture), rows=rows, width=width,
        frontiers=frontiers, whole=height + len(frontiers) * frontier_picture.HEIGHT,
        left=LEFT, top=TOP, right=width - RIGHT, bottom=height - BOTTOM, across=across, down=down,
        shown_steps=range(0, steps, max(1, steps // 16)),
        addresses=[arena * quarter // 4 for quarter in range(5)], peak=peak, live=live,
        kinds=kinds[:fitting], entry=LEGEND,
    )  # fmt: skip

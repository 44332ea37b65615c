"""Pictures of a memory plan: time goes right, addresses go down, one box a tensor.

Both pictures are made from a :class:`Picture`; neither needs more than the standard library.
"""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

MARKS = string.ascii_uppercase + string.ascii_lowercase + string.digits
FREE = "·"


@dataclass(frozen=True)
class Box:
    """One tensor in memory: ``size`` bytes at ``offset`` from step ``first`` to ``last``."""

    name: str
    offset: int
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Picture:
    """What is drawn: the boxes, the names of the steps, and the bytes that the plan takes."""

    boxes: Sequence[Box]
    steps: Sequence[str]
    arena_bytes: int
    lower_bound_bytes: int

    def count_steps(self) -> int:
        """Return the number of steps on the time axis."""
        return max([len(self.steps), *(box.last + 1 for box in self.boxes)], default=1) or 1


def of_libraries(libraries: Sequence[Any]) -> Picture:
    """Make one picture of networks: their pools one above the other, their steps side by side."""
    pools = [[pool for lib in libraries for pool in lib.summary.pools if pool.name == name]
             for name in (pool.name for pool in libraries[0].summary.pools)]  # fmt: skip
    begins, height = {}, 0
    for same in pools:
        begins[same[0].name] = height
        height += max(pool.used_bytes for pool in same)
    boxes: list[Box] = []
    steps: list[str] = []
    for library in libraries:
        summary = library.summary
        boxes += _boxes(summary, begins, len(steps), named=len(pools) > 1)
        steps += [operator.name for operator in summary.operators]
    bound = max(library.summary.lower_bound_bytes for library in libraries)
    return Picture(boxes, steps, height, bound)


def _boxes(summary: Any, begins: Mapping[str, int], step: int, named: bool) -> list[Box]:
    """The tensors of a network whose first step is number ``step`` and whose pools begin there;
    inputs and outputs in pools are cut to the steps that there are."""
    end = step + max(len(summary.operators) - 1, 0)
    return [
        Box(
            f"{row.buffer} in {row.pool}" if named else row.buffer,
            begins.get(row.pool, 0) + row.offset,
            row.size,
            step + max(row.first, 0),
            min(step + row.last, end),
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
    """Draw with one letter a tensor, at most ``width`` by ``height`` characters, and a key.

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


LEFT, TOP, RIGHT, BOTTOM = 90, 46, 16, 40  # margins in pixels


def _colour(index: int) -> str:
    hue = index * 137.508 % 360  # the golden angle keeps neighbours apart
    return f"hsl({hue:.0f},55%,{72 if index % 2 else 62}%)"


def _label(box: Box, x: float, y: float, width: float, height: float) -> str | None:
    fits = int(width / 6.5)
    if height < 12 or fits < 3:
        return None
    name = box.name if len(box.name) <= fits else box.name[: fits - 1] + "…"
    return f'<text x="{x + width / 2:.1f}" y="{y + height / 2 + 4:.1f}">{escape(name)}</text>'


def svg(picture: Picture, width: int = 960, height: int = 480) -> str:
    """Draw as an SVG document of ``width`` by ``height`` pixels; boxes name themselves on hover."""
    steps, arena = picture.count_steps(), max(picture.arena_bytes, 1)
    across, down = (width - LEFT - RIGHT) / steps, (height - TOP - BOTTOM) / arena
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="14">{escape(_caption(picture))}</text>',
        f'<rect x="{LEFT}" y="{TOP}" width="{across * steps:.1f}" height="{down * arena:.1f}" '
        'fill="#f4f4f4" stroke="#999"/>',
        '<g stroke="#444" stroke-width="0.5">',
    ]
    labels = []
    for index, box in enumerate(picture.boxes):
        x, y = LEFT + box.first * across, TOP + box.offset * down
        w, h = (box.last + 1 - box.first) * across, box.size * down
        title = f"{box.name}: {box.size:,} bytes at {box.offset:,}, steps {box.first} to {box.last}"
        parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" '
            f'fill="{_colour(index)}"><title>{escape(title)}</title></rect>'
        )
        label = _label(box, x, y, w, h)
        if label:
            labels.append(label)
    parts += ["</g>", '<g text-anchor="middle" pointer-events="none">', *labels, "</g>"]
    parts += _axes(picture, across, down, height)
    parts.append("</svg>\n")
    return "\n".join(parts)


def _axes(picture: Picture, across: float, down: float, height: int) -> list[str]:
    steps, arena = picture.count_steps(), max(picture.arena_bytes, 1)
    parts = ['<g fill="#444" text-anchor="end">']
    for quarter in range(5):
        address = arena * quarter // 4
        y = TOP + address * down + 4
        parts.append(f'<text x="{LEFT - 6}" y="{y:.1f}">{address:,}</text>')
    parts += ["</g>", '<g fill="#444" text-anchor="middle">']
    for step in range(0, steps, max(1, steps // 16)):
        x = LEFT + (step + 0.5) * across
        name = picture.steps[step] if step < len(picture.steps) else ""
        parts.append(
            f'<text x="{x:.1f}" y="{height - BOTTOM + 16}">{step}'
            f"<title>{escape(name)}</title></text>"
        )
    parts += ["</g>", f'<text x="{LEFT}" y="{height - 8}" fill="#444">step (operator) →</text>']
    return parts

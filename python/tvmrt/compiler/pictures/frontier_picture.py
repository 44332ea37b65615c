"""Picture of the cost of plans with less memory: RAM on x, additional instructions on y."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvmrt.compiler.ir.program import RowFusionPlan

HEIGHT = 270  # pixels of a picture
TOP, RIGHT, BOTTOM = 34, 16, 46  # margins in pixels
FOOT = 16  # pixels between no additional instruction and the minimum
LABEL = (62, 13)  # size of a label in pixels


def frontier_values(
    taken: int, plans: Sequence[RowFusionPlan], corner: tuple[int, int], width: int
) -> dict[str, Any]:
    """Return template values for ``plans``; ``taken`` bytes is the plan in use. ``corner``: left
    side of the plot and top of the picture on a page of this ``width``."""
    left, top, right = corner[0], corner[1] + TOP, width - RIGHT
    bottom = corner[1] + HEIGHT - BOTTOM
    most = max(plan.ram_bytes for plan in plans)
    costs = [plan.instructions for plan in plans if plan.instructions > 0] or [1]
    low, high = math.floor(math.log10(min(costs))), math.ceil(math.log10(max(costs) + 1))

    def x(nbytes: int) -> float:
        return left + (right - left - 70) * nbytes / most

    def y(instructions: int) -> float:
        if instructions < 1:
            return bottom
        part = (math.log10(instructions) - low) / max(1, high - low)
        return bottom - FOOT - part * (bottom - FOOT - top - 14)

    points = [
        {
            "x": x(plan.ram_bytes),
            "y": y(plan.instructions),
            "taken": plan.ram_bytes == taken,
            "twice": plan.surplus_macs > 0,
            "title": _title(plan),
            "label": f"{plan.ram_bytes:,}",
        }
        for plan in plans
    ]
    _drop_overlapping_labels(points)
    decades = [(10**n, y(10**n)) for n in range(low, high + 1)]
    return {
        "left": left,
        "top": top,
        "right": right,
        "bottom": bottom,
        "points": points,
        "path": _staircase(points, right),
        "rows": [
            {"at": bottom, "label": "0"},
            *({"at": at, "label": _with_unit(n)} for n, at in decades),
        ],
        "columns": [{"at": x(n), "label": f"{n:,}"} for n in (most * k // 4 for k in range(5))],
    }


def _title(plan: RowFusionPlan) -> str:
    """Return the description of a plan."""
    text = f"{plan.ram_bytes:,} bytes, about {plan.instructions:,} instructions more"
    if plan.surplus_macs:
        text += f", {plan.surplus_macs:,} multiply-adds twice"
    counts = plan.patches or (1,) * len(plan.chains)
    for (first, last), patches in zip(plan.chains, counts):
        text += f"; {first} to {last}" + (f" in {patches} patches" if patches > 1 else "")
    return text


def _with_unit(number: int) -> str:
    """Return a power of ten as text: ``100 k``."""
    for unit, sign in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if number >= unit:
            return f"{number // unit} {sign}"
    return str(number)


def _drop_overlapping_labels(points: list[dict[str, Any]]) -> None:
    """Remove labels that would overlap another; the label of the plan in use stays."""
    labels: list[dict[str, Any]] = []
    for point in sorted(points, key=lambda p: not p["taken"]):
        near = (abs(point["x"] - p["x"]) < LABEL[0] and abs(point["y"] - p["y"]) < LABEL[1]
                for p in labels)  # fmt: skip
        if any(near):
            point["label"] = ""
        else:
            labels.append(point)


def _staircase(points: Sequence[dict[str, Any]], right: int) -> str:
    """Return the minimum cost for each amount of memory as an SVG path."""
    ordered = sorted(points, key=lambda p: p["x"])
    text = f"M{ordered[0]['x']:.1f} {ordered[0]['y']:.1f}"
    for point in ordered[1:]:
        text += f"H{point['x']:.1f}V{point['y']:.1f}"
    return f"{text}H{right}"

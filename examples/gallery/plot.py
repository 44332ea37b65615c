"""A plot as SVG: one row of lines below the other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

WIDTH, HEIGHT, MARGIN = 640, 110, 18


def write_svg(path: Path, rows: Mapping[str, np.ndarray], *, x: np.ndarray | None = None) -> None:
    """Draw each row's values over their index, or over ``x``, below its title."""
    parts = []
    for index, (title, values) in enumerate(rows.items()):
        top = index * (HEIGHT + MARGIN) + MARGIN
        up = np.asarray(values, np.float64).ravel()
        places = np.arange(len(up)) if x is None else np.asarray(x, np.float64).ravel()
        across = (places - places.min()) / (np.ptp(places) or 1) * WIDTH
        up = (up - up.min()) / (np.ptp(up) or 1)
        points = " ".join(f"{a:.1f},{top + HEIGHT * (1 - b):.1f}" for a, b in zip(across, up))
        parts.append(f'<text x="0" y="{top - 4}" font-size="12">{title}</text>')
        parts.append(f'<polyline points="{points}" fill="none" stroke="#1f6feb"/>')
    size = f'viewBox="0 0 {WIDTH} {len(rows) * (HEIGHT + MARGIN)}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    background = '<rect width="100%" height="100%" fill="white"/>'
    path.write_text("\n".join([head, background, *parts, "</svg>\n"]), encoding="utf-8")

"""Fold a space-to-depth of slices into the stride of a convolution.

Detectors start with a "focus" layer: four slices of the image with step 2, their concatenation
along channels, a convolution. This is a convolution of the image with a larger kernel and stride.
Contract: the same multiplications, summed in another order; no weights are added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.view import slice_of

from .rewrite import at, rewrite


@dataclass(frozen=True)
class _Phase:
    """All channels of an image's pixels from (row, column), with ``step`` both ways."""

    source: Value
    row: int
    column: int
    step: int


def fold_space_to_depth(graph: Graph) -> None:
    rewrite(graph, _fold)


@at("conv", source="concat")
def _fold(b: Builder, node: Node, joined: Node) -> Value | None:
    w = node.inputs[1]
    if node.attrs["groups"] != 1 or not w.is_constant:
        return None
    if joined.attrs["axis"] != 1 or w.data.ndim != 4:
        return None
    if any(n != 1 for n in node.attrs["dilations"]) or joined.guard != node.guard:
        return None
    phases = [_phase(part) for part in joined.inputs]
    if None in phases or not _cover_image(phases):
        return None
    step = phases[0].step
    attrs = {**node.attrs}
    for name in ("strides", "pads_before", "pads_after"):
        attrs[name] = tuple(n * step for n in node.attrs[name])
    weights = b.const(_dilate_weights(w.data, phases), w.name)
    b.sources = tuple(dict.fromkeys((*node.sources, *joined.sources)))
    return b.emit("conv", [phases[0].source, weights, *node.inputs[2:]], node.name, **attrs)


def _phase(part: Value) -> _Phase | None:
    """Return the phase that the preceding slices take of an image; None if there is none."""
    starts, steps = np.zeros(4, int), np.ones(4, int)
    value, node = part, slice_of(part)
    while node is not None and len(value.shape) == 4:
        attrs = node.attrs
        bounds = (*attrs["starts"], *attrs["steps"])
        if not all(isinstance(n, int) for n in bounds) or node.guard is not None:
            return None
        starts = np.array(attrs["starts"]) + starts * attrs["steps"]
        steps = steps * attrs["steps"]
        value, node = node.inputs[0], slice_of(node.inputs[0])
    if len(value.shape) != 4 or not all(isinstance(n, int) for n in (*value.shape, *part.shape)):
        return None
    step = int(steps[2])
    if step < 2 or any(steps != (1, 1, step, step)) or any(starts[:2]):
        return None
    if tuple(part.shape) != (*value.shape[:2], *(n / step for n in value.shape[2:])):
        return None
    return _Phase(value, int(starts[2]), int(starts[3]), step)


def _cover_image(phases: list[_Phase]) -> bool:
    """Return whether the phases cover each pixel of one image once."""
    first = phases[0]
    if any(p.source is not first.source or p.step != first.step for p in phases):
        return False
    positions = {(p.row, p.column) for p in phases}
    return len(positions) == len(phases) == first.step**2


def _dilate_weights(w: np.ndarray, phases: list[_Phase]) -> np.ndarray:
    """Return the weights over the image: those of a phase ``step`` apart."""
    step, channels = phases[0].step, phases[0].source.shape[1]
    out = np.zeros((w.shape[0], channels, w.shape[2] * step, w.shape[3] * step), w.dtype)
    for i, phase in enumerate(phases):
        part = w[:, i * channels : (i + 1) * channels]
        out[:, :, phase.row :: step, phase.column :: step] = part
    return out

"""Requantisation in the int8 tiles of hosts: its rounding, and its constants as C has them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.requantization import product_range, rounding_of, split_scale

from .float_requantize import FloatScales, find_float_scales, find_scale_pairs
from .packing_i8 import pad_channels
from .plan_i8 import PlanI8
from .tiles_i8 import WeightFormat


@dataclass(frozen=True)
class RequantizationI8:
    """How tiles requantise: ``rounding`` names a ``TVMRT_ROUND_*`` of ``tile/simd_i8.h``, or is
    empty for float scales; ``scale`` has a number for each output channel."""

    scale: np.ndarray
    rounding: str = ""
    floats: FloatScales | None = None

    @property
    def middle(self) -> int:
        """Subtrahend of the tile's integers, which its zero point adds."""
        return 0 if self.floats is None else self.floats.middle

    def pack(self, plan: PlanI8) -> np.ndarray:
        """Return the constants as the tiles of a plan read them."""
        if not self.rounding:
            return pad_channels(plan, self.scale)
        if self.floats is not None:
            rows = [pad_channels(plan, row) for row in self.floats.rows]
        else:
            rows = self._fixed_point_rows(plan)
        stride = plan.groups * plan.padded
        return np.concatenate([np.pad(row, (0, stride - len(row))) for row in rows])

    def _fixed_point_rows(self, plan: PlanI8) -> list[np.ndarray]:
        fmt = plan.variant.fmt
        m, n = split_scale(self.scale)
        shift = n - 1 if fmt.shifts_lanes else np.int64(1) << (31 - n)
        rows = [pad_channels(plan, row).astype(np.int32) for row in (m, shift)]
        if fmt.fuses:
            addend = (np.int64(1) << (n + 30)) + (0 if self.rounding == "once" else 1 << 30)
            addend = pad_channels(plan, addend)
            rows += [np.ascontiguousarray(addend[i::2]).view(np.int32) for i in (0, 1)]
        return rows


def requantization_of(
    node: Node, scale: np.ndarray, fmt: WeightFormat, has_residual: bool = False
) -> RequantizationI8 | None:
    """Return how tiles requantise an integer product to bytes; None if they cannot.

    ``has_residual``: a residual is added to the integers, so they have no middle.
    """
    attrs, rounding = node.attrs, rounding_of(node)
    if rounding == "even":
        return RequantizationI8(scale)
    bounds = attrs["low"] - attrs["y_zero"], attrs["high"] - attrs["y_zero"]
    if fmt.fuses and bounds[0] < bounds[1]:
        reach = product_range(node)
        floats = find_float_scales(scale, rounding, bounds, reach, not has_residual)
        if floats is None and fmt.rounds_down:
            floats = find_scale_pairs(scale, rounding, bounds, reach)
        if floats is not None:
            return RequantizationI8(scale, floats.rounding, floats)
    if split_scale(scale)[1].min() < 1:
        return None
    is_positive = rounding == "twice" and bounds[0] >= 0
    return RequantizationI8(scale, "positive" if is_positive else rounding)

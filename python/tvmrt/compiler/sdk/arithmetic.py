"""Integer and fixed-point arithmetic of kernels, bit for bit."""

from tvmrt.compiler.ir.dtype import to_integers
from tvmrt.compiler.ir.fixed_point import (
    exp_fraction,
    inverse_square_root,
    logistic_entries,
    logistic_fraction,
    round_away,
    scale,
    shift,
    tanh_fraction,
)
from tvmrt.compiler.ir.quantized import storage_range
from tvmrt.compiler.ir.requantization import multiplier, multipliers, rounded
from tvmrt.compiler.ir.rounding import ceil_div, round_up
from tvmrt.compiler.ir.signal import GAIN_PLACES, radices

__all__ = [
    "GAIN_PLACES", "ceil_div", "exp_fraction", "inverse_square_root", "logistic_entries",
    "logistic_fraction", "multiplier", "multipliers", "radices", "round_away", "round_up",
    "rounded", "scale", "shift", "storage_range", "tanh_fraction", "to_integers",
]  # fmt: skip

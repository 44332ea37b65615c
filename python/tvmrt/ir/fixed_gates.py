"""Functions of recurrent gates on 16 bits in fixed point: operands are int32 in their range."""

from __future__ import annotations

import numpy as np

from .fixed_exp import SHORT
from .fixed_point import FixedPointOp
from .op import define


def logistic16(x: np.ndarray) -> np.ndarray:
    """The logistic function of x * 2 ** -12 in units of 2 ** -15."""
    return SHORT.logistic(x, 3).astype(np.int32)


def tanh16(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    """tanh of x * 2 ** (k - 15) in units of 2 ** -15; k is from 0 to 4."""
    return SHORT.tanh(x, k).astype(np.int32)


for _row in (
    FixedPointOp("fixed_logistic16", ["x: int32"], logistic16),
    FixedPointOp("fixed_tanh16", ["x: int32", "k: constant int32"], tanh16),
):
    _row.header = "scalar/fixed_gates.h"
    define(_row)

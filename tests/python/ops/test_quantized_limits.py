"""QuantizeLinear and DequantizeLinear of NaN, infinities and extreme scales."""

from __future__ import annotations

import numpy as np
import pytest
from harness import Batch, case

X = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.5, 1.5, 2.5, -0.5, 0.0, 3.4e38], np.float32)
SCALES = (1.0, -1.0, 0.0, 1e-40, 3e38, np.inf, np.nan)


def cases():
    for kind in ("int8", "uint8", "int16", "uint16"):
        for scale in SCALES:
            number = np.array(scale, np.float32)
            parts = [np.resize(X, 33), number, np.array(1, kind)]
            yield case(f"{kind}-{scale}", "QuantizeLinear", parts, rtol=0)
            q = np.array([0, 1, 2, 3, 100] * 7, kind)
            yield case(f"{kind}-{scale}", "DequantizeLinear", [q, *parts[1:]], rtol=0)
            if np.isfinite(scale):
                yield case(f"{kind}-{scale}-fixed", "DequantizeLinear", [q, *parts[1:]], [1, 2])


@pytest.mark.parametrize("part", [*Batch(21, cases())])
def test_limits(part):
    part.check()

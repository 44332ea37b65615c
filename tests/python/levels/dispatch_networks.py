"""Layers of the networks used to test libraries with several ISA levels."""

from __future__ import annotations

import numpy as np
from onnx import helper


def quantised(rng, nodes, weights, name, x, groups, channels, outputs) -> None:
    """Return a QLinearConv with weights beyond int8 after subtracting zero points."""
    shape = (outputs, channels // groups, 3, 3)
    weights |= {
        f"{name}_w": rng.integers(0, 256, shape).astype(np.uint8),
        f"{name}_z": np.uint8(120),
        f"{name}_s": np.float32(0.01),
        f"{name}_b": rng.integers(-999, 999, outputs).astype(np.int32),
        f"{name}_ys": np.float32(0.6),
    }
    ins = [x, "s", "z", *(f"{name}_{k}" for k in ("w", "s", "z")), f"{name}_ys", "z", f"{name}_b"]
    nodes.append(helper.make_node("QLinearConv", ins, [name], pads=[1] * 4, group=groups))

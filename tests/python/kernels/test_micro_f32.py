"""Selection of the float kernel of a microcontroller layer."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.codegen.geometry import Window
from tvmrt.compiler.codegen.window.boards.float32 import KERNELS
from tvmrt.compiler.codegen.window.boards.kernel import MicroKernel
from tvmrt.compiler.codegen.window.boards.layer_f32 import MicroLayerF32
from tvmrt.compiler.codegen.window.boards.shape import MicroShape


def shape(in_c, out_c, size, kernel=(1, 1), stride=(1, 1), dilation=(1, 1), pad=(0, 0), out=None,
          depthwise=False, batch=1):  # fmt: skip
    """Return a shape whose end padding equals its start padding unless ``out`` says otherwise."""
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation)]
    full = tuple((n + 2 * p - r) // s + 1 for n, p, r, s in zip(size, pad, reach, stride))
    images = [(1, *pair) for pair in (size, out or full)]
    walk = [(1, *pair) for pair in (kernel, stride, dilation)]
    window = Window(batch, *images, in_c, out_c, *walk, (0, *pad))
    return MicroShape(window, in_c, out_c, depthwise)


def chosen(s: MicroShape, low: float, high: float, only_clamps: bool = False) -> MicroKernel:
    """Return the kernel of a layer; ``only_clamps``: without a residual."""
    w = np.zeros((s.out_c, 1 if s.depthwise else s.in_c, *s.kernel), np.float32)
    bias = np.zeros(s.out_c, np.float32)
    return KERNELS.choose(
        MicroLayerF32(s, w, bias, low, high, s.in_place, only_clamps), frozenset()
    )


def test_other_layers_go_to_other_kernels():
    row, large = shape(7, 5, (1, 1)), shape(30, 33, (1, 1))
    assert chosen(row, -1.0, 1.0, only_clamps=True) is KERNELS["conv"]  # with bounds
    assert chosen(row, 0.0, np.inf) is KERNELS["conv"]  # a residual
    assert chosen(large, 0.0, np.inf, only_clamps=True) is KERNELS["conv"]
    assert chosen(shape(5, 5, (1, 1)), 0.0, np.inf, only_clamps=True) is KERNELS["conv"]  # in place
    assert (
        chosen(shape(20, 20, (6, 7), (3, 3), pad=(1, 1), depthwise=True), 0.0, np.inf)
        is KERNELS["depthwise"]
    )

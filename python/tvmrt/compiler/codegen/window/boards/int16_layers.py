"""Products of int16 activations that have a kernel on microcontrollers."""

from __future__ import annotations

from math import prod

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.traits import Trait

from ...geometry import Window
from ...kernel_features import HELIUM, INT16_KERNELS
from ...target import Target
from ..layer_i8 import LayerI8
from .channel_groups import divide_channels, kernel_shape


def has_int16_kernel(node: Node, target: Target) -> bool:
    """Return whether the target has a kernel for a product of int16 with int8 weights."""
    if not INT16_KERNELS.of(target):
        return False
    x, w, y = node.inputs[0], node.inputs[1], node.output
    if node.has(Trait.CONVOLUTION):
        channels = x.shape[1], y.shape[1]
        window = Window.of(x.shape, y.shape, w.shape[2:], node.attrs, *channels)
        layer = LayerI8(window, *channels, node.attrs["groups"])
    else:
        layer = LayerI8.matmul(prod(x.shape[:-1]), x.shape[-1], y.shape[-1])
    return kernel_shape(layer, divide_channels(layer, HELIUM.of(target)), None) is not None

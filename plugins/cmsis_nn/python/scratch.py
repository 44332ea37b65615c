"""Maximum scratch memory of CMSIS-NN kernels, from ``arm_*_get_buffer_size`` of all CMSIS-NN
releases (5.0 and later), for processors without extensions, with DSP instructions and with Helium.
"""

from __future__ import annotations

from math import prod

from tvmrt.compiler.sdk.arithmetic import round_up
from tvmrt.plugins.cmsis_nn.layers import Convolution, Layer, MatMul

BYTES_PER_ELEMENT = 4  # bytes of scratch per element of a window: two of 16 bits, or four of 8
HELIUM_BLOCK = 124  # channels that Helium's depthwise kernel processes at a time


def scratch_bytes(layer: Layer, board: frozenset[str]) -> int:
    """Return the bytes for a layer on a processor with these instructions (``dsp``, ``mve``)."""
    if isinstance(layer, Convolution):
        return _depthwise(layer, board) if layer.depth else _windows(layer.weights[0].size, board)
    if isinstance(layer, MatMul):
        as_convolution = "mve" in board or not layer.finish.is_per_tensor
        return _windows(layer.weights.shape[1], board) if as_convolution else 0
    return 0


def _windows(elements: int, board: frozenset[str]) -> int:
    """Return the bytes of copied windows, padded to the read granularity."""
    return BYTES_PER_ELEMENT * round_up(elements, 16 if "mve" in board else 4)


def _depthwise(layer: Convolution, board: frozenset[str]) -> int:
    window = layer.window
    if layer.depth != 1 or window.dilations != (1, 1):
        return 0
    kernel = prod(window.kernel)
    if "mve" in board:
        return 4 * HELIUM_BLOCK * kernel
    if "dsp" not in board or (window.kernel == (3, 3) and max(window.pads) <= 1):
        return 0
    return 2 * window.source[3] * kernel

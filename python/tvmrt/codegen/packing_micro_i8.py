"""Weights and shapes of the integer kernels of microcontrollers (``kernels/micro_*_i8.h``).

Describe the layer by :class:`~tvmrt.codegen.packing_i8.ConvI8`, then :func:`micro_layer` says
whether these kernels can do it, and how.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .packing_i8 import ConvI8, PackedI8, centred_weights, wrap_int32


@dataclass(frozen=True)
class MicroFormat:
    """A format of ``micro_i8.h``.

    ``group``: neighbouring elements of a window that weights of two channels follow each other
    by; ``unit``: of what a window's length is a multiple; ``bytes``: of an element of a copied
    window; ``offset``: what is added to uint8 activations before they are multiplied.
    """

    macro: str
    group: int
    unit: int
    bytes: int
    offset: int


FORMATS = {
    "pairs": MicroFormat("TVMRT_MICRO_PAIRS", 4, 8, 2, 0),
    "mve": MicroFormat("TVMRT_MICRO_MVE", 16, 16, 1, -128),
}

STACK_WINDOWS = 160  # TVMRT_MICRO_STACK_WINDOWS
MOST_ROWS = 16  # TVMRT_MICRO_MAX_ROWS
QUAD_ORDER = [0, 2, 1, 3]


@dataclass(frozen=True)
class MicroLayer:
    """A layer as the kernels of microcontrollers compute it.

    Parameters
    ----------
    layer
        The convolution or matrix product.
    format
        One of ``FORMATS``.
    """

    layer: ConvI8
    format: str

    @property
    def depthwise(self) -> bool:
        return self.layer.depthwise

    @property
    def header(self) -> str:
        return "micro_depthwise_i8.h" if self.depthwise else "micro_conv_i8.h"

    @property
    def function(self) -> str:
        return f"tvmrt_micro_{'depthwise' if self.depthwise else 'conv'}_i8_run"

    @property
    def macro(self) -> str:
        return FORMATS[self.format].macro

    @property
    def offset(self) -> int:
        """What is added to the activations before they are multiplied."""
        flips = not self.depthwise and not self.layer.x_signed
        return FORMATS[self.format].offset if flips else 0

    @property
    def window(self) -> int:
        """Elements of a copied window."""
        taps = int(np.prod(self.layer.kernel))
        return _whole(taps * self.layer.in_c, FORMATS[self.format].unit)

    @property
    def pointwise(self) -> bool:
        """Whether the window of an output pixel is the input pixel at its place."""
        layer = self.layer
        still = layer.in_ == layer.out and layer.stride == (1, 1, 1) and not any(layer.pad)
        return still and layer.kernel == (1, 1, 1) and not self.depthwise

    @property
    def in_place(self) -> bool:
        """Whether the output may lie where the input lies, pixel on pixel."""
        layer = self.layer
        if layer.in_ != layer.out or layer.stride != (1, 1, 1) or layer.in_c != layer.out_c:
            return False
        if self.depthwise:
            return layer.pad[1] <= (layer.kernel[1] - 1) * layer.dilation[1]
        return self.pointwise

    @property
    def scratch_bytes(self) -> int:
        """What the kernel asks of ``tvmrt_scratch_alloc``."""
        layer = self.layer
        if self.depthwise:
            rows = (layer.kernel[1] - 1) * layer.dilation[1] + 1
            reach = (layer.kernel[2] - 1) * layer.dilation[2] + 1
            columns = (layer.out[2] - 1) * layer.stride[2] + reach
            return rows * columns * _whole(layer.in_c, 4) * 2
        windows = self.window * (2 * FORMATS[self.format].bytes + 1)
        return windows if windows > STACK_WINDOWS else 0

    def initializer(self, y_bytes: int, zero: int, low: int, high: int, signed: bool) -> list[str]:
        """The members of the layer's ``tvmrt_micro_conv_i8``; the numbers are the output's."""
        layer = self.layer
        pairs = ("in_", "out", "kernel", "stride", "dilation", "pad")
        fields = {"pixels": layer.batch * int(np.prod(layer.out))}
        for name in pairs:
            _, height, width = getattr(layer, name)
            fields[name.rstrip("_")] = f"{{{height}, {width}}}"
        fields |= {
            "in_c": layer.in_c,
            "out_c": layer.out_c,
            "x_stride": layer.x_step,
            "y_stride": layer.y_steps[3],
            "window": 0 if self.depthwise else self.window,
            "scratch": self.scratch_bytes,
            "x_zero": layer.x_zero,
            "x_signed": int(layer.x_signed),
            "pointwise": int(self.pointwise),
            "y_bytes": y_bytes,
            "range": f"{{{zero}, {low}, {high}, {int(signed)}}}",
        }
        return [f".{name} = {value}" for name, value in fields.items()]

    def pack(
        self, weights: np.ndarray, w_zero: np.ndarray | int, bias: np.ndarray | None
    ) -> PackedI8:
        """Packed weights, folded bias and, where the weights do not fit into bytes, the shift.

        ``weights``: [out_c, in_c / groups, *kernel]; ``bias`` in units of x_scale * w_scale.
        """
        layer = self.layer
        values = centred_weights(layer, weights, w_zero)
        sums = values.reshape(layer.out_c, -1).sum(axis=1)
        folded = np.zeros(layer.out_c, np.int64) if bias is None else bias.astype(np.int64)
        folded = wrap_int32(folded.reshape(-1) - (layer.x_zero + self.offset) * sums)
        if self.depthwise:
            return PackedI8(_pack_depthwise(values), _padded(folded, 4), None)
        flat = values.transpose(0, 2, 3, 4, 1).reshape(layer.out_c, -1)
        shift = _shifts(flat)
        packed = self._pack_windows(flat - shift[:, None])
        moved = _padded(shift.astype(np.int32), 2) if shift.any() else None
        return PackedI8(packed, _padded(folded, 2), moved)

    def _pack_windows(self, flat: np.ndarray) -> np.ndarray:
        """[out_c, element of the window] as pairs of channels by groups."""
        group = FORMATS[self.format].group
        whole = np.zeros((_whole(len(flat), 2), self.window), np.int8)
        whole[: len(flat), : flat.shape[1]] = flat
        pairs = whole.reshape(-1, 2, self.window // group, group)
        return np.ascontiguousarray(pairs.transpose(0, 2, 1, 3)).reshape(-1)

    def pad_channels(self, scale: np.ndarray) -> np.ndarray:
        """Multipliers per channel as the kernels read them."""
        return _padded(scale, 4 if self.depthwise else 2)


def micro_layer(layer: ConvI8, format: str, scale: np.ndarray | None) -> MicroLayer | None:
    """The layer for these kernels; None where they cannot do it.

    ``scale``: the multipliers of the sums, None where an epilogue takes the sums.
    """
    depth = (layer.in_[0], layer.out[0], layer.kernel[0], layer.stride[0], layer.pad[0])
    extents = (*layer.in_, *layer.out, *layer.kernel, *layer.stride, *layer.dilation, *layer.pad)
    small = max(*extents, layer.in_c, layer.out_c, -min(layer.pad)) < 1 << 15
    if format not in FORMATS or depth != (1, 1, 1, 1, 0) or not small:
        return None
    if scale is not None and not (scale.min() > 0 and scale.max() < 256):
        return None
    fits = layer.kernel[1] <= MOST_ROWS if layer.depthwise else layer.groups == 1
    return MicroLayer(layer, format) if fits else None


def _whole(n: int, unit: int) -> int:
    return -(-n // unit) * unit


def _padded(values: np.ndarray, unit: int) -> np.ndarray:
    """Values per channel with zeros to a whole unit."""
    out = np.zeros(_whole(len(values), unit), values.dtype)
    out[: len(values)] = values
    return out


def _shifts(flat: np.ndarray) -> np.ndarray:
    """Per channel the least change that makes all weights fit into int8."""
    high = np.maximum(flat.max(axis=1) - 127, 0)
    low = np.minimum(flat.min(axis=1) + 128, 0)
    return np.where(high > 0, high, low)


def _pack_depthwise(values: np.ndarray) -> np.ndarray:
    """[channel, 1, 1, rows, columns] as int16 [quad][row][column][channel in the quad's order]."""
    channels, taps = len(values), values[0].size
    whole = np.zeros((_whole(channels, 4), taps), np.int16)
    whole[:channels] = values.reshape(channels, taps)
    quads = whole.reshape(-1, 4, taps).transpose(0, 2, 1)[:, :, QUAD_ORDER]
    return np.ascontiguousarray(quads).reshape(-1)

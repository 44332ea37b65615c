"""Weights and shapes of the integer kernels of microcontrollers (``kernels/micro_*_i8.h``).

Describe the layer by :class:`~tvmrt.codegen.window.layer_i8.ConvI8`, then :func:`micro_layer` says
whether these kernels can do it, and how.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tvmrt.ir.rounding import round_up

from .layer_i8 import ConvI8, centred_weights
from .micro_shape import MicroShape, flat_shape
from .packing_i8 import wrap_int32


@dataclass(frozen=True)
class MicroFormat:
    """A format of ``micro_i8.h``.

    ``group``: neighbouring elements of a window that weights of two channels follow each other
    by; ``unit``: of what a window's length is a multiple; ``bytes``: of an element of a copied
    window; ``offset``: what is added to uint8 activations before they are multiplied. "joint" is
    "pairs" with the weights of ``micro_joint_i8.h`` in all layers that they are possible for.
    """

    macro: str
    group: int
    unit: int
    bytes: int
    offset: int


FORMATS = {
    "pairs": MicroFormat("TVMRT_MICRO_PAIRS", 4, 8, 2, 0),
    "joint": MicroFormat("TVMRT_MICRO_PAIRS", 4, 8, 2, 0),
    "mve": MicroFormat("TVMRT_MICRO_MVE", 16, 16, 1, -128),
}

STACK_WINDOWS = 160  # TVMRT_MICRO_STACK_WINDOWS
QUAD_ORDER = [0, 2, 1, 3]
MOST_UPPER = 1 << 23  # of the sums of a pair's second channel, micro_joint_i8.h
# (signed, least, most) of all that bytes can be, as tvmrt_micro_range counts them
WHOLE = {(True, -128, 127): 1, (False, 0, 255): 2}


@dataclass(frozen=True)
class MicroWeights:
    """What a layer computes with.

    ``weights``: packed; ``bias``: folded, with what the inputs' zero point gives, for all channels
    and those that fill them up, or None where it is in joint weights; ``shift``: what the weights
    lack, or None; ``joint``: whether the weights of two channels are one number.
    """

    weights: np.ndarray
    bias: np.ndarray | None
    shift: np.ndarray | None
    joint: bool = False


@dataclass(frozen=True)
class MicroLayer:
    """A layer as the kernels of microcontrollers compute it.

    Parameters
    ----------
    layer
        The convolution or matrix product.
    shape
        Its shape for these kernels.
    format
        One of ``FORMATS``.
    """

    layer: ConvI8
    shape: MicroShape
    format: str

    @property
    def three(self) -> bool:
        """Whether it is for ``micro_depthwise_3x3_i8.h``."""
        shape = self.shape
        taps = (shape.depthwise, shape.kernel, shape.dilation)
        return taps == (True, (3, 3), (1, 1)) and shape.stride in ((1, 1), (2, 2))

    @property
    def kind(self) -> str:
        if not self.shape.depthwise:
            return "conv"
        return "depthwise_3x3" if self.three else "depthwise"

    @property
    def header(self) -> str:
        return f"micro_{self.kind}_i8.h"

    def function(self, packed: MicroWeights) -> str:
        """The C function for these weights."""
        return f"tvmrt_micro_{self.kind}_i8_run{'_joint' if packed.joint else ''}"

    @property
    def macro(self) -> str:
        return FORMATS[self.format].macro

    @property
    def offset(self) -> int:
        """What is added to the activations before they are multiplied."""
        flips = not self.shape.depthwise and not self.layer.x_signed
        return FORMATS[self.format].offset if flips else 0

    @property
    def window(self) -> int:
        """Elements of a copied window."""
        return round_up(self.shape.window, FORMATS[self.format].unit)

    @property
    def scratch_bytes(self) -> int:
        """What the kernel asks of ``tvmrt_scratch_alloc``."""
        if self.three:
            stride, width = self.shape.stride[0], self.shape.out[1]
            rings = ((width - 1) * stride + 3) * 4 * round_up(self.shape.in_c, 4) * 2
            return rings + width * 2 * 4 * 4
        if self.shape.depthwise:
            return self.shape.ring_elements * 2
        copied = min(2, self.shape.pixels) * self.window * FORMATS[self.format].bytes
        as_they_lie = self.shape.pointwise and self.window == self.shape.in_c
        windows = copied + (0 if as_they_lie else self.window)
        return windows if windows > STACK_WINDOWS else 0

    def initializer(self, y_bytes: int, zero: int, low: int, high: int, signed: bool) -> list[str]:
        """The members of the layer's ``tvmrt_micro_conv_i8``; the numbers are the output's."""
        layer = self.layer
        fields = {
            "shape": self.shape.initializer(self.window, self.scratch_bytes),
            "x_zero": layer.x_zero,
            "x_signed": int(layer.x_signed),
            "y_bytes": y_bytes,
            "range": f"{{{zero}, {low}, {high}, {WHOLE.get((signed, low, high), 0)}}}",
        }
        return [f".{name} = {value}" for name, value in fields.items()]

    def pack(
        self, weights: np.ndarray, w_zero: np.ndarray | int, bias: np.ndarray | None
    ) -> MicroWeights:
        """The layer's weights and bias.

        ``weights``: [out_c, in_c / groups, *kernel]; ``bias`` in units of x_scale * w_scale.
        """
        layer = self.layer
        values = centred_weights(layer, weights, w_zero)
        sums = values.reshape(layer.out_c, -1).sum(axis=1)
        folded = np.zeros(layer.out_c, np.int64) if bias is None else bias.astype(np.int64)
        folded = wrap_int32(folded.reshape(-1) - (layer.x_zero + self.offset) * sums)
        if self.shape.depthwise:
            pack = _pack_3x3 if self.three else _pack_depthwise
            return MicroWeights(pack(values), _padded(folded, 4), None)
        flat = values.transpose(0, 2, 3, 4, 1).reshape(layer.out_c, -1)
        shift = _shifts(flat)
        full = np.zeros((round_up(len(flat), 2), self.window), np.int64)
        full[: len(flat), : flat.shape[1]] = flat - shift[:, None]
        folded = _padded(folded, 2)
        moved = _padded(shift.astype(np.int32), 2) if shift.any() else None
        if self.format == "joint" and self._can_join(full, folded):
            return MicroWeights(_pack_joint(full, folded), None, moved, joint=True)
        return MicroWeights(self._pack_windows(full), folded, moved)

    def _can_join(self, full: np.ndarray, folded: np.ndarray) -> bool:
        """Whether pairs of channels may be one number of 16 bits, whatever the input is."""
        joint, upper = full[::2] + 256 * full[1::2], full[1::2]
        least, most = (-128, 127) if self.layer.x_signed else (0, 255)
        bias = folded[1::2].astype(np.int64)
        high = np.where(upper > 0, upper * most, upper * least).sum(axis=1) + np.maximum(bias, 0)
        low = np.where(upper > 0, upper * least, upper * most).sum(axis=1) + np.minimum(bias, 0)
        whole_sums = high.max() < MOST_UPPER and low.min() >= -MOST_UPPER
        return bool(whole_sums and joint.min() >= -(1 << 15) and joint.max() < 1 << 15)

    def _pack_windows(self, full: np.ndarray) -> np.ndarray:
        """[channel, element of the window] as pairs of channels by groups."""
        group = FORMATS[self.format].group
        pairs = full.astype(np.int8).reshape(len(full) // 2, 2, -1, group)
        return np.ascontiguousarray(pairs.transpose(0, 2, 1, 3)).reshape(-1)

    def factors(self, scale: np.ndarray, zero: int, low: int, high: int) -> np.ndarray:
        """Multipliers of the sums per channel as the kernels read them.

        The numbers are the output's: its zero point and bounds.
        """
        padded = _padded(scale.astype(np.float32), 4)
        fixed = fixed_factors(scale.astype(np.float32), zero, low, high)
        fours = np.ones(len(padded), np.int64)
        fours[: len(fixed)] = fixed
        chosen = np.repeat(fours.reshape(-1, 4).min(axis=1) > 0, 4)
        return np.where(chosen, (-fours).astype(np.int32).view(np.float32), padded)


def micro_layer(layer: ConvI8, format: str, scale: np.ndarray | None) -> MicroLayer | None:
    """The layer for these kernels; None where they cannot do it.

    ``scale``: the multipliers of the sums, None where an epilogue takes the sums.
    """
    window = layer.window
    flat = flat_shape(window)
    if format not in FORMATS or flat is None or not (layer.groups == 1 or layer.depthwise):
        return None
    if scale is not None and not (scale.min() > 0 and scale.max() < 256):
        return None
    channels = (layer.in_c, layer.out_c, window.x_stride, window.y_stride)
    shape = MicroShape(window.batch, *flat, *channels, layer.depthwise)
    return MicroLayer(layer, shape, format) if shape.fits else None


def fixed_factors(scale: np.ndarray, zero: int, low: int, high: int) -> np.ndarray:
    """Per channel the number m below 2 ** 31 by which (sum * m + (16 * zero + 8) * 2 ** 32) >> 36,
    bounded, is the float32 product with the scale, rounded, for every sum; 0 where there is none.

    A byte is at least q from some least sum on; m must make it so for each q.
    """
    q = np.arange(low - zero + 1, high - zero + 1)[None]
    guess = np.rint((q - 0.5) / scale.astype(np.float64)[:, None]).astype(np.int64)
    near = guess[..., None] + np.arange(-3, 4)
    there = np.rint(near.astype(np.float32) * scale[:, None, None]) >= q[..., None]
    least = guess - 3 + there.argmax(axis=2)
    found = ~there[..., 0] & there[..., -1] & (np.abs(least) < 1 << 24)  # floats hold these sums
    # least * m >= bound, and (least - 1) * m <= bound - 1
    bound = (2 * q - 1) << 35
    from_, to = np.zeros_like(least), np.full_like(least, (1 << 31) - 1)
    for sums, most in ((least, None), (least - 1, bound - 1)):
        size = np.maximum(np.abs(sums), 1)
        if most is None:
            from_ = np.where(sums > 0, -(-bound // size), from_)
            to = np.where(sums < 0, -bound // size, to)
            found &= (sums != 0) | (bound <= 0)
        else:
            to = np.where(sums > 0, np.minimum(to, most // size), to)
            from_ = np.where(sums < 0, np.maximum(from_, -(most // size)), from_)
            found &= (sums != 0) | (most >= 0)
    first, last = from_.max(axis=1), to.min(axis=1)
    return np.where(found.all(axis=1) & (first <= last), (first + last) // 2, 0)


def _padded(values: np.ndarray, unit: int) -> np.ndarray:
    """Values per channel with zeros to a whole unit."""
    out = np.zeros(round_up(len(values), unit), values.dtype)
    out[: len(values)] = values
    return out


def _shifts(flat: np.ndarray) -> np.ndarray:
    """Per channel the least change that makes all weights fit into int8."""
    high = np.maximum(flat.max(axis=1) - 127, 0)
    low = np.minimum(flat.min(axis=1) + 128, 0)
    return np.where(high > 0, high, low)


def _pack_joint(full: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """[channel, element of the window] and biases as ``micro_joint_i8.h`` has them."""
    joint = (full[::2] + 256 * full[1::2]).astype(np.int16)
    quads = joint.reshape(len(joint), -1, 4)[:, :, QUAD_ORDER].reshape(len(joint), -1)
    pairs = bias.reshape(-1, 2).astype(np.int64)
    pairs[:, 1] = pairs[:, 0] + 256 * pairs[:, 1]
    biases = wrap_int32(pairs).astype("<i4").view("<i2")
    return np.concatenate([biases.astype(np.int16), quads], axis=1).reshape(-1)


def _pack_3x3(values: np.ndarray) -> np.ndarray:
    """[channel, 1, 1, 3, 3] as int16 [channel][10], see ``micro_depthwise_3x3_i8.h``."""
    channels = len(values)
    packed = np.zeros((round_up(channels, 4), 10), np.int16)
    rows = values.reshape(channels, 3, 3)
    packed[:channels, :6] = rows[:, :2].transpose(0, 2, 1).reshape(channels, 6)
    packed[:channels, [6, 7, 9]] = rows[:, 2]
    return packed.reshape(-1)


def _pack_depthwise(values: np.ndarray) -> np.ndarray:
    """[channel, 1, 1, rows, columns] as int16 [quad][row][column][channel in the quad's order]."""
    channels, taps = len(values), values[0].size
    full = np.zeros((round_up(channels, 4), taps), np.int16)
    full[:channels] = values.reshape(channels, taps)
    quads = full.reshape(-1, 4, taps).transpose(0, 2, 1)[:, :, QUAD_ORDER]
    return np.ascontiguousarray(quads).reshape(-1)

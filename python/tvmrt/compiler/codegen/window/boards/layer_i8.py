"""Integer layers of microcontrollers: what of a layer their kernels ask."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tvmrt.compiler.ir.extent import most
from tvmrt.compiler.ir.rounding import round_up

from ..layer_i8 import ConvI8
from ..packing_i8 import wrap_int32
from ..quads_i8 import centred_weights
from .kernel import MicroKernel, MicroWeights, padded
from .shape import MicroShape, Windows

STACK_WINDOWS = 160  # TVMRT_MICRO_STACK_WINDOWS
# Places of four channels or elements that SXTB16 widens at once.
QUAD_ORDER = [0, 2, 1, 3]
# (signed, least, most) of all that bytes can be, as tvmrt_micro_range counts them
WHOLE = {(True, -128, 127): 1, (False, 0, 255): 2}


@dataclass(frozen=True)
class MicroLayer:
    """A layer of integers.

    ``w``: [out_c, in_c / groups, *kernel]; ``w_zero``: one, or one a channel; ``bias``: in units of
    x_scale * w_scale, or None.
    """

    shape: MicroShape
    layer: ConvI8
    w: np.ndarray
    w_zero: np.ndarray | int = 0
    bias: np.ndarray | None = None

    @cached_property
    def weights(self) -> np.ndarray:
        """w - w_zero as int64 [out_c, element of the window], channels innermost."""
        centred = centred_weights(self.layer, self.w, self.w_zero)
        return centred.transpose(0, 2, 3, 4, 1).reshape(len(centred), -1)

    @property
    def to_int8(self) -> int:
        """What is added to activations where a kernel multiplies int8 by int8."""
        return 0 if self.layer.x_signed else -128

    @property
    def fits_int8(self) -> bool:
        """Whether weights are int8 once their zero points are taken off."""
        return bool(self.weights.min() >= -128 and self.weights.max() <= 127)

    def folded(self, unit: int, offset: int = 0) -> np.ndarray:
        """The biases of channels to a multiple of ``unit``, less what the inputs' zero point gives.

        ``offset``: what the kernel adds to activations before it multiplies them.
        """
        bias = 0 if self.bias is None else self.bias.astype(np.int64).reshape(-1)
        sums = self.weights.sum(axis=1)
        return padded(wrap_int32(bias - (self.layer.x_zero + offset) * sums), unit)

    def windows(self, unit: int) -> tuple[np.ndarray, np.ndarray]:
        """Weights moved into int8, by pairs of channels and windows to a multiple of ``unit``, and
        by what each channel's were moved: the least change that makes them fit."""
        flat = self.weights
        high = np.maximum(flat.max(axis=1) - 127, 0)
        shift = np.where(high > 0, high, np.minimum(flat.min(axis=1) + 128, 0))
        full = np.zeros((round_up(len(flat), 2), round_up(flat.shape[1], unit)), np.int64)
        full[: len(flat), : flat.shape[1]] = flat - shift[:, None]
        return full, shift

    def members(
        self, kernel: MicroKernel, y_bytes: int, zero: int, low: int, high: int, signed: bool,
        direct: bool = False,
    ) -> dict[str, object]:  # fmt: skip
        """The members of the layer's ``tvmrt_micro_conv_i8``; the numbers are the output's.

        ``direct``: sums become bytes by factors that are all fixed, and nothing else.
        """
        whole = WHOLE.get((signed, low, high), 0)
        direct = direct and whole == 1 and self.shape.out_c % 2 == 0
        return {
            "shape": self.shape.initializer(kernel.scratch(self)),
            "x_zero": self.layer.x_zero,
            "x_signed": int(self.layer.x_signed),
            "y_bytes": y_bytes,
            "range": f"{{{zero}, {low}, {high}, {whole}, {int(direct)}}}",
        }


def shape_of(layer: ConvI8, scale: np.ndarray | None) -> MicroShape | None:
    """A layer's shape for these kernels; None where they cannot do it.

    ``scale``: the multipliers of the sums, None where an epilogue takes the sums.
    """
    if not (layer.groups == 1 or layer.depthwise):
        return None
    if scale is not None and not (scale.min() > 0 and scale.max() < 256):
        return None
    shape = MicroShape(layer.window, layer.in_c, layer.out_c, layer.depthwise)
    return shape if shape.fits else None


def window_kind(shape: MicroShape, lone: bool = True) -> str:
    """What all windows of a dense layer are, a ``tvmrt_micro_kind``.

    ``lone``: whether the kernel computes a layer of one pixel by less code than others.
    """
    if not shape.pointwise:
        return "TVMRT_MICRO_ANY"
    return "TVMRT_MICRO_PIXEL" if lone and most(shape.pixels) == 1 else "TVMRT_MICRO_POINTS"


def windows_of(layer: MicroLayer, unit: int, element: int) -> Windows:
    """Windows of two pixels by elements of so many bytes, and one of bytes.

    ``unit``: of what the length of a window is a multiple.
    """
    shape = layer.shape
    length = round_up(shape.elements, unit)
    as_they_lie = shape.pointwise and length == shape.in_c
    windows = min(2, most(shape.pixels)) * length * element + (0 if as_they_lie else length)
    return Windows(length, windows if windows > STACK_WINDOWS else 0)


def dense(
    header: str,
    cost: float,
    pack: Callable[[MicroLayer], MicroWeights],
    windows: tuple[int, int],
    needs: str = "",
    tile: str = "0",
    lone: bool = True,
    supports: Callable[[MicroLayer], bool] = lambda layer: True,
) -> MicroKernel[MicroLayer]:
    """The record of a tile of dense layers (``board/conv_walk_i8.h``).

    ``windows``: the unit of their length, and bytes of an element; ``tile``: which of the header's;
    ``lone``: see ``window_kind``.
    """
    return MicroKernel(
        header=f"board/{header}.h",
        name="tvmrt_micro_conv_i8",
        more=lambda layer: (tile, window_kind(layer.shape, lone)),
        cost=cost,
        supports=lambda layer: not layer.shape.depthwise and supports(layer),
        pack=pack,
        scratch=lambda layer: windows_of(layer, *windows),
        needs=frozenset(needs.split()),
    )


def pack_windows(
    layer: MicroLayer, unit: int, group: int, offset: int = 0, block: int = 2
) -> MicroWeights:
    """Weights as int8 [block of channels][group of elements][channel of the block][element].

    ``block``: channels of one; behind whole ones, the last channels are pairs.
    """
    full, shift = layer.windows(unit)
    whole = len(full) // block * block
    parts = [
        some.astype(np.int8).reshape(-1, channels, full.shape[1] // group, group)
        for some, channels in ((full[:whole], block), (full[whole:], 2))
    ]
    weights = np.concatenate([part.transpose(0, 2, 1, 3).reshape(-1) for part in parts])
    return MicroWeights(weights, layer.folded(2, offset), shifts(shift))


def shifts(shift: np.ndarray, unit: int = 2) -> np.ndarray | None:
    """What weights lack, for units of channels; None where they lack nothing."""
    return padded(shift.astype(np.int32), unit) if shift.any() else None

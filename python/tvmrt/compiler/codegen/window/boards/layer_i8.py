"""Integer layers of microcontrollers as their kernels see them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import upper_bound

from ..layer_i8 import ConstantsI8, LayerI8, shifts_into_int8
from .kernel import MicroKernel, MicroWeights, pad_to_multiple
from .shape import Im2colBuffer, MicroShape

STACK_WINDOWS = 160  # TVMRT_MICRO_STACK_WINDOWS
MAX_GROWTH = 6  # more pixels at once may enlarge scratch by a sixth of the layer's tensors
# Order in which SXTB16 widens four channels or elements.
QUAD_ORDER = [0, 2, 1, 3]
X_INT16 = "TVMRT_MICRO_X_INT16"  # value of x_signed
# Constants in tvmrt_micro_range of full 8-bit ranges (signed, min, max).
FULL_RANGE = {(True, -128, 127): "TVMRT_MICRO_FULL_INT8", (False, 0, 255): "TVMRT_MICRO_FULL_UINT8"}


def micro_range(
    zero: int, low: int, high: int, signed: bool, fixed_point_only: bool = False, twice: str = ""
) -> dict[str, object]:
    """Return the members of a ``tvmrt_micro_range``; ``twice``: see ``RequantTable``."""
    return {
        "zero": zero, "lo": low, "hi": high,
        "full_range": FULL_RANGE.get((signed, low, high), 0),
        "fixed_point_only": int(fixed_point_only),
        **({"twice": twice} if twice else {}),
    }  # fmt: skip


@dataclass(frozen=True)
class MicroLayerI8:
    """An integer layer.

    ``w``: [out_c, in_c / groups, *kernel]; ``w_zero``: one, or one per channel; ``bias``: in units
    of x_scale * w_scale, or None; ``groups``: the layers of all groups, if this is the first one.
    """

    shape: MicroShape
    layer: LayerI8
    w: np.ndarray
    w_zero: np.ndarray | int = 0
    bias: np.ndarray | None = None
    groups: tuple[MicroLayerI8, ...] = ()

    @property
    def parts(self) -> tuple[MicroLayerI8, ...]:
        return self.groups or (self,)

    @cached_property
    def constants(self) -> ConstantsI8:
        return ConstantsI8(self.layer, self.w, self.w_zero, self.bias)

    @cached_property
    def weights(self) -> np.ndarray:
        """w - w_zero as int64 [out_c, element of the window], channels innermost."""
        centred = self.constants.centred
        return centred.transpose(0, 2, 3, 4, 1).reshape(len(centred), -1)

    @property
    def int8_offset(self) -> int:
        """Offset added to activations for kernels that multiply int8 by int8."""
        return 0 if self.layer.x_signed else -128

    @property
    def fits_int8(self) -> bool:
        """Whether weights minus their zero points fit into int8."""
        return bool(self.weights.min() >= -128 and self.weights.max() <= 127)

    def folded_bias(self, unit: int, offset: int = 0) -> np.ndarray:
        """Return the biases minus the input zero point's contribution, padded to ``unit`` channels.

        ``offset``: added to activations by the kernel before it multiplies them.
        """
        return pad_to_multiple(self.constants.folded_bias(offset), unit)

    def shifted_weights(self, unit: int) -> tuple[np.ndarray, np.ndarray]:
        """Return weights shifted into int8, padded to pairs of channels and to a multiple of
        ``unit``, and the shift of each channel: the smallest that makes them fit."""
        flat = self.weights
        shift = shifts_into_int8(flat)
        full = np.zeros((round_up(len(flat), 2), round_up(flat.shape[1], unit)), np.int64)
        full[: len(flat), : flat.shape[1]] = flat - shift[:, None]
        return full, shift

    def members(
        self, kernel: MicroKernel, y_bytes: int, bounds: tuple[int, int, int, bool],
        fixed_point_only: bool = False, twice: str = "",
    ) -> dict[str, object]:  # fmt: skip
        """Return the members of the layer's ``tvmrt_micro_conv_i8``.

        ``bounds``: zero point, minimum and maximum of the output, and whether it is signed;
        zeros with an epilogue. ``fixed_point_only``: sums become bytes by fixed-point multipliers
        alone. ``twice``: see ``RequantTable``.
        """
        is_int8 = bounds[1:] == (-128, 127, True)
        fixed_point_only = fixed_point_only and is_int8 and self.shape.out_c % 2 == 0
        return {
            "shape": self.shape.members(kernel.scratch(self)),
            "x_zero": self.layer.x_zero,
            "x_signed": X_INT16 if self.shape.x_bytes == 2 else int(self.layer.x_signed),
            "y_bytes": y_bytes,
            "range": micro_range(*bounds, fixed_point_only, twice),
        }


def micro_shape(
    layer: LayerI8, scale: np.ndarray | None, by_rows: bool = False
) -> MicroShape | None:
    """Return a layer's shape for these kernels, or None if they do not support it.

    ``scale``: the multipliers of the sums, None if an epilogue takes the sums. ``by_rows``: for
    some rows of the layer; else a dense layer's image of one column becomes one row, whose windows
    are contiguous.
    """
    if not (layer.groups == 1 or layer.depthwise):
        return None
    if scale is not None and not (scale.min() > 0 and scale.max() < 256):
        return None
    window = layer.window
    if window.has_one_column and not (by_rows or layer.depthwise):
        window = window.in_longest_rows()
    shape = MicroShape(window, layer.in_c, layer.out_c, layer.depthwise, layer.x_bytes)
    return shape if shape.is_supported else None


def pixel_kind(shape: MicroShape, single_pixel: bool = True) -> str:
    """Return the ``tvmrt_micro_window_kind`` of all windows of a dense layer.

    ``single_pixel``: the kernel has smaller code for a layer of one pixel.
    """
    if not shape.pointwise:
        return "TVMRT_MICRO_ANY_WINDOW"
    alone = single_pixel and upper_bound(shape.pixels) == 1
    return "TVMRT_MICRO_ONE_PIXEL" if alone else "TVMRT_MICRO_POINTWISE"


def im2col_buffer_of(
    layer: MicroLayerI8, unit: int, element: int, at_once: int = 2
) -> Im2colBuffer:
    """Return the scratch of windows: pixels of ``element`` bytes per element, one of bytes.

    ``unit``: the length of a window is a multiple of it. ``at_once``: pixels that are computed
    together, if rows of windows are whole quads and the scratch grows by less than a part of the
    layer's tensors; else two.
    """
    shape = layer.shape
    length = round_up(shape.elements, unit)
    pixels = upper_bound(shape.pixels)
    is_in_place = shape.pointwise and length == shape.in_c
    read = prod(map(upper_bound, (shape.window.batch, *shape.in_)))
    growth = (at_once - 2) * length * element
    whole = length == shape.elements and shape.columns * shape.in_c % 4 == 0
    if not whole or growth > (read * shape.in_c + pixels * shape.out_c) / MAX_GROWTH:
        at_once = 2
    layout = min(at_once, pixels) * length * element + (0 if is_in_place else length)
    return Im2colBuffer(length, layout if layout > STACK_WINDOWS else 0)


def dense_kernel(
    header: str,
    cost: float,
    pack: Callable[[MicroLayerI8], MicroWeights],
    layout: tuple[int, ...],
    required_features: str = "",
    tile: str = "0",
    single_pixel: bool = True,
    supports: Callable[[MicroLayerI8], bool] = lambda layer: True,
    packs_in_run: bool = True,
) -> MicroKernel[MicroLayerI8]:
    """Return the descriptor of a tile of dense layers (``board/conv_i8_driver.h``).

    ``layout``: arguments of ``im2col_buffer_of``; ``tile``: the name of the header's tile;
    ``single_pixel``: see ``pixel_kind``. ``packs_in_run``: see ``MicroKernel``.
    """
    return MicroKernel(
        header=f"board/{header}.h",
        name="tvmrt_micro_conv_i8",
        extra_arguments=lambda layer: (tile, pixel_kind(layer.shape, single_pixel)),
        cost=cost,
        supports=lambda layer: not layer.shape.depthwise and supports(layer),
        pack=pack,
        scratch=lambda layer: im2col_buffer_of(layer, *layout),
        required_features=frozenset(required_features.split()),
        packs_in_run=packs_in_run,
    )


def pack_windows(
    layer: MicroLayerI8, unit: int, group: int, offset: int = 0, block: int = 2
) -> MicroWeights:
    """Pack weights as int8 [block of channels][group of elements][channel of the block][element].

    ``block``: channels of a block; the last channels after whole blocks form pairs.
    """
    full, shift = layer.shifted_weights(unit)
    full_blocks = len(full) // block * block
    parts = [
        some.astype(np.int8).reshape(-1, channels, full.shape[1] // group, group)
        for some, channels in ((full[:full_blocks], block), (full[full_blocks:], 2))
    ]
    weights = np.concatenate([part.transpose(0, 2, 1, 3).reshape(-1) for part in parts])
    return MicroWeights(weights, layer.folded_bias(2, offset), padded_shifts(shift))


def padded_shifts(shift: np.ndarray, unit: int = 2) -> np.ndarray | None:
    """Return the weight shifts padded to ``unit`` channels, or None if all are zero."""
    return pad_to_multiple(shift.astype(np.int32), unit) if shift.any() else None

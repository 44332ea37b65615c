"""Integer layers whose channels a kernel computes group by group
(``kernels/board/channel_groups_i8.h``)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from tvmrt.compiler.ir.rounding import round_up

from ...c.initializers import print_static_struct
from ...c.writer import FunctionWriter
from ...geometry import Window
from ..layer_i8 import LayerI8
from .kernel import MicroKernel, MicroWeights
from .layer_i8 import MicroLayerI8, micro_shape
from .shape import MicroShape

QUAD = 4  # channels that kernels compute together


@dataclass(frozen=True)
class ChannelGroups:
    """Division of a layer by channels.

    ``layer``: one group, a dense or depthwise layer; ``count``: number of groups; ``whole``: window
    of the layer; ``copies``: of each input channel, the depth multiplier; ``copies_input``: whether
    the input of a group is copied first, with its padding if the layer of the group has none.
    """

    layer: LayerI8
    count: int
    whole: Window
    copies: int = 1
    copies_input: bool = False

    @property
    def copied_bytes(self) -> int:
        """Bytes of the copy, in whole words."""
        if not self.copies_input:
            return 0
        pixels = self.layer.window.batch * prod(self.layer.window.in_)
        return round_up(pixels * self.layer.in_c * self.layer.x_bytes, 4)

    def members(self) -> dict[str, object]:
        """Return the members of the ``tvmrt_micro_groups`` that do not depend on constants."""
        whole, one = self.whole, self.layer.window
        first = [max(0, p) if one.pad[dim] == 0 else 0 for dim, p in enumerate(whole.pad)]
        return {
            "images": whole.batch if self.copies_input else 0,
            "in": whole.in_[1:], "first": tuple(first[1:]),
            "bytes": self.copied_bytes if one.in_ != whole.in_ else 0,
            "x_stride": whole.x_stride * self.layer.x_bytes,
            "in_c": self.layer.in_c // self.copies * self.layer.x_bytes,
            "copies": self.copies,
        }  # fmt: skip

    def split(self, whole: MicroLayerI8) -> MicroLayerI8:
        """Return the layer of the first group, with all groups as its parts. ``whole`` has the
        shape of one group and the constants of all."""
        w_zero = np.broadcast_to(np.asarray(whole.w_zero).reshape(-1), (len(whole.w),))
        w = whole.w.reshape(len(w_zero), -1, *self.whole.kernel)
        columns = self.layer.window.kernel[2] - self.whole.kernel[2]
        zeros = np.broadcast_to(w_zero.reshape(-1, 1, 1, 1, 1), (*w.shape[:-1], columns))
        w = np.concatenate([w, zeros.astype(w.dtype)], axis=-1)
        constants = (np.split(each, self.count) for each in (w, w_zero))
        bias = [None] * self.count if whole.bias is None else np.split(whole.bias, self.count)
        groups = tuple(
            MicroLayerI8(whole.shape, self.layer, *each) for each in zip(*constants, bias)
        )
        return replace(groups[0], groups=groups)


def group_outputs(in_c: int, out_c: int, groups: int) -> int:
    """Return the output channels that a kernel computes per call. With a depth multiplier, these
    are no more than the input has channels, and a quad at least, if channels divide evenly."""
    if groups == 1 or groups == in_c == out_c:
        return out_c
    copies = out_c // in_c
    if groups != in_c:
        return out_c // groups
    most = max(in_c // copies, -(-QUAD // copies))
    return copies * max(n for n in range(1, most + 1) if in_c % n == 0)


def divide_channels(layer: LayerI8, helium: bool) -> ChannelGroups | None:
    """Return the groups of a layer that is neither dense nor depthwise, or None; ``helium``:
    whether kernels read vectors."""
    if layer.groups == 1 or layer.depthwise:
        return None
    outputs = group_outputs(layer.in_c, layer.out_c, layer.groups)
    window, count = layer.window, layer.out_c // outputs
    if layer.in_c == layer.groups:
        one = replace(layer, window=replace(window, x_stride=outputs), in_c=outputs,
                      out_c=outputs, groups=outputs)  # fmt: skip
        return ChannelGroups(one, count, window, layer.out_c // layer.in_c, True)
    one = replace(layer, in_c=layer.in_c // count, out_c=outputs, groups=1)
    window = window.in_longest_rows() if window.has_one_column else window
    if window.kernel[2] == 1 or window.dilation[2] > 1:
        return ChannelGroups(one, count, window)
    columns = whole_columns(window, one.in_c, 16 if helium else QUAD)
    wide = replace(window, kernel=(*window.kernel[:2], columns), x_stride=one.in_c)
    copied = with_padding(wide)
    return ChannelGroups(replace(one, window=copied), count, window, 1, True)


def kernel_shape(
    layer: LayerI8, groups: ChannelGroups | None, scale: np.ndarray | None, by_rows: bool = False
) -> MicroShape | None:
    """Return the shape of a layer, or of one of its groups, or None, see ``micro_shape``."""
    shape = micro_shape(layer if groups is None else groups.layer, scale, by_rows)
    return None if shape is None or (groups and shape.of_run) else shape


def whole_columns(window: Window, channels: int, unit: int) -> int:
    """Return the columns of a window whose rows dense kernels read without a copy as bytes: rows
    are multiples of ``unit``, windows of 8 bytes, too. Columns of zeros add a third at most."""
    rows, columns = window.kernel[1:]
    for more in range(columns, columns * 4 // 3 + 1):
        if more * channels % unit == 0 and rows * more * channels % 8 == 0:
            return more
    return columns


def with_padding(window: Window) -> Window:
    """Return the window over images that contain their padding. Axes that are cropped stay."""
    sizes = [
        (extent, pad) if pad < 0 else (max(pad + extent, window.padded_extent(dim)), 0)
        for dim, (extent, pad) in enumerate(zip(window.in_, window.pad))
    ]
    in_, pad = zip(*sizes)
    return replace(window, in_=in_, pad=pad)


def pad_scales(scale: np.ndarray, channels: int) -> np.ndarray:
    """Return the multipliers, those of each of several groups padded to quads of channels;
    ``channels``: of a group."""
    if channels == len(scale):
        return scale
    groups = scale.reshape(-1, channels)
    return np.pad(groups, ((0, 0), (0, -channels % QUAD)), mode="edge").reshape(-1)


def pack_groups(kernel: MicroKernel[MicroLayerI8], layer: MicroLayerI8) -> MicroWeights:
    """Return the packed constants of all groups."""
    packed = [kernel.pack(part) for part in layer.parts]
    shifts = [each.shift for each in packed if each.shift is not None]
    shift = None
    if shifts:
        none = np.zeros_like(shifts[0])
        shift = np.concatenate([none if each.shift is None else each.shift for each in packed])
    biases = [each.bias for each in packed if each.bias is not None]
    weights = np.concatenate([each.weights for each in packed])
    return MicroWeights(weights, np.concatenate(biases) if biases else None, shift)


def print_groups(
    f: FunctionWriter, kernel: MicroKernel[MicroLayerI8], layer: MicroLayerI8,
    groups: ChannelGroups, address: str, multipliers: int,
) -> None:  # fmt: skip
    """Print the loop over the groups of a layer; its tensors are ``data``.

    ``address``: of the layer of a group; ``multipliers``: elements of the multipliers of all, 0 if
    the layer has an epilogue.
    """
    f.include("board/channel_groups_i8.h")
    packed = pack_groups(kernel, layer)
    each = {"weights": packed.weights.nbytes, "bias": _size(packed.bias),
            "multipliers": multipliers, "shift": _size(packed.shift)}  # fmt: skip
    members = {name: size // groups.count for name, size in each.items()} | groups.members()
    name = print_static_struct(f, "tvmrt_micro_groups", "groups", members)
    copy = "NULL"
    if groups.copies_input:
        copy = "copy"
        f.line(f"uint8_t *const copy = (uint8_t *)tvmrt_scratch_alloc({groups.copied_bytes});")
        f.line("if (copy == NULL) return -1;")
    with f.loop("group", groups.count):
        f.line("tvmrt_micro_group part;")
        f.line(f"tvmrt_micro_select_group(&part, {address}, &{name}, &data, group, {copy});")
        if not multipliers:  # the epilogue's channels are those of all groups
            f.macro("TVMRT_MICRO_CHANNEL_GROUPS", "1")
            address = "&part.layer"
        f.line(f"if ({kernel.call(layer, address, '&part.data')} != 0) return -1;")
    f.result(f"tvmrt_scratch_free({copy})" if groups.copies_input else "0")


def _size(values: np.ndarray | None) -> int:
    return 0 if values is None else values.size

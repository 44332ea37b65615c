"""Crop rows and columns of a convolution's kernel that see only padding.

A dilated kernel may be larger than its image, as in pyramids of dilated convolutions over a small
image: of 3x3 with dilation 24 over 14 pixels only the centre is left, a ninth of the weights.
Contract: bit-equal. Cropped weights are multiplied by zeros, or by the zero point of quantised
tensors, in every window. The kernel keeps at least one row and column.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvmrt.compiler.ir import Builder, Graph, Node, Trait, Value

from .rewrite import at, rewrite

WINDOW_ATTRIBUTES = ("strides", "dilations", "pads_before", "pads_after")


@dataclass
class _Axis:
    """Convolution along one axis; [first, end) of its kernel is kept."""

    extent: int
    out: int
    end: int
    stride: int
    dilation: int
    before: int
    after: int
    first: int = 0

    def crop(self) -> None:
        while self.end - self.first > 1 and self.before >= self.dilation:
            if (self.out - 1) * self.stride >= self.before:
                break  # the first element of the last window is after the padding
            self.first += 1
            self.before -= self.dilation
        while self.end - self.first > 1 and self.after >= self.dilation:
            if (self.end - self.first - 1) * self.dilation - self.before < self.extent:
                break
            self.end -= 1
            self.after -= self.dilation


def crop_windows(graph: Graph) -> None:
    rewrite(graph, _crop)


@at(Trait.CONVOLUTION)
def _crop(b: Builder, node: Node) -> Value | None:
    x, w = node.inputs[:2]
    extents = (*x.shape[2:], *node.output.shape[2:])
    if not w.is_constant or not all(isinstance(n, int) for n in extents):
        return None
    columns = (
        x.shape[2:],
        node.output.shape[2:],
        w.shape[2:],
        *map(node.attrs.get, WINDOW_ATTRIBUTES),
    )
    axes = [_Axis(*row) for row in zip(*columns)]
    for axis in axes:
        axis.crop()
    slices = [slice(axis.first, axis.end) for axis in axes]
    weights = w.data[(slice(None), slice(None), *slices)]
    if weights.shape == w.shape:
        return None
    pads = {
        "pads_before": tuple(axis.before for axis in axes),
        "pads_after": tuple(axis.after for axis in axes),
    }
    inputs = [x, b.const(weights.copy(), w.name), *node.inputs[2:]]
    return b.emit(node.op, inputs, node.name, **{**node.attrs, **pads})

"""Layers that have kernel variants to choose from, and their signatures.

The signature of a layer is a text with everything that its time depends on, equal in every network
that has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from .extent import symbols_of
from .graph import Node
from .recurrent import ACTIVATIONS
from .reduced_precision import BFLOAT16, is_reduced
from .rounding import ceil_div
from .traits import Trait
from .winograd import TAPS

FLOAT32 = "float32"
BYTES = ("int8", "uint8")
# Kinds of layer; each has a cost model of its own.
DENSE, DEPTHWISE, RECURRENT, TRANSPOSED = "dense", "depthwise", "recurrent", "transposed"
_FORM = re.compile(
    r"(?P<op>\w+) (?P<element>\w+) (?P<x>\d+(x\d+)+) by (?P<w>\d+(x\d+)+)"
    r"( stride (?P<strides>[\dx]+) dilation (?P<dilations>[\dx]+) pads (?P<before>[-\dx]+)"
    r" (?P<after>[-\dx]+) groups (?P<groups>\d+))?"
)
Extents = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """Layer with constant weights, described by everything that its time depends on.

    ``op`` is the operator on floating-point numbers. ``element`` is the element type of the
    operands, for int8 operators that of x. Subclasses describe the shapes of ``x`` and ``w``.
    """

    op: str
    element: str
    x: Extents
    w: Extents

    elements: ClassVar[tuple[str, ...]] = (FLOAT32,)  # the possible element types
    kind: ClassVar[str] = DENSE
    depthwise: ClassVar[bool] = False  # whether each channel has its own window
    may_use_threads: ClassVar[bool] = True
    ranks: ClassVar[tuple[int, ...]] = ()  # of x and w; empty if they follow from the window

    @property
    def operator(self) -> str:
        """Operator of the graph that computes the layer in floating point."""
        return self.op

    @property
    def text(self) -> str:
        """Signature of the layer."""
        return f"{self.op} {self.element} {_join(self.x)} by {_join(self.w)}"

    @property
    def out(self) -> Extents:
        """Shape of the result."""
        raise NotImplementedError

    @property
    def outputs(self) -> tuple[int, int]:
        """Output channels of a group, and multiply-adds for each output."""
        raise NotImplementedError

    @property
    def macs(self) -> int:
        """Number of multiply-adds."""
        return prod(self.out) * self.outputs[1]

    @property
    def row_pixels(self) -> int:
        """Number of pixels that are tiled as one row."""
        raise NotImplementedError

    @property
    def pixels(self) -> int:
        """Number of pixels of one image of the result."""
        return prod(self.out[2:])

    @property
    def fits_winograd(self) -> bool:
        """Whether it can be computed by Winograd."""
        return False

    def attributes(self) -> dict[str, Any]:
        """Return the attributes of a node with ``operator``."""
        return {}


@dataclass(frozen=True)
class MatmulLayer(Layer):
    """Matrix product: x [rows, K], w [K, columns]."""

    elements = (FLOAT32, BFLOAT16, *BYTES)
    ranks = (2, 2)

    @property
    def out(self) -> Extents:
        return self.x[0], self.w[1]

    @property
    def outputs(self) -> tuple[int, int]:
        return self.w[1], self.w[0]

    @property
    def row_pixels(self) -> int:
        return self.x[0]

    @property
    def pixels(self) -> int:
        return self.x[0]


@dataclass(frozen=True)
class CellLayer(Layer):
    """Recurrent cell: x [steps, batch, gates * hidden], w [gates * hidden, hidden].

    The operator ``gru_linear`` is a ``gru`` with a reset after the matmul.
    """

    kind = RECURRENT
    ranks = (3, 2)
    may_use_threads = False

    @property
    def out(self) -> Extents:
        return *self.x[:2], self.w[1]

    @property
    def outputs(self) -> tuple[int, int]:
        return self.w[0], self.w[1]

    @property
    def macs(self) -> int:
        return prod(self.x[:2]) * prod(self.w)

    @property
    def row_pixels(self) -> int:
        return self.x[1]

    @property
    def operator(self) -> str:
        return self.op.removesuffix(_LINEAR)

    def attributes(self) -> dict[str, Any]:
        names = ACTIVATIONS[self.operator]
        values = {"input_forget": False, "linear_before_reset": self.op.endswith(_LINEAR)}
        attrs: dict[str, Any] = {n: v for n, v in values.items() if n in _CELLS[self.operator]}
        activations = tuple((name, None, None) for name in names)
        return {"reverse": False, "clip": float("inf"), "activations": activations, **attrs}


@dataclass(frozen=True)
class ConvLayer(Layer):
    """Convolution: x [N, C, ...], w [OC, C / groups, ...]."""

    strides: Extents = ()
    dilations: Extents = ()
    before: Extents = ()
    after: Extents = ()
    groups: int = 1

    elements = (FLOAT32, BFLOAT16, *BYTES)

    @property
    def kind(self) -> str:  # type: ignore[override]
        return DEPTHWISE if self.depthwise else DENSE

    @property
    def text(self) -> str:
        return (
            f"{super().text} stride {_join(self.strides)} dilation {_join(self.dilations)} pads "
            f"{_join(self.before)} {_join(self.after)} groups {self.groups}"
        )

    @property
    def depthwise(self) -> bool:  # type: ignore[override]
        return self.groups == self.w[0] > 1 and self.w[1] == 1

    @property
    def out(self) -> Extents:
        extents = ((n + b + a - (k - 1) * d - 1) // s + 1 for n, k, s, d, b, a in self._axes())
        return (self.x[0], self.w[0], *extents)

    @property
    def outputs(self) -> tuple[int, int]:
        return self.w[0] // self.groups, prod(self.w[1:])

    @property
    def row_pixels(self) -> int:
        still = self.x[2:] == self.out[2:] and prod(self.w[2:]) == 1
        return self.x[0] * prod(self.x[2:]) if still else self.out[-1]

    @property
    def fits_winograd(self) -> bool:
        ones = (*self.strides, *self.dilations, self.groups)
        fits = self.w[2:] == (TAPS, TAPS) and all(n == 1 for n in ones)
        return fits and self.element not in BYTES

    def attributes(self) -> dict[str, Any]:
        return {**self._window(), "pads_after": self.after}

    def _axes(self) -> zip:
        return zip(self.x[2:], self.w[2:], self.strides, self.dilations, self.before, self.after)

    def _window(self) -> dict[str, Any]:
        return {
            "strides": self.strides, "dilations": self.dilations, "pads_before": self.before,
            "groups": self.groups,
        }  # fmt: skip


@dataclass(frozen=True)
class TransposedConvLayer(ConvLayer):
    """Transposed convolution: w [C, OC / groups, ...]; ``before`` and ``after`` are cropped from
    the full result."""

    elements = (FLOAT32, BFLOAT16)
    kind = TRANSPOSED
    depthwise = False

    @property
    def out(self) -> Extents:
        extents = ((n - 1) * s + (k - 1) * d + 1 - b - a for n, k, s, d, b, a in self._axes())
        return (self.x[0], self.w[1] * self.groups, *extents)

    @property
    def outputs(self) -> tuple[int, int]:
        of_phase = prod(map(ceil_div, self.w[2:], self.strides))
        return self.w[1], self.w[0] // self.groups * of_phase

    @property
    def macs(self) -> int:
        return prod(self.x) * prod(self.w[1:])

    @property
    def row_pixels(self) -> int:
        return ceil_div(self.out[-1], self.strides[-1])

    @property
    def fits_winograd(self) -> bool:
        return False

    def attributes(self) -> dict[str, Any]:
        return {**self._window(), "out_spatial": self.out[2:]}


_LINEAR = "_linear"
# The attributes of each cell that its signature states or fixes.
_CELLS = {"lstm": ("input_forget",), "gru": ("linear_before_reset",), "rnn": ()}
# Classes by the operator of the signature.
CLASSES: dict[str, type[Layer]] = {
    "conv": ConvLayer,
    "conv_transpose": TransposedConvLayer,
    "matmul": MatmulLayer,
    **dict.fromkeys((*_CELLS, "gru" + _LINEAR), CellLayer),
}


def _join(extents: Sequence[int]) -> str:
    return "x".join(map(str, extents))


def _split(text: str) -> Extents:
    return tuple(map(int, text.split("x")))


def parse_layer(text: str) -> Layer:
    """Parse the signature of a layer. Raise ValueError for any other text."""
    match = _FORM.fullmatch(text)
    kind = CLASSES.get(match["op"]) if match else None
    if match is None or kind is None or bool(kind.ranks) != (match["strides"] is None):
        raise ValueError(f"'{text}' is not a layer signature")
    if match["element"] not in kind.elements:
        raise ValueError(f"'{text}' is not a layer signature: unknown element type")
    shapes = match["op"], match["element"], _split(match["x"]), _split(match["w"])
    members: tuple[Extents, ...] = ()
    if issubclass(kind, ConvLayer):
        members = tuple(_split(match[n]) for n in ("strides", "dilations", "before", "after"))
        layer: Layer = kind(*shapes, *members, int(match["groups"]))
        ranks = (len(members[0]) + 2,) * 2
        positive = (*layer.x, *layer.w, *members[0], *members[1], layer.groups)
    else:
        layer = kind(*shapes)
        ranks, positive = kind.ranks, (*layer.x, *layer.w)
    if (len(layer.x), len(layer.w)) != ranks or len(set(map(len, members))) > 1:
        raise ValueError(f"'{text}' is not a layer signature: its ranks differ")
    if not all(positive):
        raise ValueError(f"'{text}' is not a layer signature: an extent is 0")
    return layer


def layer_of(node: Node) -> Layer | None:
    """Return the layer that a node computes. Return None for layers without choices: other
    operators, computed weights, dynamic dimensions."""
    operator = node.operator
    if operator.is_product and operator.weights is None and not operator.variant_of:
        return None
    op = operator.integer_of or operator.variant_of or node.op
    if node.has(Trait.RECURRENT) and node.attrs.get("linear_before_reset"):
        op += _LINEAR
    kind = CLASSES.get(op)
    if kind is None or len(node.inputs) < 2:
        return None
    x, w = node.inputs[0], node.inputs[1]
    if x is None or w is None or not w.is_constant or w.keeps_layout:
        return None
    if operator.variant_of and w.dtype.name != FLOAT32:
        return None
    if symbols_of(x.shape, node.outputs[0].shape) or not all((*x.shape, *w.shape)):
        return None
    reduced = BFLOAT16 if is_reduced(node) else FLOAT32
    element = x.dtype.name if x.dtype.name in BYTES else reduced
    if kind is MatmulLayer:
        if w.type.rank != 2 or x.type.rank < 2:
            return None
        return kind(op, element, (prod(x.shape[:-1]), x.shape[-1]), tuple(w.shape))
    if not issubclass(kind, ConvLayer):
        return kind(op, element, tuple(x.shape), tuple(w.shape))
    return _convolution(kind, op, element, node)


def _convolution(kind: type[ConvLayer], op: str, element: str, node: Node) -> ConvLayer:
    x, w, *_ = node.operands()
    ones = (1,) * (x.type.rank - 2)
    attrs = {"strides": ones, "dilations": ones, "groups": 1, **node.attrs}  # Winograd has none
    strides, dilations, before = (tuple(attrs[n]) for n in ("strides", "dilations", "pads_before"))
    after = tuple(attrs.get("pads_after", (0,) * len(before)))
    shapes = tuple(x.shape), tuple(w.shape)
    layer = kind(op, element, *shapes, strides, dilations, before, after, attrs["groups"])
    if "out_spatial" not in attrs:
        return layer
    cut = tuple(full - y for full, y in zip(layer.out[2:], attrs["out_spatial"]))
    return replace(layer, after=cut)

"""What was found out about layers by running them: which layer, what was chosen, and for whom.

A layer is known by its signature, a text of all that its time depends on, the same in every network
that has it. The compiler asks :class:`Tuned` for a choice wherever it has one to make; how choices
are found is the business of a plug-in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any, Protocol

from .extent import symbols_of
from .graph import Node
from .reduced import BFLOAT16, is_reduced

FLOAT32 = "float32"
BYTES = ("int8", "uint8")
CONVOLUTIONS = ("conv", "conv_transpose")
LEAST_WORK = 10_000  # multiply-adds: less takes some 0.2 us, which no clock tells apart
CELLS = ("lstm", "gru", "gru_linear", "rnn")
# by the names of the graph's operators
_OPS = {"qconv": "conv", "qmatmul": "matmul", "conv_winograd": "conv"}
_SQUARES = {"strides": (1, 1), "dilations": (1, 1), "groups": 1}  # what is computed by them
_RANKS = {"matmul": (2, 2), **dict.fromkeys(CELLS, (3, 2))}  # of x and w
_ELEMENTS = {
    "conv": (FLOAT32, BFLOAT16, *BYTES),
    "conv_transpose": (FLOAT32, BFLOAT16),
    "matmul": (FLOAT32, BFLOAT16, *BYTES),
}
_FORM = re.compile(
    r"(?P<op>\w+) (?P<element>\w+) (?P<x>\d+(x\d+)+) by (?P<w>\d+(x\d+)+)"
    r"( stride (?P<strides>[\dx]+) dilation (?P<dilations>[\dx]+) pads (?P<before>[-\dx]+)"
    r" (?P<after>[-\dx]+) groups (?P<groups>\d+))?"
)
Extents = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """A layer with constant weights, by what its time depends on.

    ``conv``: x [N, C, ...], w [OC, C / groups, ...]; ``conv_transpose``: w [C, OC / groups, ...],
    ``before`` and ``after`` being what is cut off the full result; ``matmul``: x [rows, K],
    w [K, columns]; ``lstm``, ``gru``, ``gru_linear`` (whose reset comes after the product) and
    ``rnn``: x [steps, batch, gates * hidden], w [gates * hidden, hidden]. ``element`` is what is
    multiplied, of bytes that of x.
    """

    op: str
    element: str
    x: Extents
    w: Extents
    strides: Extents = ()
    dilations: Extents = ()
    before: Extents = ()
    after: Extents = ()
    groups: int = 1

    @property
    def text(self) -> str:
        """The signature."""
        text = f"{self.op} {self.element} {_join(self.x)} by {_join(self.w)}"
        if self.op in CONVOLUTIONS:
            text += (
                f" stride {_join(self.strides)} dilation {_join(self.dilations)} pads "
                f"{_join(self.before)} {_join(self.after)} groups {self.groups}"
            )
        return text

    @property
    def depthwise(self) -> bool:
        """Whether each channel has a window of its own."""
        return self.op == "conv" and self.groups == self.w[0] > 1 and self.w[1] == 1

    @property
    def out(self) -> Extents:
        """The shape of the result."""
        if self.op == "matmul":
            return self.x[0], self.w[1]
        if self.op in CELLS:
            return *self.x[:2], self.w[1]
        if self.op == "conv_transpose":
            axes = zip(
                self.x[2:], self.w[2:], self.strides, self.dilations, self.before, self.after
            )
            extents = ((n - 1) * s + (k - 1) * d + 1 - b - a for n, k, s, d, b, a in axes)
            return (self.x[0], self.w[1] * self.groups, *extents)
        axes = zip(self.x[2:], self.w[2:], self.strides, self.dilations, self.before, self.after)
        extents = ((n + b + a - (k - 1) * d - 1) // s + 1 for n, k, s, d, b, a in axes)
        return (self.x[0], self.w[0], *extents)

    @property
    def macs(self) -> int:
        """Multiply-adds."""
        if self.op == "conv_transpose":
            return prod(self.x) * prod(self.w[1:])
        if self.op in CELLS:
            return prod(self.x[:2]) * prod(self.w)
        each = self.w[0] if self.op == "matmul" else prod(self.w[1:])
        return prod(self.out) * each


def _join(extents: Sequence[int]) -> str:
    return "x".join(map(str, extents))


def _split(text: str) -> Extents:
    return tuple(map(int, text.split("x")))


def parse_layer(text: str) -> Layer:
    """The layer of a signature. Raises ValueError for a text that is none."""
    found = _FORM.fullmatch(text)
    op = found["op"] if found else ""
    known = op in (*CONVOLUTIONS, *_RANKS)
    if found is None or not known or (op in CONVOLUTIONS) != (found["strides"] is not None):
        raise ValueError(f"'{text}' is not a layer signature")
    if found["element"] not in _ELEMENTS.get(op, (FLOAT32,)):
        raise ValueError(f"'{text}' is not a layer signature: unknown element type")
    sizes = (_split(found["x"]), _split(found["w"]))
    if op in _RANKS:
        layer = Layer(op, found["element"], *sizes)
        ranks = _RANKS[op]
    else:
        windows = (_split(found[n]) for n in ("strides", "dilations", "before", "after"))
        layer = Layer(op, found["element"], *sizes, *windows, int(found["groups"]))
        ranks = (len(layer.strides) + 2,) * 2
    members = (layer.strides, layer.dilations, layer.before, layer.after)
    if (len(layer.x), len(layer.w)) != ranks or len(set(map(len, members))) > 1:
        raise ValueError(f"'{text}' is not a layer signature: its ranks differ")
    if not all((*layer.x, *layer.w, *layer.strides, *layer.dilations, layer.groups)):
        raise ValueError(f"'{text}' is not a layer signature: an extent is 0")
    return layer


def layer_of(node: Node) -> Layer | None:
    """The layer that a node computes; None where nothing is chosen for it: of other operators, of
    weights that a run computes, and where a run chooses extents."""
    op = _OPS.get(node.op, node.op)
    if op == "gru" and node.attrs["linear_before_reset"]:
        op = "gru_linear"
    if op not in (*CONVOLUTIONS, *_RANKS):
        return None
    x, w = node.inputs[0], node.inputs[1]
    if w is None or not w.is_constant or w.kept or symbols_of(x.shape, node.outputs[0].shape):
        return None
    reduced = BFLOAT16 if is_reduced(node) else FLOAT32
    element = x.dtype.name if x.dtype.name in BYTES else reduced
    if not all((*x.shape, *w.shape)):
        return None
    if op == "matmul":
        if w.type.rank != 2 or x.type.rank < 2:
            return None
        return Layer("matmul", element, (prod(x.shape[:-1]), x.shape[-1]), tuple(w.shape))
    if op in CELLS:
        return Layer(op, element, tuple(x.shape), tuple(w.shape))
    sizes, attrs = (tuple(x.shape), tuple(w.shape)), {**_SQUARES, **node.attrs}
    strides, dilations, before = (tuple(attrs[n]) for n in ("strides", "dilations", "pads_before"))
    after = tuple(attrs["pads_after"] if op == "conv" else (0,) * len(before))
    layer = Layer(op, element, *sizes, strides, dilations, before, after, attrs["groups"])
    if op == "conv":
        return layer
    cut = tuple(full - y for full, y in zip(layer.out[2:], attrs["out_spatial"]))
    return replace(layer, after=cut)


@dataclass(frozen=True)
class Choice:
    """How a layer is computed; 0 and None leave that to the compiler's estimate.

    Parameters
    ----------
    tile
        Lanes, vectors of output channels, pixels of a register tile.
    at_once
        Blocks of channels whose weights stay in cache while the pixels pass by.
    pixels
        Of a layer in 8 bits: pixels that are finished for all channels before the next.
    threads
        How many threads of a run share the layer at most: 1 for its caller alone, 0 for all that
        there are.
    square
        Results of a square along an axis where a convolution may be computed by squares: 2 or 4; 1
        where it is faster directly.
    """

    tile: tuple[int, int, int] | None = None
    at_once: int = 0
    pixels: int = 0
    threads: int | None = None
    square: int = 0

    def members(self) -> dict[str, Any]:
        """Those that are chosen, as JSON has them."""
        unsaid = Choice()
        chosen = {n: v for n, v in asdict(self).items() if v != getattr(unsaid, n)}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in chosen.items()}

    def __str__(self) -> str:
        words = []
        if self.square > 1:
            words.append(f"squares of {self.square}")
        elif self.tile:
            words.append(f"tiles of {self.tile[0]} x {self.tile[1]} channels x {self.tile[2]}")
        if self.at_once:
            words.append(f"{self.at_once} blocks at once")
        if self.pixels:
            words.append(f"{self.pixels} pixels at once")
        if self.threads is not None:
            many = f"{self.threads} threads" if self.threads else "all threads"
            words.append("one thread" if self.threads == 1 else many)
        return ", ".join(words) or "as estimated"


@dataclass(frozen=True)
class UsedChoice:
    """A choice that went into a network: of which layer, on which level of processors, and whether
    it was ``measured`` or comes from the ``model``."""

    layer: str
    level: str
    choice: Choice
    source: str


class Guide(Protocol):
    """Who knows choices for a level of processors."""

    def choice(
        self, layer: Layer, level: str, options: Callable[[], Sequence[Choice]]
    ) -> tuple[Choice, str] | None:
        """A choice and where it comes from, ``measured`` or ``model``; None to leave it to the
        estimate. ``options`` are those that there are, the estimate's first."""

    def square(self, layer: Layer, level: str) -> tuple[Choice, str] | None:
        """The same of a convolution that may be computed by squares: what has ``square``."""


class Tuned:
    """Choices for the layers of one network and level of processors, and which were used.

    ``level`` is what the choice depends on (``codegen.target.vectors_of``).
    """

    def __init__(self, level: str, guide: Guide) -> None:
        self.level = level
        self._guide = guide
        self._found: dict[tuple[str, bool], UsedChoice | None] = {}

    def choice(self, node: Node, options: Callable[[], Sequence[Choice]]) -> Choice:
        """What was chosen for a node; an empty choice where nothing was."""
        layer = layer_of(node)
        if layer is None:
            return Choice()
        level = level_for(layer, self.level)
        return self._remembered(layer, False, lambda: self._guide.choice(layer, level, options))

    def square(self, node: Node) -> int:
        """Results of a square along an axis that were chosen for a convolution, 1 where directly is
        faster; 0 where nothing was."""
        layer = layer_of(node)
        if layer is None:
            return 0
        level = level_for(layer, self.level)
        return self._remembered(layer, True, lambda: self._guide.square(layer, level)).square

    def _remembered(
        self, layer: Layer, squares: bool, ask: Callable[[], tuple[Choice, str] | None]
    ) -> Choice:
        key = (layer.text, squares)
        if key not in self._found:
            found = ask()
            level = level_for(layer, self.level)
            self._found[key] = found and UsedChoice(layer.text, level, *found)
        used = self._found[key]
        return Choice() if used is None else used.choice

    @property
    def used(self) -> list[UsedChoice]:
        """Those that were asked for and found, by their layers."""
        return [each for _, each in sorted(self._found.items()) if each is not None]


def level_for(layer: Layer, level: str) -> str:
    """What of a level the choice for a layer depends on: of bytes the instructions that multiply
    them, of floats the vectors."""
    vectors, *more = level.split()
    if layer.element in BYTES:
        return more[-1]
    kinds = [word for word in more if word.startswith("bf16")] if layer.element == BFLOAT16 else []
    return " ".join([vectors, *kinds])

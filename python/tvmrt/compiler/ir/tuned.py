"""Tuning results: kernel variants chosen for layers by measurement or by a model.

A layer is identified by its signature, a text with everything that its time depends on, equal in
every network that has it. The compiler queries :class:`Tuned` wherever it has a choice; a plug-in
finds the choices.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any, Protocol

from .extent import symbols_of
from .graph import Node
from .reduced_precision import BFLOAT16, is_reduced

FLOAT32 = "float32"
BYTES = ("int8", "uint8")
CONVOLUTIONS = ("conv", "conv_transpose")
MIN_MACS = 10_000  # multiply-adds: less takes some 0.2 us, too little to measure
CELLS = ("lstm", "gru", "gru_linear", "rnn")
# keys are operators of the graph
_OPS = {"qconv": "conv", "qmatmul": "matmul", "conv_winograd": "conv"}
_WINOGRAD_ATTRIBUTES = {
    "strides": (1, 1),
    "dilations": (1, 1),
    "groups": 1,
}  # attributes of Winograd nodes
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
    """Layer with constant weights, described by everything that its time depends on.

    ``conv``: x [N, C, ...], w [OC, C / groups, ...]. ``conv_transpose``: w [C, OC / groups, ...];
    ``before`` and ``after`` are cropped from the full result. ``matmul``: x [rows, K], w [K,
    columns]. ``lstm``, ``gru``, ``gru_linear`` (reset after the matmul) and ``rnn``: x [steps,
    batch, gates * hidden], w [gates * hidden, hidden]. ``element`` is the element type of the
    operands, for int8 operators that of x.
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
        """Signature of the layer."""
        text = f"{self.op} {self.element} {_join(self.x)} by {_join(self.w)}"
        if self.op in CONVOLUTIONS:
            text += (
                f" stride {_join(self.strides)} dilation {_join(self.dilations)} pads "
                f"{_join(self.before)} {_join(self.after)} groups {self.groups}"
            )
        return text

    @property
    def depthwise(self) -> bool:
        """Whether each channel has its own window (depthwise)."""
        return self.op == "conv" and self.groups == self.w[0] > 1 and self.w[1] == 1

    @property
    def out(self) -> Extents:
        """Shape of the result."""
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
        """Number of multiply-adds."""
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
    """Parse the signature of a layer. Raise ValueError for any other text."""
    match = _FORM.fullmatch(text)
    op = match["op"] if match else ""
    is_known_op = op in (*CONVOLUTIONS, *_RANKS)
    if match is None or not is_known_op or (op in CONVOLUTIONS) != (match["strides"] is not None):
        raise ValueError(f"'{text}' is not a layer signature")
    if match["element"] not in _ELEMENTS.get(op, (FLOAT32,)):
        raise ValueError(f"'{text}' is not a layer signature: unknown element type")
    sizes = (_split(match["x"]), _split(match["w"]))
    if op in _RANKS:
        layer = Layer(op, match["element"], *sizes)
        ranks = _RANKS[op]
    else:
        windows = (_split(match[n]) for n in ("strides", "dilations", "before", "after"))
        layer = Layer(op, match["element"], *sizes, *windows, int(match["groups"]))
        ranks = (len(layer.strides) + 2,) * 2
    members = (layer.strides, layer.dilations, layer.before, layer.after)
    if (len(layer.x), len(layer.w)) != ranks or len(set(map(len, members))) > 1:
        raise ValueError(f"'{text}' is not a layer signature: its ranks differ")
    if not all((*layer.x, *layer.w, *layer.strides, *layer.dilations, layer.groups)):
        raise ValueError(f"'{text}' is not a layer signature: an extent is 0")
    return layer


def layer_of(node: Node) -> Layer | None:
    """Return the layer that a node computes. Return None for layers without choices: other
    operators, computed weights, dynamic dimensions."""
    op = _OPS.get(node.op, node.op)
    if op == "gru" and node.attrs["linear_before_reset"]:
        op = "gru_linear"
    if op not in (*CONVOLUTIONS, *_RANKS):
        return None
    x, w = node.inputs[0], node.inputs[1]
    if (
        w is None
        or not w.is_constant
        or w.keeps_layout
        or symbols_of(x.shape, node.outputs[0].shape)
    ):
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
    sizes, attrs = (tuple(x.shape), tuple(w.shape)), {**_WINOGRAD_ATTRIBUTES, **node.attrs}
    strides, dilations, before = (tuple(attrs[n]) for n in ("strides", "dilations", "pads_before"))
    after = tuple(attrs["pads_after"] if op == "conv" else (0,) * len(before))
    layer = Layer(op, element, *sizes, strides, dilations, before, after, attrs["groups"])
    if op == "conv":
        return layer
    cut = tuple(full - y for full, y in zip(layer.out[2:], attrs["out_spatial"]))
    return replace(layer, after=cut)


@dataclass(frozen=True)
class Choice:
    """Kernel variant of a layer; 0 and None leave the decision to the compiler's estimate.

    Parameters
    ----------
    tile
        Lanes, vectors of output channels and pixels of a register tile.
    at_once
        Blocks of channels whose weights stay in cache during a pass over the pixels.
    pixels
        For int8 layers: pixels that are completed for all channels before the next ones.
    threads
        Maximum number of threads of a run for the layer: 1 for the calling thread only, 0 for all
        threads.
    square
        Output extent of a Winograd tile, 2 or 4, if a convolution may be computed by Winograd; 1 if
        direct convolution is faster.
    """

    tile: tuple[int, int, int] | None = None
    at_once: int = 0
    pixels: int = 0
    threads: int | None = None
    square: int = 0

    def members(self) -> dict[str, Any]:
        """Return the fields that are set, in the form of JSON."""
        defaults = Choice()
        chosen = {n: v for n, v in asdict(self).items() if v != getattr(defaults, n)}
        return {n: list(v) if isinstance(v, tuple) else v for n, v in chosen.items()}

    def __str__(self) -> str:
        words = []
        if self.square > 1:
            words.append(f"Winograd {self.square}")
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
    """Choice used in a network: layer signature, ISA level, choice, and whether it was ``measured``
    or comes from the ``model``."""

    layer: str
    level: str
    choice: Choice
    source: str


class Guide(Protocol):
    """Cost model: source of choices for an ISA level."""

    def choice(
        self, layer: Layer, level: str, options: Callable[[], Sequence[Choice]]
    ) -> tuple[Choice, str] | None:
        """Return a choice and its source, ``measured`` or ``model``; None to keep the estimate.
        ``options``: the available choices, starting with the estimate."""

    def square(self, layer: Layer, level: str) -> tuple[Choice, str] | None:
        """Return a choice with ``square`` for a convolution that may be computed by Winograd."""


class Tuned:
    """Choices for the layers of one network and ISA level, with a record of those used.

    ``level`` is the part of the target that choices depend on (``codegen.target.vector_key``).
    """

    def __init__(self, level: str, guide: Guide) -> None:
        self.level = level
        self._guide = guide
        self._used: dict[tuple[str, bool], UsedChoice | None] = {}

    def choice(self, node: Node, options: Callable[[], Sequence[Choice]]) -> Choice:
        """Return the choice for a node; an empty one if there is none."""
        layer = layer_of(node)
        if layer is None:
            return Choice()
        level = level_for(layer, self.level)
        return self._lookup(layer, False, lambda: self._guide.choice(layer, level, options))

    def square(self, node: Node) -> int:
        """Return the Winograd tile extent chosen for a convolution: 1 if direct convolution is
        faster, 0 without a choice."""
        layer = layer_of(node)
        if layer is None:
            return 0
        level = level_for(layer, self.level)
        return self._lookup(layer, True, lambda: self._guide.square(layer, level)).square

    def _lookup(
        self, layer: Layer, winograd: bool, query: Callable[[], tuple[Choice, str] | None]
    ) -> Choice:
        key = (layer.text, winograd)
        if key not in self._used:
            answer = query()
            level = level_for(layer, self.level)
            self._used[key] = answer and UsedChoice(layer.text, level, *answer)
        used = self._used[key]
        return Choice() if used is None else used.choice

    @property
    def used(self) -> list[UsedChoice]:
        """Choices that were requested and found, sorted by layer."""
        return [each for _, each in sorted(self._used.items()) if each is not None]


def level_for(layer: Layer, level: str) -> str:
    """Return the part of a level that the choice for a layer depends on: int8 dot product
    instructions, or vectors for floating point."""
    vectors, *more = level.split()
    if layer.element in BYTES:
        return more[-1]
    kinds = [word for word in more if word.startswith("bf16")] if layer.element == BFLOAT16 else []
    return " ".join([vectors, *kinds])

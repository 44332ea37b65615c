"""C text of one node: names of tensors, indices and loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.graph import Node, Value

# Functions that print nodes, by operator: each prints the body of one C function.
PRINTERS: dict[str, Callable[[NodeCode], None]] = {}


def prints(*operators: str) -> Callable:
    """Decorate the function that prints nodes of these operators."""

    def add(function: Callable[[NodeCode], None]) -> Callable[[NodeCode], None]:
        PRINTERS.update(dict.fromkeys(operators, function))
        return function

    return add


def flat(places: Sequence[str], shape: Sequence[int]) -> str:
    """Return the row-major index of an element; a place along an axis of extent 1 is 0."""
    terms, stride = [], 1
    for place, extent in zip(reversed(places), reversed(shape)):
        if extent != 1 and place != "0":
            terms.append(place if stride == 1 else f"({place}) * {stride}")
        stride *= extent
    return " + ".join(reversed(terms)) or "0"


def c_type(value: Value) -> str:
    """Return the C type of elements; computed float32 tensors have one that may be wider."""
    return "real" if value.dtype.name == "float32" and not value.is_constant else value.dtype.c


def bits_text(array: np.ndarray) -> str:
    """Return the elements of a C array by their bits, so that byte orders do not matter."""
    bits = np.ascontiguousarray(array).reshape(-1)
    words = list(map(hex, bits.view(f"u{bits.itemsize}").tolist())) or ["0"]
    return ",\n".join(", ".join(words[i : i + 8]) for i in range(0, len(words), 8))


class NodeCode:
    """The C function of a node in the making. ``names``: the C array of each tensor."""

    def __init__(self, node: Node, names: dict[Value, str]) -> None:
        self.node, self.names = node, names
        self.attrs: dict[str, Any] = node.attrs
        self.y = node.outputs[0]
        self.lines: list[str] = []
        self.depth = 1

    def inner(self, node: Node, inputs: list[Value]) -> NodeCode:
        """Return code of another node, on other operands, that prints into this function."""
        part = copy(self)
        part.node, part.attrs = Node(node.op, inputs, node.attrs, node.name), node.attrs
        return part

    def has(self, index: int) -> bool:
        """Return whether there is an operand."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def shape(self, index: int) -> tuple[int, ...]:
        return self.node.inputs[index].shape

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def loop(self, name: str, extent: int) -> Iterator[str]:
        self.line(f"for (long {name} = 0; {name} < {extent}; {name}++) {{")
        self.depth += 1
        yield name
        self.depth -= 1
        self.line("}")

    @contextmanager
    def loops(self, shape: Sequence[int], letter: str = "i") -> Iterator[list[str]]:
        """Print a loop for each axis, and return the names of the indices."""
        with ExitStack() as stack:
            loops = [self.loop(f"{letter}{axis}", n) for axis, n in enumerate(shape)]
            yield [stack.enter_context(each) for each in loops]

    def raw(self, value: int | Value, places: Sequence[str] | str) -> str:
        """Return an element of an operand or a result. Places count from the last axis, as operands
        broadcast; a text is the flat index."""
        value = self.node.inputs[value] if isinstance(value, int) else value
        if not isinstance(places, str):
            places = flat(places[len(places) - len(value.shape) :], value.shape)
        return f"{self.names[value]}[{places}]"

    def at(self, index: int, places: Sequence[str] | str) -> str:
        """Return an element of an operand, widened to double, int64_t or uint64_t."""
        dtype = self.node.inputs[index].dtype
        wide = "uint64_t" if dtype.name == "uint64" else "double" if dtype.is_float else "int64_t"
        return f"({wide}){self.raw(index, places)}"

    def or_zero(self, index: int, places: Sequence[str] | str) -> str:
        """Return an element of an optional operand."""
        return self.at(index, places) if self.has(index) else "0"

    def store(self, places: Sequence[str] | str, text: str, output: int = 0) -> None:
        """Assign an expression, rounded to the element type, to an element of a result."""
        value = self.node.outputs[output]
        self.line(f"{self.raw(value, places)} = ({c_type(value)})({text});")

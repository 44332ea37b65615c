"""Operands of row epilogues: arrays indexed by pixels and channels.

The row functions of float and integer kernels receive them alike: a struct of pointers, which the
caller fills, and printed strides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tvmrt.compiler.ir import DType, Node, Strided, Value, dense
from tvmrt.compiler.ir.program import Access, Step
from tvmrt.compiler.ir.sizes import symbols_of

from ..c.formatting import GAP, initializer, times, wrap
from ..c.writer import FunctionWriter
from ..loops.pointwise import scalar_literal


@dataclass(frozen=True)
class Operand:
    """An array that a row function reads.

    ``name``: C variable of an element; ``member``: its pointer in the context; ``pointer``: the
    caller's C expression for it; ``pixel``, ``channel``: its strides.
    """

    dtype: DType
    name: str
    member: str
    pointer: str
    pixel: int
    channel: int

    def declaration(self) -> str:
        """Return the declaration of the pointer to the call's first channel (and pixel)."""
        terms = [f"operands->{self.member}"]
        if self.pixel:
            terms.append(times("pixel", self.pixel))
        if self.channel:
            terms.append(times("channel", self.channel))
        return f"const {self.dtype.c} *{self.member} = {' + '.join(terms)};"

    def element(self, c: str) -> str:
        """Return the element of channel c of the call."""
        if not self.channel:
            return f"{self.member}[0]"
        index = c if self.channel == 1 else f"({c}) * {self.channel}"
        return f"{self.member}[{index}]"

    @property
    def widened(self) -> bool:
        """Whether a vector of its elements is widened before the loop."""
        return self.channel == 1 and self.dtype.name in ("int8", "uint8")

    def at_pixel(self) -> str:
        """Return the element of channel c of the call's pixel t, from the whole array's pointer."""
        terms = []
        if self.pixel:
            terms.append(times("(pixel + t)", self.pixel))
        if self.channel:
            terms.append("channel + c" if self.channel == 1 else f"(channel + c) * {self.channel}")
        return f"{self.member}[{' + '.join(terms) or '0'}]"


def read_operands(
    f: FunctionWriter,
    step: Step,
    nodes: Sequence[Node],
    made: Iterable[Value],
    shape: Sequence[int],
    order: Sequence[int],
    expressions: dict[Value, str],
    before: Sequence[Operand] = (),
) -> list[Operand]:
    """Return the arrays that the nodes read, after ``before``; add names and literals to ``known``.

    ``made``: values that the kernel and the nodes compute. ``shape`` is that of the result,
    ``order`` its axes with the channels last.
    """
    operands = list(before)
    for value in dict.fromkeys(v for n in nodes for v in n.inputs):
        if value in made:
            continue
        expressions[value] = scalar_literal(value)
        if expressions[value] is None:
            pointer, at = _read_operand(f, step, value, order)
            pixel, channel = row_strides(at, shape, order)
            name, member = f"b{len(operands)}", f"operand{len(operands)}"
            expressions[value] = name
            operands.append(Operand(value.dtype, name, member, pointer, pixel, channel))
    return operands


def row_writer(f: FunctionWriter, name: str, used_names: Iterable[str]) -> FunctionWriter:
    """Return the writer of a function that precedes this one and reserves ``used_names``."""
    inner = FunctionWriter(name, Step(name, None, None, [], [], [], []), f.common)
    inner.threads = False
    for word in used_names:
        inner.fresh(word)
    return inner


class RowFunction:
    """A static row function that the kernel called by ``f``'s function calls back: its symbol, its
    operands, and the struct of operand pointers passed to each call."""

    def __init__(self, f: FunctionWriter, ending: str, operands: Sequence[Operand]) -> None:
        self.symbol = f.static_symbol(ending)
        self.operands = operands
        self._type = f.static_symbol("_operands") if operands else ""

    def definition(self, parameters: Sequence[str], inner: FunctionWriter) -> list[str]:
        """Return the lines of the struct and of the function around the finished body."""
        struct = []
        if self.operands:
            members = [f"  const {o.dtype.c} *{o.member};" for o in self.operands]
            struct = ["typedef struct {", *members, f"}} {self._type};", ""]
        head = wrap(f"static void {self.symbol}", [*parameters, "const void *ctx"], " {")
        note = "/* Epilogue that the kernel calls with finished rows. */"
        return [*struct, note, *head, *inner.lines, "}"]

    def open_context(self, inner: FunctionWriter) -> None:
        """Print the access to the struct."""
        if self.operands:
            inner.line(f"const {self._type} *operands ={GAP}(const {self._type} *)ctx;")
        else:
            inner.line("(void)ctx;")

    def print_context(self, f: FunctionWriter) -> tuple[str, str]:
        """Print the struct's variable at the kernel call; return the C expressions for the function
        and its context."""
        if not self.operands:
            return self.symbol, "NULL"
        pointers = initializer({o.member: o.pointer for o in self.operands})
        context = f.fresh("operands")
        f.line(f"const {self._type} {context} ={GAP}{pointers};")
        return self.symbol, f"&{context}"


def row_strides(at: Strided, shape: Sequence[int], order: Sequence[int]) -> tuple[int, int] | None:
    """Return the (pixel, channel) strides of an operand that broadcasts to ``shape``.

    ``order``: the axes in the kernel's order, the channels last. Return None if the pixels have no
    common stride, or if a stride is dynamic.
    """
    full = at.expand(shape)
    pixels = [d for d in order[:-1] if shape[d] != 1]
    step, expected = 0, None
    for d in reversed(pixels):
        if expected is None:
            step = full.strides[d]
            expected = step
        if full.strides[d] != expected:
            return None
        expected *= shape[d]
    channel = full.strides[order[-1]]
    return None if symbols_of(step, channel) else (step, channel)


def fits_rows(
    nodes: Sequence[Node], shape: Sequence[int], order: Sequence[int], accesses: dict[Value, Access]
) -> bool:
    """Return whether all operands of the nodes can be read pixel by pixel."""
    if symbols_of(shape[order[-1]]):
        return False  # row functions contain the number of channels as a constant
    computed = {n.output for n in nodes}
    for value in dict.fromkeys(v for n in nodes for v in n.inputs):
        if value in computed:
            continue
        if value.is_constant:
            at = None if scalar_literal(value) else _constant_layout(value, order)
        else:
            at = accesses[value].at if value in accesses else None
        if at is not None and row_strides(at, shape, order) is None:
            return False
    return True


def _constant_layout(value: Value, order: Sequence[int]) -> Strided:
    """Return the layout of a constant for a kernel that iterates over the result's axes in
    ``order``."""
    lead = len(order) - value.type.rank
    return dense(value.shape, [d - lead for d in order if d >= lead])


def _read_operand(
    f: FunctionWriter, step: Step, value: Value, order: Sequence[int]
) -> tuple[str, Strided]:
    if not value.is_constant:
        i = step.read_values.index(value)
        return f.read(i), step.reads[i].at
    lead = len(order) - value.type.rank
    data = np.transpose(value.data, [d - lead for d in order if d >= lead])
    return f.constant("c", data), _constant_layout(value, order)

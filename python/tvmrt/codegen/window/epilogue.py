"""What follows a kernel in its own function: residual and bounds in registers, the rest by rows.

Float kernels over channels-last memory take a residual operand, bounds, and a function that is
called on finished pixels while they are in cache. This file sorts a group's pointwise nodes
into the three and prints the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tvmrt.ir import DTYPES, Node, Strided, Value, dense
from tvmrt.ir.program import Access, Step, pixel_stride

from ..c.text import GAP, braces, times, wrap
from ..c.writer import FunctionWriter, literal
from ..loops.chain import print_chain, scalar_literal


@dataclass
class Epilogue:
    """``residual`` is added to ``start`` (the kernel's sum), then bounds, then ``rest``."""

    start: Value
    residual: Value | None = None
    low: float = -np.inf
    high: float = np.inf
    rest: list[Node] = field(default_factory=list)

    def bounds(self) -> tuple[str, str]:
        """C initialisers of the bounds."""
        return _bound(self.low), _bound(self.high)


def _bound(value: float) -> str:
    return literal(value, DTYPES["float32"])


def sort_epilogue(start: Value, nodes: Sequence[Node]) -> Epilogue:
    """Split the nodes after a kernel. ``start`` is the value that the kernel itself computes."""
    epilogue = Epilogue(start)
    current, index = start, 0
    if nodes and nodes[0].op == "add" and _only_next(current, nodes, 0):
        other = [v for v in nodes[0].inputs if v is not current]
        if len(other) == 1 and not other[0].is_constant and other[0].shape == start.shape:
            epilogue.residual = other[0]
            current, index = nodes[0].output, 1
    while index < len(nodes) and _only_next(current, nodes, index):
        if not _narrow(epilogue, nodes[index], current):
            break
        current, index = nodes[index].output, index + 1
    epilogue.start = current
    epilogue.rest = list(nodes[index:])
    return epilogue


def _only_next(value: Value, nodes: Sequence[Node], index: int) -> bool:
    """Whether of all nodes only nodes[index] reads the value."""
    return [n for n in nodes if value in n.inputs] == [nodes[index]]


def _narrow(epilogue: Epilogue, node: Node, current: Value) -> bool:
    """Take relu, or max or min with a constant, into the bounds."""
    if node.op == "relu":
        bound, op = 0.0, "max"
    elif node.op in ("min", "max"):
        other = [v for v in node.inputs if v is not current]
        if len(other) != 1 or scalar_literal(other[0]) is None:
            return False
        bound, op = float(other[0].data.reshape(-1)[0]), node.op
    else:
        return False
    if np.isnan(bound):
        return False
    if op == "max":
        epilogue.low, epilogue.high = max(epilogue.low, bound), max(epilogue.high, bound)
    else:
        epilogue.low, epilogue.high = min(epilogue.low, bound), min(epilogue.high, bound)
    return True


def row_strides(at: Strided, shape: Sequence[int], order: Sequence[int]) -> tuple[int, int] | None:
    """(pixel, channel) strides of an operand that broadcasts to ``shape``.

    ``order``: the axes as the kernel walks them, the channels last. None when the pixels are
    not at one stride.
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
    return step, full.strides[order[-1]]


def fits_rows(
    nodes: Sequence[Node],
    shape: Sequence[int],
    order: Sequence[int],
    accesses: dict[Value, Access],
) -> bool:
    """Whether all operands of the nodes can be read pixel by pixel."""
    made = {n.output for n in nodes}
    for value in dict.fromkeys(v for n in nodes for v in n.inputs):
        if value in made:
            continue
        if value.is_constant:
            at = None if scalar_literal(value) else _constant_place(value, order)
        else:
            at = accesses[value].at if value in accesses else None
        if at is not None and row_strides(at, shape, order) is None:
            return False
    return True


def residual_fits(value: Value | None, accesses: dict[Value, Access]) -> bool:
    return value is None or pixel_stride(accesses[value].at) is not None


def emit_row_epilogue(
    f: FunctionWriter,
    step: Step,
    epilogue: Epilogue,
    y_stride: int,
    shape: Sequence[int],
    order: Sequence[int],
) -> tuple[str, str]:
    """Print the row function at file scope. Returns the C expressions for it and its context.

    ``shape`` is the logical shape of the result, ``order`` its axes with the channels last,
    ``y_stride`` its pixel stride.
    """
    if not epilogue.rest:
        return "NULL", "NULL"
    name = f"{f.symbol}_epilogue"
    made = {n.output for n in epilogue.rest}
    read = dict.fromkeys(v for n in epilogue.rest for v in n.inputs)
    known: dict[Value, str] = {}
    members: list[tuple[str, str, str]] = []  # C type, name in the context, pointer outside
    loads: list[tuple[Value, str, int, int]] = []
    for value in read:
        if value in made or value is epilogue.start:
            continue
        text = scalar_literal(value)
        if text is not None:
            known[value] = text
            continue
        pointer, at = _operand(f, step, value, order)
        pixel, channel = row_strides(at, shape, order)
        member = f"operand{len(members)}"
        members.append((value.dtype.c, member, pointer))
        loads.append((value, member, pixel, channel))
    f.helper(_row_function(f, name, epilogue, y_stride, members, loads, known))
    if not members:
        return name, "NULL"
    f.line(f"const {name}_operands operands ={GAP}{braces([p for _, _, p in members])};")
    return name, "&operands"


def _constant_place(value: Value, order: Sequence[int]) -> Strided:
    """A constant as it is laid out for a kernel that walks the result's axes in ``order``."""
    lead = len(order) - value.type.rank
    return dense(value.shape, [d - lead for d in order if d >= lead])


def _operand(
    f: FunctionWriter, step: Step, value: Value, order: Sequence[int]
) -> tuple[str, Strided]:
    if not value.is_constant:
        i = step.read_values.index(value)
        return f.read(i), step.reads[i].at
    lead = len(order) - value.type.rank
    data = np.transpose(value.data, [d - lead for d in order if d >= lead])
    return f.constant("c", data), _constant_place(value, order)


def _row_function(f, name, epilogue, y_stride, members, loads, known) -> str:
    inner = FunctionWriter(name, Step(name, None, None, [], [], [], []), f.weights, False)
    for word in ("out", "pixel", "pixels", "channel", "channels", "ctx", "t", "c", "operands"):
        inner.fresh(word)
    lines = []
    if members:
        lines += [
            "",
            "typedef struct {",
            *(f"  const {ctype} *{member};" for ctype, member, _ in members),
            f"}} {name}_operands;",
        ]
    parameters = ["float *out", "int64_t pixel", "int pixels", "int channel", "int channels"]
    lines += ["", *wrap(f"static void {name}", [*parameters, "const void *ctx"], " {")]
    if members:
        inner.line(f"const {name}_operands *operands ={GAP}(const {name}_operands *)ctx;")
        for ctype, member, _ in members:
            inner.fresh(member)
            inner.line(f"const {ctype} *restrict {member} = operands->{member};")
    else:
        inner.line("(void)ctx;")
    if not any(pixel for _, _, pixel, _ in loads):
        inner.line("(void)pixel;")
    if not any(channel for _, _, _, channel in loads):
        inner.line("(void)channel;")
    rows, length = "pixels", "channels"
    if not loads:
        # pixels without gaps between them are one long row: vectors then fill up
        rows, length = inner.fresh("rows"), inner.fresh("length")
        inner.line(f"const int {rows} = channels == {y_stride} ? 1 : pixels;")
        inner.line(f"const int {length} = channels == {y_stride} ? pixels * channels : channels;")
    with inner.block(f"for (int t = 0; t < {rows}; ++t)"):
        inner.line(f"float *restrict row = out + {times('(int64_t)t', y_stride)};")
        inner.fresh("row")
        with inner.block(f"for (int c = 0; c < {length}; ++c)"):
            inner.line("const float sum = row[c];")
            inner.fresh("sum")
            known[epilogue.start] = "sum"
            for value, member, pixel, channel in loads:
                known[value] = inner.fresh("b")
                place = _place(pixel, channel)
                inner.line(f"const {value.dtype.c} {known[value]} = {member}[{place}];")
            print_chain(inner, epilogue.rest, known)
            inner.line(f"row[c] = {known[epilogue.rest[-1].output]};")
    f.include(*inner.includes)
    return "\n".join([*lines[1:], *inner.lines, "}", ""])


def _place(pixel: int, channel: int) -> str:
    """Index of an operand's element, whose strides are these."""
    terms = []
    if pixel:
        terms.append("(pixel + t)" + (f" * {pixel}" if pixel != 1 else ""))
    if channel:
        terms.append("channel + c" if channel == 1 else f"(channel + c) * {channel}")
    return " + ".join(terms) or "0"

"""Epilogues of float kernels: residual and clamping in registers, other nodes row by row.

Float kernels over channels-last memory take a residual, clamp bounds, and a function that is called
on finished pixels in cache. A group's pointwise nodes are split among the three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tvmrt.compiler.ir import DTYPES, Node, Value
from tvmrt.compiler.ir.program import Access, Step, pixel_stride
from tvmrt.compiler.ir.value_users import clamp_of

from ..c.formatting import times
from ..c.writer import FunctionWriter, literal
from ..loops.pointwise import print_pointwise_chain
from .epilogue_operands import RowFunction, read_operands, row_writer


@dataclass
class Epilogue:
    """``residual`` is added to ``start`` (the kernel's sum), then bounds are applied, then
    ``row_nodes``."""

    start: Value
    residual: Value | None = None
    low: float = -np.inf
    high: float = np.inf
    row_nodes: list[Node] = field(default_factory=list)

    @property
    def only_clamps(self) -> bool:
        """Whether there is no residual and no row function."""
        return self.residual is None and not self.row_nodes

    def bounds(self) -> tuple[str, str]:
        """Return C initialisers of the bounds."""
        return _bound(self.low), _bound(self.high)


def _bound(value: float) -> str:
    return literal(value, DTYPES["float32"])


def split_epilogue(start: Value, nodes: Sequence[Node]) -> Epilogue:
    """Split the nodes after a kernel. ``start`` is the value that the kernel itself computes."""
    epilogue = Epilogue(start)
    current, index = start, 0
    if nodes and nodes[0].op == "add" and _is_sole_reader(current, nodes, 0):
        other = [v for v in nodes[0].inputs if v is not current]
        if len(other) == 1 and not other[0].is_constant and other[0].shape == start.shape:
            epilogue.residual = other[0]
            current, index = nodes[0].output, 1
    while index < len(nodes) and _is_sole_reader(current, nodes, index):
        if not _fold_into_bounds(epilogue, nodes[index], current):
            break
        current, index = nodes[index].output, index + 1
    epilogue.start = current
    epilogue.row_nodes = list(nodes[index:])
    return epilogue


def _is_sole_reader(value: Value, nodes: Sequence[Node], index: int) -> bool:
    """Return whether nodes[index] is the only reader of the value."""
    return [n for n in nodes if value in n.inputs] == [nodes[index]]


def _fold_into_bounds(epilogue: Epilogue, node: Node, current: Value) -> bool:
    """Fold relu, or max or min with a constant, into the bounds. Return whether it was possible."""
    clamp = clamp_of(node)
    if clamp is None or clamp.x is not current:
        return False
    bound = float(clamp.limit)
    if clamp.is_lower:
        epilogue.low, epilogue.high = max(epilogue.low, bound), max(epilogue.high, bound)
    else:
        epilogue.low, epilogue.high = min(epilogue.low, bound), min(epilogue.high, bound)
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
    """Print the row function at file scope. Return the C expressions for it and its context.

    ``shape`` is the logical shape of the result, ``order`` its axes with the channels last,
    ``y_stride`` its pixel stride.
    """
    if not epilogue.row_nodes:
        return "NULL", "NULL"
    expressions: dict[Value, str] = {}
    computed = {epilogue.start, *(n.output for n in epilogue.row_nodes)}
    operands = read_operands(f, step, epilogue.row_nodes, computed, shape, order, expressions)
    function = RowFunction(f, "_epilogue", operands)
    f.helper(_row_function(f, function, epilogue, y_stride, expressions))
    return function.print_context(f)


def _row_function(f, function: RowFunction, epilogue, y_stride, expressions) -> str:
    operands = function.operands
    words = "out pixel pixels channel channels ctx t c operands row sum".split()
    used_names = [*words, *(word for o in operands for word in (o.member, o.name))]
    inner = row_writer(f, function.symbol, used_names)
    function.open_context(inner)
    for o in operands:
        inner.line(f"const {o.dtype.c} *restrict {o.member} = operands->{o.member};")
    if not any(o.pixel for o in operands):
        inner.line("(void)pixel;")
    if not any(o.channel for o in operands):
        inner.line("(void)channel;")
    rows, length = "pixels", "channels"
    if not operands:
        # contiguous pixels are one long row, so that vectors fill up
        rows, length = inner.fresh("rows"), inner.fresh("length")
        inner.line(f"const int {rows} = channels == {y_stride} ? 1 : pixels;")
        inner.line(f"const int {length} = channels == {y_stride} ? pixels * channels : channels;")
    with inner.loop("t", rows):
        inner.line(f"float *restrict row = out + {times('(int64_t)t', y_stride)};")
        with inner.loop("c", length):
            inner.line("const float sum = row[c];")
            expressions[epilogue.start] = "sum"
            for o in operands:
                inner.line(f"const {o.dtype.c} {o.name} = {o.at_pixel()};")
            print_pointwise_chain(inner, epilogue.row_nodes, expressions)
            inner.line(f"row[c] = {expressions[epilogue.row_nodes[-1].output]};")
    f.include(*inner.includes)
    parameters = ["float *out", "int64_t pixel", "int pixels", "int channel", "int channels"]
    return "\n".join([*function.definition(parameters, inner), ""])

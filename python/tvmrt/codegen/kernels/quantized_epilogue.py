"""What follows the int32 sums of an integer product in its own function, row by row.

The kernels hand over finished sums of neighbouring pixels (``tvmrt_i8_rows``); the function
printed here rescales them and goes on with the group's pointwise nodes, one loop over channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tvmrt.ir import Node, Value
from tvmrt.ir.program import Step

from ..chain import print_chain, scalar_literal
from ..epilogue import _operand as place_operand
from ..epilogue import row_strides
from ..writer import FunctionWriter, literal


@dataclass(frozen=True)
class Operand:
    """An array that the function reads: its C type, name, pointer outside, and strides."""

    value: Value | None
    ctype: str
    member: str
    pointer: str
    pixel: int
    channel: int

    def declaration(self) -> str:
        """The pointer to the call's first channel, and for one pixel if it has its own."""
        terms = [f"operands->{self.member}"]
        if self.pixel:
            terms.append("pixel" + (f" * {self.pixel}" if self.pixel != 1 else ""))
        if self.channel:
            terms.append("channel" + (f" * {self.channel}" if self.channel != 1 else ""))
        return f"const {self.ctype} *{self.member} = {' + '.join(terms)};"

    def element(self) -> str:
        """The element of channel c of the call."""
        if not self.channel:
            return f"{self.member}[0]"
        return f"{self.member}[c]" if self.channel == 1 else f"{self.member}[c * {self.channel}]"


def emit_rows(
    f: FunctionWriter,
    step: Step,
    product: Node,
    after: Sequence[Node],
    shape: Sequence[int],
    order: Sequence[int],
) -> tuple[str, str]:
    """Print the function at file scope; the C expressions for it and for its context.

    ``shape`` is the result's logical shape, ``order`` its axes with the channels last.
    """
    name = f"{f.symbol}_rows"
    known: dict[Value, str] = {}
    operands = _operands(f, step, product, after, shape, order, known)
    f.include("scalar_quant.h")
    f.define(_function(f, name, product, after, operands, known))
    if not operands:
        return name, "NULL"
    pointers = ", ".join(o.pointer for o in operands)
    f.line(f"const {name}_operands operands = {{{pointers}}};")
    return name, "&operands"


def _operands(f, step, product, after, shape, order, known) -> list[Operand]:
    found = []
    scale = product.inputs[2]
    if product.attrs["to"] != "int32" and scalar_literal(scale) is None:
        pointer = f.constant("scale", scale.data.reshape(-1))
        found.append(Operand(None, "float", "scale", pointer, 0, 1))
    made = {product.output, *(n.output for n in after)}
    for value in dict.fromkeys(v for n in after for v in n.inputs):
        if value in made:
            continue
        text = scalar_literal(value)
        if text is not None:
            known[value] = text
            continue
        pointer, at = place_operand(f, step, value, order)
        pixel, channel = row_strides(at, shape, order)
        member = f"operand{len(found)}"
        found.append(Operand(value, value.dtype.c, member, pointer, pixel, channel))
    return found


def _function(f, name, product, after, operands, known) -> str:
    inner = FunctionWriter(name, Step(name, None, None, [], [], [], []), f.weights, False)
    for word in ("rows", "ctx", "operands", "acc", "row", "pixel", "p", "c", "sum", "q"):
        inner.fresh(word)
    for word in ("channel", "channels", *(o.member for o in operands)):
        inner.fresh(word)
    result = after[-1].output if after else product.output
    if operands:
        inner.line(f"const {name}_operands *operands = (const {name}_operands *)ctx;")
    else:
        inner.line("(void)ctx;")
    inner.line("const int channels = rows->channels;")
    if any(o.channel for o in operands):
        inner.line("const int channel = rows->channel;")
    own = [o for o in operands if o.pixel]
    for operand in operands:
        if not operand.pixel:
            inner.line(operand.declaration())
    with inner.block("for (int p = 0; p < rows->pixels; ++p)"):
        inner.line("const int32_t *acc = rows->acc + p * rows->acc_stride;")
        inner.line(f"{result.dtype.c} *row = ({result.dtype.c} *)rows->y + p * rows->y_stride;")
        if own:
            inner.line("const int64_t pixel = rows->pixel + p * rows->pixel_step;")
        for operand in own:
            inner.line(operand.declaration())
        inner.line("#pragma GCC ivdep")
        with inner.block("for (int c = 0; c < channels; ++c)"):
            known[product.output] = _rescale(inner, product)
            for operand in operands:
                if operand.value is not None:
                    variable = inner.fresh("b")
                    inner.line(f"const {operand.ctype} {variable} = {operand.element()};")
                    known[operand.value] = variable
            print_chain(inner, after, known)
            inner.line(f"row[c] = {known[result]};")
    f.include(*inner.includes)
    return "\n".join([*_head(name, operands), *inner.lines, "}", ""])


def _head(name: str, operands: Sequence[Operand]) -> list[str]:
    lines = []
    if operands:
        lines += [
            "typedef struct {",
            *(f"  const {o.ctype} *{o.member};" for o in operands),
            f"}} {name}_operands;",
            "",
        ]
    return [*lines, f"static void {name}(const tvmrt_i8_rows *rows, const void *ctx) {{"]


def _rescale(inner: FunctionWriter, product: Node) -> str:
    """Print the product's own result for one sum; the name that holds it."""
    to, scale = product.attrs["to"], product.inputs[2]
    if to == "int32":
        inner.line("const int32_t sum = acc[c];")
        return "sum"
    factor = scalar_literal(scale) or "scale[c]"
    inner.line(f"const float sum = (float)acc[c] * {factor};")
    if to == "float32":
        return "sum"
    zero, low, high = (product.attrs[k] for k in ("y_zero", "low", "high"))
    bounds = ", ".join(_float(v - zero) for v in (low, high))
    ctype = product.output.dtype.c
    inner.line(f"const {ctype} q = ({ctype})(tvmrt_round_between(sum, {bounds}) + {zero});")
    return "q"


def _float(number: int) -> str:
    from tvmrt.ir import DTYPES

    return literal(np.float32(number), DTYPES["float32"])

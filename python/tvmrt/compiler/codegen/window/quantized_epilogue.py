"""Epilogues of integer matmul-like operators as separate functions, row by row.

The kernels hand over finished accumulators of adjacent pixels (``tvmrt_i8_rows``). One printed
function requantises an accumulator and applies the group's pointwise nodes. The other calls it for
rows, one vector of channels at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvmrt.compiler.ir import DTYPES, DType, Node, Value
from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.quantized import storage_range
from tvmrt.compiler.ir.requantization import rounding_of, split_scale

from ..c.formatting import GAP, call, wrap
from ..c.writer import FunctionWriter
from ..loops.pointwise import expression, scalar_literal
from .epilogue_operands import Operand, RowFunction, read_operands, row_writer

SOFT_FLOAT = "scalar/soft_float.h"
# C functions of an accumulator, its multiplier, zero point and bounds, by the product's rounding.
FIXED = {"twice": "tvmrt_fixed_requantize", "once": "tvmrt_fixed_requantize_once"}


def register_type(dtype: DType) -> str:
    """Return the C type for computing elements: narrow integers would widen the loop."""
    return "int32_t" if not dtype.is_float and dtype.bits < 32 else dtype.c


def emit_rows(
    f: FunctionWriter,
    step: Step,
    product: Node,
    after: Sequence[Node],
    order: Sequence[int],
    lanes: int,
) -> tuple[str, str]:
    """Print the functions at file scope. Return C expressions for the row function and its context.

    ``order``: the result's axes with the channels last. ``lanes``: float lanes of the target.
    """
    expressions: dict[Value, str] = {}
    computed = {product.output, *(n.output for n in after)}
    scale = _scale(f, product)
    operands = read_operands(
        f, step, after, computed, product.output.shape, order, expressions, scale
    )
    f.include("scalar/quant.h")
    one, rows = f.static_symbol("_element"), RowFunction(f, "_rows", operands)
    f.define(_element_function(f, one, product, after, operands, expressions))
    f.define(_row_function(f, rows, one, _result(product, after), lanes, bool(step.in_place)))
    return rows.print_context(f)


def _scale(f: FunctionWriter, product: Node) -> list[Operand]:
    """Return the scales of the channels if they differ, or their multipliers and exponents."""
    scale = product.inputs[2]
    if product.attrs["to"] == "int32" or scalar_literal(scale) is not None:
        return []
    if rounding_of(product) in FIXED:
        m, n = split_scale(scale.data.reshape(-1))
        return [
            Operand(DTYPES["int32"], name, name, f.constant(name, row.astype(np.int32)), 0, 1)
            for name, row in (("m", m), ("e", -n))
        ]
    pointer = f.constant("scale", scale.data.reshape(-1))
    return [Operand(DTYPES["float32"], "scale", "scale", pointer, 0, 1)]


def _result(product: Node, after: Sequence[Node]) -> Value:
    return after[-1].output if after else product.output


# The function of one accumulator.


def _element_function(f, name, product, after, operands, expressions) -> str:
    inner = row_writer(f, name, ["acc", "sum", "q", *(o.name for o in operands)])
    expressions[product.output] = _rescale(inner, product)
    for node in after:
        _print_node(inner, node, expressions)
    result = _result(product, after)
    inner.line(f"return {expressions[result]};")
    f.include(*inner.includes)
    parameters = ["int32_t acc", *(f"{register_type(o.dtype)} {o.name}" for o in operands)]
    kind = f"static inline {register_type(result.dtype)}"
    head = wrap(f"{kind} {name}", parameters, " {")
    note = "/* Element of the result from its accumulator. */"
    return "\n".join([note, *head, *inner.lines, "}"])


def _rescale(inner: FunctionWriter, product: Node) -> str:
    """Print the requantisation of one accumulator; return the name of the result."""
    to = product.attrs["to"]
    if to == "int32":
        return "acc"
    if rounding_of(product) in FIXED:
        return _rescale_fixed(inner, product)
    scale = scalar_literal(product.inputs[2]) or "scale"
    inner.include(SOFT_FLOAT)
    inner.line(f"const float sum = tvmrt_mul_f32(tvmrt_int32_to_f32(acc), {scale});")
    if to == "float32":
        return "sum"
    bounds = ", ".join(str(product.attrs[k]) for k in ("y_zero", "low", "high"))
    inner.line(f"const int32_t q = tvmrt_round_and_add_zero_point(sum, {bounds});")
    return "q"


def _rescale_fixed(inner: FunctionWriter, product: Node) -> str:
    """Print the requantisation of one accumulator by a multiplier and exponent."""
    scale, attrs, pair = product.inputs[2], product.attrs, ("m", "e")
    if scalar_literal(scale) is not None:
        m, n = (int(part) for part in split_scale(scale.data.reshape(-1)[0]))
        pair = (str(m), str(-n))
    inner.include("scalar/fixed_point.h")
    arguments = ["acc", *pair, *(str(attrs[k]) for k in ("y_zero", "low", "high"))]
    inner.line(f"const int32_t q ={GAP}{call(FIXED[attrs['rounding']], *arguments)};")
    return "q"


def _print_node(inner: FunctionWriter, node: Node, expressions: dict[Value, str]) -> None:
    for value in node.inputs:
        if value not in expressions:
            expressions[value] = scalar_literal(value)
    if node.op == "quantize":
        x, scale, zero = (expressions[v] for v in node.inputs)
        low, high = storage_range(node.output.dtype)
        text = f"tvmrt_quantize_and_clamp({x}, {scale}, {zero}, {low}, {high})"
    else:
        text, header = expression(node, expressions, inner.common.board)
        inner.include(header)
    variable = inner.fresh(f"{node.op}_1")
    inner.line(f"const {register_type(node.output.dtype)} {variable} ={GAP}{text};")
    expressions[node.output] = variable


# The function of rows.


def _row_function(
    f, function: RowFunction, one: str, result: Value, lanes: int, in_place: bool
) -> str:
    operands = function.operands
    used_names = ["rows", "ctx", "operands", "acc", "row", "pixel", "p", "c", "i", "v"]
    inner = row_writer(f, function.symbol, [*used_names, *(o.member for o in operands)])
    function.open_context(inner)
    inner.line("const int channels = rows->channels;")
    if any(o.channel for o in operands):
        inner.line("const int channel = rows->channel;")
    for operand in operands:
        if not operand.pixel:
            inner.line(operand.declaration())
    with inner.loop("p", "rows->pixels"):
        inner.line("const int32_t *acc = rows->acc + p * rows->acc_stride;")
        # a residual at the address of the result is read before the element is written
        row = "*row" if in_place else "*restrict row"
        address = f"({result.dtype.c} *)rows->y + p * rows->y_stride"
        inner.line(f"{result.dtype.c} {row} = {address};")
        if any(o.pixel for o in operands):
            inner.line("const int64_t pixel = rows->pixel + p;")
        for operand in operands:
            if operand.pixel:
                inner.line(operand.declaration())
        _print_channels(inner, one, operands, result, lanes)
    f.include(*inner.includes)
    return "\n".join(function.definition(["const tvmrt_i8_rows *rows"], inner))


def _print_channels(inner: FunctionWriter, one: str, operands, result: Value, lanes: int) -> None:
    """Print the loops over channels: whole vectors, then the tail."""
    cast = "" if register_type(result.dtype) == result.dtype.c else f"({result.dtype.c})"
    vectors = lanes >= 4 and result.dtype.bits != 64
    if vectors:
        inner.line("int c = 0;")
        _print_vectors(inner, one, operands, result, lanes)
    start = "" if vectors else "int c = 0"
    with inner.block(f"for ({start}; c < channels; ++c)"):
        arguments = ["acc[c]", *(o.element("c") for o in operands)]
        inner.line(f"row[c] ={GAP}{cast}{call(one, *arguments)};")


def _print_vectors(inner: FunctionWriter, one: str, operands, result: Value, lanes: int) -> None:
    """Print the vector loop; bytes are widened before and narrowed after the inner loop."""
    narrow = result.dtype.bits == 8
    cast = "" if narrow or result.dtype.bits >= 32 else f"({result.dtype.c})"
    widened = [o for o in operands if o.widened]
    if narrow or widened:
        inner.include("tile/widen_narrow_i8.h")
    with inner.block(f"for (; c + {lanes} <= channels; c += {lanes})"):
        for operand in widened:
            inner.line(f"int32_t {operand.name}[{lanes}];")
            widen = f"tvmrt_widen_{operand.dtype.name}_{lanes}"
            inner.line(f"{widen}({operand.name}, {operand.member} + c);")
        if narrow:
            inner.line(f"int32_t v[{lanes}];")
        elements = [f"{o.name}[i]" if o.widened else o.element("c + i") for o in operands]
        inner.line("TVMRT_SIMD")  # else gcc unrolls eight iterations first and shuffles the tail
        with inner.loop("i", lanes):
            target = "v[i]" if narrow else "row[c + i]"
            inner.line(f"{target} ={GAP}{cast}{call(one, 'acc[c + i]', *elements)};")
        if narrow:
            inner.line(f"tvmrt_narrow_{lanes}(row + c, v);")

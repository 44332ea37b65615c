"""A pointwise step as a C function of rows in memory, which it changes in place.

It has the parameters of an epilogue. Other operands may have any strides from row to row. These
strides and the sizes are members of a struct, so they may be open.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.program import Access, Group, Step

from ..c.formatting import GAP, braces, wrap
from ..c.initializers import print_struct
from ..c.writer import FunctionWriter
from ..loops.loop_nest import Loop, Operands, PointwiseLowering, merge_loops
from ..loops.pointwise import print_pointwise_chain
from .epilogue_operands import row_writer

PARAMETERS = (
    "float *out", "int64_t pixel", "int pixels", "int channel", "int channels", "const void *ctx",
)  # fmt: skip


def has_row_function(step: Step, x: Access) -> bool:
    """Return whether a step can change its operand ``x``, float32 rows without gaps: in each other
    operand, the elements of a row are adjacent, or one element is for all of them."""
    if not isinstance(step.lowering, PointwiseLowering) or len(step.writes) != 1:
        return False
    y, others = step.writes[0], [each for each in step.reads if each is not x]
    if x.dtype.name != "float32" or y.dtype.name != "float32" or x.shape != y.shape:
        return False
    if not y.shape or y.shape[-1] == 1 or any(each.buffer is x.buffer for each in others):
        return False
    values = [*step.lowering.group.inputs(), *(n.output for n in step.lowering.group.nodes)]
    strides = [each.at.expand(y.shape).strides[-1] for each in others]
    plain = all(isinstance(stride, int) and stride in (0, 1) for stride in strides)
    return plain and not any(value.dtype.is_packed for value in values)


def print_row_function(f: FunctionWriter, outer: Step, step: Step, x: Access, ending: str) -> str:
    """Print the function before ``f``'s, which is that of step ``outer``, and the struct of its
    operands there. Return the C expressions of both in braces. ``ending``: of its symbol."""
    group, shape = step.lowering.group, step.writes[0].shape
    changed = step.read_values[step.reads.index(x)]
    operands = Operands(f, outer, shape, range(len(shape)))
    for value in group.inputs():
        if value is not changed:
            operands.add(value)
    rows = merge_loops(shape[:-1], range(len(shape) - 1), operands.strides)
    symbol = f.static_symbol(ending)
    struct = f.static_symbol(f"{ending}_operands") if operands.values else ""
    f.helper(_function(f, symbol, struct, operands, rows, group, changed))
    if not struct:
        return braces([symbol, "NULL"])
    fields: dict[str, object] = {"extent": tuple(loop.extent for loop in rows) or (1,)}
    for i, name in enumerate(operands.names):
        fields[f"operand{i}"] = name
        fields[f"stride{i}"] = tuple(loop.strides[i] for loop in rows) or (0,)
    variable = f.fresh(f"{ending[1:]}_operands")
    print_struct(f, f"const {struct} {variable}", fields)
    return braces([symbol, f"&{variable}"])


def _function(
    f: FunctionWriter,
    symbol: str,
    struct: str,
    operands: Operands,
    rows: Sequence[Loop],
    group: Group,
    changed: Value,
) -> str:
    """Return the text of the function, and of the struct of its operands, if it has any."""
    at = [f"i{k}" for k in range(len(rows))]
    count, columns = len(operands.values), [s[-1] for s in operands.strides]
    taken = [*"out pixel pixels channel channels ctx operands t c at row sum".split(), *at]
    inner = row_writer(f, symbol, [*taken, *(f"row{i}" for i in range(count))])
    inner.line("(void)channel;")
    context = f"const {struct} *operands ={GAP}(const {struct} *)ctx;"
    inner.line(context if struct else "(void)ctx;\n(void)pixel;")
    with inner.loop("t", "pixels"):
        if struct:
            inner.line("int64_t at = pixel + t;")
        for k, name in reversed([*enumerate(at if struct else [])]):
            inner.line(f"const int64_t {name} = at{f' % operands->extent[{k}]' if k else ''};")
            if k:
                inner.line(f"at /= operands->extent[{k}];")
        for i, value in enumerate(operands.values):
            terms = [f"operands->operand{i}"]
            terms += [f"{name} * operands->stride{i}[{k}]" for k, name in enumerate(at)]
            inner.line(f"const {value.dtype.c} *row{i} ={GAP}{f'{GAP}+ '.join(terms)};")
        inner.line("float *row = out + (int64_t)t * channels;")
        inner.include("scalar/compiler.h")
        inner.line("TVMRT_INDEPENDENT")
        with inner.loop("c", "channels"):
            names = {**operands.literals, changed: "sum"}
            inner.line("const float sum = row[c];")
            for i, value in enumerate(operands.values):
                names[value] = inner.fresh(f"b{i}")
                element = f"row{i}[{'c' if columns[i] else '0'}]"
                inner.line(f"const {value.dtype.c} {names[value]} = {element};")
            print_pointwise_chain(inner, group.nodes, names)
            inner.line(f"row[c] = {names[group.outputs[0]]};")
    f.include(*inner.includes)
    members = [
        f"  const {value.dtype.c} *operand{i};\n  int64_t stride{i}[{max(len(rows), 1)}];"
        for i, value in enumerate(operands.values)
    ]
    size = f"  int64_t extent[{max(len(rows), 1)}];"
    head = ["typedef struct {", *members, size, f"}} {struct};", ""] if struct else []
    body = [*wrap(f"static void {symbol}", PARAMETERS, " {"), *inner.lines, "}", ""]
    return "\n".join([*head, "/* Elements of finished rows of scores, in place. */", *body])

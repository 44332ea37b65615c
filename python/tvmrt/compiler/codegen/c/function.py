"""Print one step as a C function."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.custom import shown_op
from tvmrt.compiler.ir.op import OPS
from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.sizes import collect_printed_symbols, error_context, extent_text

from .formatting import GAP, call, comment_lines, plus, print_fields, wrap
from .writer import Function, FunctionWriter, NetworkContext, Parameter, access_note, comment_text


def signature(
    symbol: str, parameters: Sequence[Parameter], end: str, result: str = "int32_t", depth: int = 0
) -> list[str]:
    """Return the lines of a function's head."""
    declared = [p.declare() for p in parameters] or ["void"]
    return wrap(f"{result} {symbol}", declared, end, depth)


def print_function(
    symbol: str, step: Step, common: NetworkContext, result: str = "int32_t"
) -> Function:
    """Print one operator function."""
    return finish_function(write_function(symbol, step, common), result)


def write_function(symbol: str, step: Step, common: NetworkContext) -> FunctionWriter:
    """Write the body of one operator function; its head is not printed yet."""
    f = FunctionWriter(symbol, step, common)
    with error_context(step.sources), collect_printed_symbols() as f.printed:
        step.lowering.emit(step, f)
    return f


def finish_function(f: FunctionWriter, result: str = "int32_t") -> Function:
    """Return the complete text of a written function."""
    f.close()
    symbol, step, parameters = f.symbol, f.step, f.parameters()
    if step.kernel_bytes:
        begin = step.scratch_bytes - step.kernel_bytes
        block = plus(f.scratch(), str(begin))
        f.lines.insert(0, f"  tvmrt_scratch_provide({block}, {step.kernel_bytes});")
    f.lines[:0] = f.bound_lines()
    lines = [*f.helpers, *_comment(step, f)]
    if f.parallel_extent is None:
        head = signature(symbol, parameters, " {", result)
        lines += [*head, *f.dim_lines(), *f.lines, "}"]
    else:
        lines += _parallel_function(symbol, parameters, f, result)
    remaining_fields = f.definitions, f.includes, f.macros, f.target_fields, f.statics
    return Function(symbol, step, parameters, "\n".join(lines), *remaining_fields)


def _comment(step: Step, f: FunctionWriter) -> list[str]:
    """Return a comment: a line per operator with its layers' first names, the kernels' headers,
    then the tensors."""
    lines = ["/*"]
    for node in step.group.nodes:
        layers = dict.fromkeys(s.split(";", maxsplit=1)[0] for s in node.sources)
        head = f"{'then ' if node in step.group.after else ''}{_describe(node)}"
        lines += comment_lines(comment_text(f"{head}: {', '.join(layers)}"))
    kernels = sorted(h for h in f.includes if not h.startswith(_HELPER_HEADERS))
    if kernels:
        lines += comment_lines(f"kernel: {', '.join(kernels)}")
    lines.append(" *")
    for parameter, access in zip(f.reads, step.reads):
        lines += comment_lines(f"{parameter.name}: {access_note(access)}")
    for parameter, access in zip(f.writes, step.writes):
        lines += comment_lines(f"{parameter.name}: {access_note(access)}, the result")
    return [*lines, " */"]


_HELPER_HEADERS = ("scalar/", "parallel.h")


def _describe(node: Node) -> str:
    """Return an operator in words, with its window: ``int8 conv 3x3, stride 2``."""
    op = shown_op(node)
    if op[:1] == "q" and op[1:] in OPS:
        op = f"{node.inputs[0].dtype} {op[1:]}"
    strides = node.attrs.get("strides", ())
    weights = node.inputs[1].shape if len(node.inputs) > 1 and node.inputs[1] is not None else ()
    window = node.attrs.get("kernel") or weights[2:]
    if not strides or len(window) != len(strides):
        return op
    groups = node.attrs.get("groups", 1)
    parts = [f"{op} {'x'.join(map(extent_text, window))}"]
    for word, values in (("stride", strides), ("dilation", node.attrs.get("dilations", ()))):
        if any(value != 1 for value in values):
            different = values if len(set(values)) > 1 else values[:1]
            parts.append(f"{word} {'x'.join(map(str, different))}")
    return ", ".join([*parts, *([f"{groups} groups"] if groups != 1 else [])])


_TASK_PARAMETERS = ("int task_id", "TVMParallelGroupEnv *env", "void *cdata")


def _parallel_function(
    symbol: str, parameters: Sequence[Parameter], f: FunctionWriter, result: str
) -> list[str]:
    """Return a task over part of the outermost loop, its arguments and the launch."""
    extent, task, kind = f.parallel_extent, f.static_symbol("_task"), f.static_symbol("_args")
    plain = [p.declare().aliased() for p in parameters]
    launch = call("TVMBackendParallelLaunch", task, "&args", f.max_threads)
    after_launch = [f"  if ({launch} != 0) return -1;", *f.lines_after_tasks]
    return [
        "typedef struct {",
        *(f"  {text};" for text in plain),
        f"}} {kind};",
        "",
        *wrap(f"static int {task}", _TASK_PARAMETERS, " {"),
        f"  const {kind} *args ={GAP}(const {kind} *)cdata;",
        *(f"  {p.declare()} = args->{p.name};" for p in parameters),
        *(f"  (void){name};" for name in f.names_after_tasks),
        *f.dim_lines(),
        f"  const int begin = (int)((int64_t){extent} * task_id / env->num_task);",
        f"  const int end = (int)((int64_t){extent} * (task_id + 1) / env->num_task);",
        *f.lines,
        "}",
        "",
        *signature(symbol, parameters, " {", result),
        *print_fields(f"  {kind} args", {p.name: p.name for p in parameters}, 1),
        *(after_launch if f.lines_after_tasks else [f"  return {launch};"]),
        "}",
    ]

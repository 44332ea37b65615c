"""Description of a network's memory that each run plans at its own sizes."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir.program import OUTPUT, FoundSize, Program
from tvmrt.compiler.ir.sizes import SymInt, allocation_extent, allocation_shape, symbols_of

from ..c.formatting import print_fields, rows, wrap
from ..c.writer import Parameter
from .arguments import guard_text
from .metadata import print_getter

_NO_SIZES = [
    "/* No input has an open dimension: the run finds all sizes. */",
    "static int32_t read_sizes(const TVMValue *inputs, int32_t *sizes) {",
    "  (void)inputs;",
    "  (void)sizes;",
    "  return 0;",
    "}",
    "",
]
HEADER = "#include <tvm/runtime/run_plan.h>"


def print_run_plan(program: Program, prefix: str, max_bytes: int) -> list[str]:
    """Return C lines with the plan's struct and its getter; empty if memory is planned already.

    ``max_bytes``: limit of a run's tensors.
    """
    plan = program.run_plan
    if plan is None:
        return []
    counts = [*(allocation_extent(b.size) for b, _, _ in plan.buffers), *plan.sizes]
    extents = [n for type in program.output_types for n in allocation_shape(type.shape)]
    buffers = [
        {"bits": buffer.dtype.nbytes(8), "first": first, "last": last}
        for buffer, first, last in plan.buffers
    ]
    fields = {
        "struct_bytes": "sizeof(tvmrt_run_plan)",
        "num_sizes": len(program.dims()),
        "num_buffers": len(plan.buffers),
        "num_tensors": len(counts),
        "num_extents": len(extents),
        "buffers": "plan_buffers" if buffers else "NULL",
        "max_bytes": f"INT64_C({max_bytes})",
        "read_sizes": "read_sizes",
        "estimate": "estimate_counts",
        "count": "count_elements",
        "num_found": len(plan.found),
        "num_phases": len(plan.phase_ends),
        "phase_ends": "phase_ends",
        "output_phases": "output_phases",
    }
    return [
        *(_NO_SIZES if not program.dims() else []),
        *(rows("static const tvmrt_plan_buffer plan_buffers[]", buffers) if buffers else []),
        "/* Elements of tensors, then extents of outputs; as floating-point numbers, which do not",
        " * overflow, and exact. */",
        *_count(program, "estimate_counts", "double", [*counts, *extents]),
        *_count(program, "count_elements", "int64_t", [*counts, *extents]),
        *wrap("static const int32_t phase_ends[] = ", plan.phase_ends, ";", brackets="{}"),
        *wrap("static const int32_t output_phases[] = ", plan.output_phases, ";", brackets="{}"),
        *print_fields("static const tvmrt_run_plan run_plan", fields),
        "",
        *print_getter(prefix, "get_run_plan", "&run_plan"),
    ]


def print_phase(program: Program, step: int, arguments) -> list[str]:
    """Return C lines after the call of a step: if a phase begins, let the executor place the
    buffers of its sizes, and read the addresses of the outputs again."""
    plan = program.run_plan
    phase = next((s.phase for s in plan.found if s.begin == step), None) if plan else None
    if plan is None or phase is None:
        return []
    numbers = [
        _found(size, program, arguments) if size.phase <= phase else "0" for size in plan.found
    ]
    link = "(tvmrt_run_link *)tvmrt_plan_pointer(workspace, " + f"{plan.link_word})"
    lines = [
        "  {",
        *(f"  {line}" for line in wrap("const int32_t found[] = ", numbers, ";", 1, brackets="{}")),
        f"    tvmrt_run_link *link = {link};",
        f"    if (link->place(link, {phase}, found) != 0) return -1;",
    ]
    for number, (buffer, of) in enumerate(zip(program.outputs, plan.output_phases)):
        if of == phase and buffer.kind == OUTPUT:
            value = f"tensor_data(link->outputs[{number}])"
            lines.append(f"    {arguments.names[buffer]} = ({buffer.dtype.c} *){value};")
    return [*lines, "  }"]


def _found(size: FoundSize, program: Program, arguments) -> str:
    access, guard = size.access, program.steps[size.step].guard
    pointer = arguments.expression(Parameter(size.symbol.c, access.buffer, access.at.offset, True))
    return (
        f"*({pointer})" if guard is None else f"({guard_text(guard, arguments)} ? *({pointer}) : 0)"
    )


def _count(program: Program, name: str, ctype: str, counts: Sequence[SymInt]) -> list[str]:
    used = symbols_of(*counts)
    assert program.run_plan is not None
    symbols = [*program.dims(), *(size.symbol for size in program.run_plan.found)]
    return [
        f"static void {name}(const int32_t *sizes, {ctype} *counts) {{",
        *(f"  const {ctype} {s.c} = sizes[{i}];" for i, s in enumerate(symbols) if s in used),
        *([] if used else ["  (void)sizes;"]),
        *([] if counts else ["  (void)counts;"]),
        *(f"  counts[{i}] = {count};" for i, count in enumerate(counts)),
        "}",
        "",
    ]

"""Main function of a network compiled ahead of time, for hosted runtimes.

Its arguments are tensors, as executors with the classic ABI pass them: inputs, outputs, then an
(unused) constant buffer and a workspace if the network has an arena. Workspaces in device memory
follow, one per pool.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir.program import CONSTANT, INPUT, OUTPUT, Program
from tvmrt.compiler.ir.sizes import data_dependent_symbols

from ..c.formatting import print_fields, wrap
from ..c.packed_functions import exported_call_head
from . import async_regions, device_hooks, symbolic_dims
from .arguments import guard_text, weight_inputs
from .run_plan import print_phase


def print_main(program: Program, prefix: str, sources, options, arguments) -> list[str]:
    """Return C lines: the profile slot, the sequence of calls and the packed main function."""
    pointers = [(arguments.names[b], b) for b in [*program.inputs, *program.outputs]]
    pointers += [(arguments.weight(b), b) for b in weight_inputs(sources, options)]
    return [
        *_profile_slot(program, prefix),
        *_sequence(program, prefix, sources, pointers, arguments),
        *_packed_main(program, prefix, pointers, arguments),
    ]


def _profile_slot(program: Program, prefix: str) -> list[str]:
    names = [f'  "{step.name}",' for step in program.steps] or ['  "",']
    return [
        "static const char *const operator_names[] = {",
        *names,
        "};",
        "",
        "/* Set by an executor that profiles; see c_backend_api.h. */",
        f"TVM_DLL extern tvmrt_profile_slot {prefix}_profile_slot;",
        *print_fields(
            f"tvmrt_profile_slot {prefix}_profile_slot",
            {"op_names": "operator_names", "num_ops": len(program.steps)},
        ),
        "",
    ]


def _sequence(program: Program, prefix: str, sources, pointers, arguments) -> list[str]:
    """Return C lines with all steps in order. If regions are started asynchronously, a wrapper
    waits for the unfinished ones."""
    parameters = _parameters(program, pointers, arguments)
    declared = [kind + name for kind, name in parameters]
    name = f"{prefix}_network"
    if not arguments.tickets:
        return _steps(program, prefix, sources, pointers, arguments, name, declared)
    steps = f"{prefix}_steps"
    all_parameters = [*declared, "void **tickets"]
    passed = [name for _, name in parameters]
    return [
        *async_regions.print_wait(arguments.tickets),
        *_steps(program, prefix, sources, pointers, arguments, steps, all_parameters),
        *async_regions.print_network(name, steps, declared, passed, len(arguments.tickets)),
    ]


def _parameters(program: Program, pointers, arguments) -> list[tuple[str, str]]:
    """Return the C types and names of the network function's parameters."""
    parameters = [
        (f"{'const ' if b.kind != OUTPUT else ''}{b.dtype.c} *", name) for name, b in pointers
    ]
    if uses_arena(program):
        parameters.append(("uint8_t *", "workspace"))
    parameters += [("uint8_t *", arguments.pools[i]) for i, _ in program.device_pools()]
    parameters += [("int ", symbol.c) for symbol in program.dims()]
    return [*parameters, *(("DLDevice ", name) for name in arguments.devices.values())]


def _steps(
    program: Program, prefix: str, sources, pointers, arguments, name: str, declared
) -> list[str]:
    slot = f"&{prefix}_profile_slot"
    lines = [
        f"/* The network: {len(program.steps)} operators over {program.arena_bytes} bytes of"
        " workspace. */",
        *wrap(f"static int32_t {name}", declared or ["void"], " {"),
    ]
    used = {p.buffer for fn in sources.functions for p in fn.parameters if p.buffer}
    lines += [f"  (void){name};" for name, b in pointers if b not in used]
    passed = {p.name for fn in sources.functions for p in fn.parameters if p.buffer is None}
    lines += [f"  (void){symbol.c};" for symbol in program.dims() if symbol.c not in passed]
    waits = async_regions.wait_lines(program) if arguments.tickets else {}
    for i, function in enumerate(sources.functions):
        lines += waits.get(i, [])
        around = ([f"TVMRT_PROFILE_BEGIN({slot}, {i});"], [f"TVMRT_PROFILE_END({slot}, {i});"])
        lines += guarded_call(program.steps[i], function, arguments, around)
        lines += print_phase(program, i, arguments)
    return [*lines, "  return 0;", "}", ""]


def guarded_call(
    step, function, arguments, around: tuple[list[str], list[str]] | None = None, depth: int = 1
) -> list[str]:
    """Return C lines of an operator's guarded call, with the ``around`` lines."""
    margin = "  " * depth
    depth += step.guard is not None
    call = checked_call(function.symbol, arguments.of_call(function), depth)
    for first, last in (device_hooks.lines_around(step), around or ([], [])):
        before, after = (["  " * depth + line for line in lines] for lines in (first, last))
        call = [*before, *call, *after]
    if step.guard is None:
        return call
    return [f"{margin}if ({guard_text(step.guard, arguments)}) {{", *call, f"{margin}}}"]


def checked_call(symbol: str, passed: Sequence[object], depth: int) -> list[str]:
    """Return C lines that call a function and return -1 if it fails."""
    one_line = wrap(f"if ({symbol}", passed, " != 0) return -1;", depth)
    if len(one_line) == 1:
        return one_line
    return [
        *wrap(f"if ({symbol}", passed, " != 0) {", depth),
        "  " * (depth + 1) + "return -1;",
        "  " * depth + "}",
    ]


def uses_arena(program: Program) -> bool:
    return program.arena_bytes > 0 or program.run_plan is not None


def num_pools(program: Program) -> int:
    """Return the number of pools that main takes: the workspace, and those on devices."""
    return uses_arena(program) + len(program.device_pools())


def _packed_main(program: Program, prefix: str, pointers, arguments) -> list[str]:
    # inputs, weights passed from outside, outputs, then constants and workspace
    order = [p for kind in (INPUT, CONSTANT, OUTPUT) for p in pointers if p[1].kind == kind]
    index_of = {name: i for i, (name, _) in enumerate(order)}
    pools = num_pools(program)
    count = len(order) + (1 + pools if pools else 0)
    symbol = f"{prefix}___tvm_main__"
    refusal = [
        "    TVMAPISetLastError(",
        f'        "{symbol}: expected {count} arguments; "',
        '        "pass inputs, outputs and workspace as the metadata lists them");',
        "    return -1;",
    ]
    passed = [
        f"({'const ' if b.kind != OUTPUT else ''}{b.dtype.c} *)tensor_data(args[{index_of[name]}])"
        for name, b in pointers
    ]
    passed += [f"(uint8_t *)tensor_data(args[{i}])" for i in range(count - pools, count)]
    passed += [symbol.c for symbol in program.dims()]
    by_name = {arguments.names[b]: name for b, name in arguments.devices.items()}
    passed += [f"tensor_device(args[{index_of[name]}])" for name in by_name]
    types = symbolic_dims.output_types(program)
    results = {index_of[name]: types[b] for name, b in pointers if b.kind == OUTPUT}
    planned = [] if program.run_plan is None else _check_plan(symbol, len(order) + 1)
    return [
        *exported_call_head(symbol, count, refusal),
        *planned,
        *symbolic_dims.print_size_variables(program.dims()),
        *symbolic_dims.print_extents(_known_before(program, results), before_the_run=True),
        *_network_call(program, f"{prefix}_network", passed, results, arguments, count - pools),
        "}",
        "",
    ]


def _known_before(program: Program, results):
    """Return the outputs whose maximum extents are known before a run."""
    if program.run_plan is None:
        return results
    phases = dict(zip(program.outputs, program.run_plan.output_phases))
    names = {name for name, b in zip(program.output_names, program.outputs) if phases[b]}
    return {place: item for place, item in results.items() if item[0] not in names}


def _check_plan(symbol: str, workspace: int) -> list[str]:
    """Return C lines that reject a workspace that the executor has not planned for this network."""
    return [
        f"  if (tensor_data(args[{workspace}]) == NULL ||",
        f"      *(const tvmrt_run_plan **)tensor_data(args[{workspace}]) != &run_plan) {{",
        "    TVMAPISetLastError(",
        f'        "{symbol}: this network has open dimensions, so its memory is planned in each "',
        '        "run; use the executor of tvmrt, or compile the network with bounds of them");',
        "    return -1;",
        "  }",
    ]


def _network_call(
    program: Program, name: str, passed, results, arguments, workspace: int
) -> list[str]:
    """Return C lines that end the main function: the call, then data-dependent output extents.
    ``workspace`` is the index of the workspace argument."""
    steps = {
        place: item for place, item in results.items() if data_dependent_symbols(item[1].shape)
    }
    if not steps:
        return wrap(f"return {name}", passed, ";", 1)
    counts = f"(uint8_t *)tensor_data(args[{workspace}])"
    return [
        *checked_call(name, passed, 1),
        f"  const uint8_t *{arguments.pools[0]} = {counts};",
        *symbolic_dims.print_data_dependent_dims(program.data_dependent_dims, arguments),
        *symbolic_dims.print_extents(steps),
        "  return 0;",
    ]

"""Sliced run of a firmware network: a few operators per call.

It is for programs with a main loop that must not block, or with a watchdog. It lies in its own
file, so that programs which do not call it do not link it; therefore it needs no option.
"""

from __future__ import annotations

from tvmrt.compiler.ir.program import Program

from .. import pools
from ..c.formatting import GAP, reject_if, wrap
from ..entries import device_hooks
from ..entries.aot import guarded_call
from . import dynamic_dims, link_guard, main, pool_functions, state
from .call_lines import CallLines
from .header import prototype
from .tensor_names import own_includes
from .trace import Tracer


def print_step_file(program: Program, prefix: str, sources, options, arguments) -> str:
    """Return the text of the file: begin, operator dispatch and step."""
    tracer = Tracer(program, prefix, sources, options, arguments)
    state_sum = tracer.added.step_sum(_state(prefix))
    lines = [
        *own_includes(prefix, "crt/error_codes"),
        f'#include "{prefix}_ops.h"',
        *pools.includes(program, options),
        *tracer.includes(),
        "",
        *arguments.print_offsets(),
        *pools.declarations(program, prefix, options),
        *pool_functions.loaded_declarations(program, prefix),
        *main.alignment_check_function(program),
        *state.flag_declarations(program, prefix),
        *_begin(program, prefix, options, state_sum),
        *link_guard.guard(prefix, "step_begin"),
        *_run_next_function(program, prefix, sources, options, arguments, tracer),
        *_step(program, prefix, state_sum),
    ]
    return "\n".join(lines)


def declarations(program: Program, prefix: str, added: CallLines) -> list[str]:
    """Return header lines with the state of a sliced run and its two functions."""
    state, upper = _state(prefix), prefix.upper()
    structs = main.run_parameters(program, prefix)
    members = [f"  {p if p.name in _POINTER_MEMBERS else p.pointee()};" for p in structs]
    parameters = _begin_parameters(program, prefix)
    return [
        "/*! \\brief Operators of the network. */",
        f"#define {upper}_OPERATOR_COUNT {len(program.steps)}",
        f"/*! \\brief {prefix}_step() returns this while operators are left. */",
        f"#define {upper}_STEP_MORE 1",
        "",
        f"/*! \\brief Run in slices. {prefix}_step_begin() initializes it; next may be read. */",
        f"{state} {{",
        *members,
        "  int32_t next; /*!< Index of the next operator; -1 if there is none. */",
        *(["  uint32_t sum; /*!< Of the members before it. */"] if added.step_sum(state) else []),
        "};",
        "",
        "/*!",
        " * \\brief Begin a run in slices; no operator runs yet.",
        " *",
        " * The structs are copied; their memory is borrowed until the run ends. No other",
        " * run may use the same workspace in between, neither of this network nor of another that",
        " * shares it.",
        f" * \\return 0, or the error code that {prefix}_run() returns for the same arguments.",
        " */",
        *prototype(prefix, "step_begin", parameters),
        "",
        "/*!",
        " * \\brief Run at most max_ops operators.",
        f" * \\return {upper}_STEP_MORE: call again; 0: done, the outputs are written, and further",
        " * calls do nothing; kTvmErrorFunctionCallInvalidArg if state is NULL, was not",
        " * initialized or has failed, or max_ops is below 1; -1 if an operator fails.",
        " */",
        *wrap(f"int32_t {prefix}_step", _step_parameters(prefix), ";"),
        "",
    ]


_POINTER_MEMBERS = ("counts",)  # pointers to results of a run, stored in the state as pointers


def _state(prefix: str) -> str:
    return f"struct {prefix.lower()}_step_state"


def _begin_parameters(program: Program, prefix: str) -> list[object]:
    return [f"{_state(prefix)} *state", *main.run_parameters(program, prefix)]


def _step_parameters(prefix: str) -> list[str]:
    return [f"{_state(prefix)} *state", "int32_t max_ops"]


def _store(state_sum: str | None) -> list[str]:
    return [f"  state->sum ={GAP}{state_sum};"] if state_sum else []


def _begin(program: Program, prefix: str, options, state_sum: str | None) -> list[str]:
    structs = main.required_structs(program)
    return [
        *wrap(f"int32_t {prefix}_step_begin", _begin_parameters(program, prefix), " {"),
        "  if (state == NULL) return kTvmErrorFunctionCallInvalidArg;",
        "  state->next = -1;",
        *main.run_checks(program, prefix, options),
        *(
            f"  state->{name} = {'' if name in _POINTER_MEMBERS else '*'}{name};"
            for name in structs
        ),
        "  state->next = 0;",
        *_store(state_sum),
        "  return 0;",
        "}",
        "",
    ]


def _run_next_function(
    program: Program, prefix: str, sources, options, arguments, tracer: Tracer
) -> list[str]:
    """Return a function with one case per operator, using the names of main's parameters."""
    if not program.steps:
        return []
    lines = [
        "/* Run the next operator. */",
        f"static int32_t run_next(const {_state(prefix)} *state) {{",
    ]
    passed = main.main_arguments(program, prefix, options, "state->")
    declared = main.main_parameters(program, arguments)
    lines += [f"  {parameter} ={GAP}{text};" for parameter, text in zip(declared, passed)]
    lines += [f"  (void){name};" for name in main.unused_names(program, sources, arguments)]
    lines += tracer.locals()
    if tracer.begin():
        lines += ["  if (state->next == 0) {", *(f"    {s}" for s in tracer.begin()), "  }"]
    lines.append("  switch (state->next) {")
    last = len(sources.functions) - 1
    for i, function in enumerate(sources.functions):
        before = device_hooks.activate(program) if i == 0 else []
        after = []
        if i == last:
            after += device_hooks.deactivate(program)
            after += dynamic_dims.print_count_outputs(program, arguments)
        lines += [f"    case {i}:", *(f"      {line}" for line in before)]
        lines += guarded_call(program.steps[i], function, arguments, tracer.call_wrapper(i), 3)
        lines += [*(f"      {line}" for line in after), "      return 0;"]
    lines += ["    default:", "      return kTvmErrorFunctionCallInvalidArg;", "  }"]
    return [*lines, "}", ""]


def _step(program: Program, prefix: str, state_sum: str | None) -> list[str]:
    differs = f"state->sum !={GAP}{state_sum}"
    count = f"{prefix.upper()}_OPERATOR_COUNT"
    head = wrap(f"int32_t {prefix}_step", _step_parameters(prefix), " {")
    if not program.steps:
        test = "state == NULL || max_ops < 1 || state->next != 0"
        return [*head, *reject_if(test), "  return 0;", "}", ""]
    return [
        *head,
        *reject_if("state == NULL || max_ops < 1"),
        *reject_if(f"state->next < 0 || state->next > {count}"),
        *(reject_if(differs, "NetworkTensorDamaged") if state_sum else []),
        f"  for (; max_ops > 0 && state->next < {count}; --max_ops) {{",
        "    const int32_t code = run_next(state);",
        "    if (code != 0) {",
        "      state->next = -1;",
        "      return code;",
        "    }",
        "    ++state->next;",
        "  }",
        *_store(state_sum),
        f"  if (state->next < {count}) return {prefix.upper()}_STEP_MORE;",
        "  return 0;",
        "}",
        "",
    ]

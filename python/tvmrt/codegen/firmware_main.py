"""The entry file of a firmware network: the workspace, the main function and the run function.

Two choices shape it. The interface: packed functions over DLTensors, or C structs of pointers.
The operator calls: packed ones over tensors, or plain C calls with pointers. Nothing here calls a
library; errors are codes of tvm_crt_error_t.
"""

from __future__ import annotations

from tvmrt.ir.program import OUTPUT, Buffer, Program

from . import graph_entries
from .aot_main import guarded_call, uses_arena
from .firmware_header import header_name, input_tensors, output_tensors
from .firmware_trace import Tracer
from .writer import LINE, TVM_PACKED_PARAMETERS, wrap

# Arguments of a packed main function: the workspace follows the tensors.
POOL_VARIABLE = "global_workspace_0_var"


def print_file(program: Program, prefix: str, sources, options, arguments) -> str:
    """Text of the entry file."""
    packed = options.interface_api == "packed"
    tracer = Tracer(program, prefix, options, arguments)
    includes = ["<tvm/runtime/crt/error_codes.h>"]
    if packed:
        includes = ["<tvm/runtime/c_backend_api.h>", *includes]
    lines = [
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        *(f"#include {name}" for name in includes),
        "",
        f'#include "{header_name(prefix)}"',
        f'#include "{prefix}_ops.h"',
        *tracer.includes(),
        "",
        *arguments.places(),
        *workspace_declaration(program, prefix, options),
        *_workspace(program, prefix, options),
        *misplaced_function(program),
    ]
    if packed:
        lines += _TENSOR_DATA
    if options.unpacked_api:
        lines += _plain_main(program, prefix, sources, arguments, tracer)
    else:
        lines += graph_entries.print_entries(program, prefix, sources, options, arguments)
        lines += _packed_main(program, prefix, sources, options)
    lines += (_packed_run if packed else _plain_run)(program, prefix, options)
    return "\n".join(lines)


_TENSOR_DATA = [
    "/* Where a tensor argument's elements begin; callers need set nothing but data. */",
    "static void *tensor_data(TVMValue value) {",
    "  const DLTensor *tensor = (const DLTensor *)value.v_handle;",
    "  return tensor == NULL ? NULL : tensor->data;",
    "}",
    "",
]


def workspace_declaration(program: Program, prefix: str, options) -> list[str]:
    """Lines of C for every file that passes the workspace on; none where the caller lends it."""
    if not uses_arena(program) or options.pool:
        return []
    return [
        "/* Intermediate values; nothing in it outlives a run. */",
        f"extern uint8_t TVMGEN_LOCAL {_workspace_name(prefix)}[{program.arena_bytes}];",
        "",
    ]


def _workspace(program: Program, prefix: str, options) -> list[str]:
    if not uses_arena(program) or options.pool:
        return []
    return [f"uint8_t {_workspace_name(prefix)}[{program.arena_bytes}] TVMGEN_NOINIT;", ""]


def _workspace_name(prefix: str) -> str:
    return f"{prefix}_workspace"


def misplaced_function(program: Program) -> list[str]:
    """Lines of C: the function by which tensors are checked."""
    if not program.inputs and not program.outputs:
        return []
    return [
        "/* Whether no element of `size` bytes can be at p. */",
        "static int misplaced(const void *p, uintptr_t size) {",
        "  return p == NULL || ((uintptr_t)p & (size - 1)) != 0;",
        "}",
        "",
    ]


def _tensors(program: Program) -> list[Buffer]:
    return [*program.inputs, *program.outputs]


def _cast(buffer: Buffer, expression: str) -> str:
    const = "" if buffer.kind == OUTPUT else "const "
    return f"({const}{buffer.dtype.c} *){expression}"


def _plain_main(program: Program, prefix: str, sources, arguments, tracer: Tracer) -> list[str]:
    """Main over pointers."""
    declared = main_parameters(program, arguments)
    head = f"int32_t {prefix}___tvm_main__"
    lines = [
        *wrap(head, declared or ["void"], ";"),
        *wrap(head, declared or ["void"], " {"),
    ]
    lines += [f"  (void){arguments.names[b]};" for b in unused_tensors(program, sources)]
    lines += tracer.locals() if program.steps else []
    lines += tracer.begin([arguments.names[b] for b in program.inputs])
    for i, function in enumerate(sources.functions):
        lines += guarded_call(program.steps[i], function, arguments, tracer.around(i))
    return [*lines, "  return 0;", "}", ""]


def main_parameters(program: Program, arguments) -> list[str]:
    """Declarations of main's parameters over pointers: inputs, outputs, workspace."""
    declared = [
        f"{'' if b.kind == OUTPUT else 'const '}{b.dtype.c} *{arguments.names[b]}"
        for b in _tensors(program)
    ]
    return [*declared, "uint8_t *workspace"] if uses_arena(program) else declared


def unused_tensors(program: Program, sources) -> list[Buffer]:
    """Inputs and outputs that no operator touches."""
    used = {p.buffer for fn in sources.functions for p in fn.parameters}
    used |= {s.guard[0].buffer for s in program.steps if s.guard is not None}
    return [b for b in _tensors(program) if b not in used]


def _packed_main(program: Program, prefix: str, sources, options) -> list[str]:
    """Main over tensors: it hands each operator its share of main's own arguments."""
    place: dict = {buffer: i for i, buffer in enumerate(_tensors(program))}
    place["arena"] = len(place)
    operands = [
        [place[item] for part in graph_entries.node_buffers(program, fn, options) for item in part]
        for fn in sources.functions
    ]
    symbol = f"{prefix}___tvm_main__"
    lines = _call_helper(max(map(len, operands))) if operands else []
    lines += [*_signature(symbol, ";"), *_signature(symbol, " {")]
    lines += [f"  (void){name};" for name in _UNUSED_BY_MAIN]
    if not operands:
        lines.append("  (void)args;")
    for function, which in zip(sources.functions, operands):
        entry = graph_entries.entry_symbol(function)
        lines += [
            "  {",
            f"    static const int16_t operands[] = {{{', '.join(map(str, which))}}};",
            f"    if (call({entry}, args, operands, {len(which)}) != 0) return -1;",
            "  }",
        ]
    return [*lines, "  return 0;", "}", ""]


_UNUSED_BY_MAIN = ("type_codes", "num_args", "out_ret_value", "out_ret_tcode", "resource_handle")


def _call_helper(most: int) -> list[str]:
    return [
        "/* Calls an operator with those of main's arguments that it takes. */",
        "static int call(TVMCPackedFunc operator_function, const TVMValue *args,",
        "                const int16_t *operands, int count) {",
        f"  TVMValue values[{most}], result;",
        f"  int type_codes[{most}], result_code = kTVMNullptr;",
        "  for (int i = 0; i < count; ++i) {",
        "    values[i] = args[operands[i]];",
        "    type_codes[i] = kTVMDLTensorHandle;",
        "  }",
        "  result.v_handle = NULL;",
        "  return operator_function(values, type_codes, count, &result, &result_code, NULL);",
        "}",
        "",
    ]


def _signature(symbol: str, end: str) -> list[str]:
    first, second, third = TVM_PACKED_PARAMETERS
    indent = " " * (len(symbol) + 9)
    return [f"int32_t {symbol}({first},", f"{indent}{second},", f"{indent}{third}){end}"]


def _packed_run(program: Program, prefix: str, options) -> list[str]:
    tensors = _tensors(program)
    lines = [
        *_signature(f"{prefix}_run", " {"),
        f"  if (num_args != {len(tensors)}) return kTvmErrorFunctionCallNumArguments;",
    ]
    pointers = [f"tensor_data(args[{i}])" for i in range(len(tensors))]
    lines += _checks(list(zip(tensors, pointers)))
    if not tensors:
        lines.append("  (void)args;")
    if options.unpacked_api:
        lines += [f"  (void){name};" for name in _UNUSED_BY_MAIN if name != "num_args"]
        passed = [_cast(b, p) for b, p in zip(tensors, pointers)]
        if uses_arena(program):
            passed.append(_workspace_name(prefix))
        return [*lines, *wrap(f"return {prefix}___tvm_main__", passed, ";", 1), "}", ""]
    return [*lines, *_append_pool(program, prefix, tensors), *_call_main(prefix), "}", ""]


def _append_pool(program: Program, prefix: str, tensors: list[Buffer]) -> list[str]:
    """The arguments again, and the workspace as one more tensor."""
    count = len(tensors) + (1 if uses_arena(program) else 0)
    lines = [f"  TVMValue values[{max(count, 1)}];"]
    if uses_arena(program):
        lines.append("  DLTensor pool;")
    if tensors:
        lines.append(f"  for (int i = 0; i < {len(tensors)}; ++i) values[i] = args[i];")
    if uses_arena(program):
        lines += [
            f"  pool.data = {_workspace_name(prefix)};",
            f"  values[{len(tensors)}].v_handle = &pool;",
        ]
    return lines


def _call_main(prefix: str) -> list[str]:
    passed = ["values", "type_codes", "num_args", "out_ret_value", "out_ret_tcode"]
    return wrap(f"return {prefix}___tvm_main__", [*passed, "resource_handle"], ";", 1)


def _checks(pairs) -> list[str]:
    tests = [f"misplaced({pointer}, {buffer.dtype.itemsize})" for buffer, pointer in pairs]
    return [line for test in tests for line in refusal(test)]


def run_parameters(prefix: str, options) -> list[str]:
    """Declarations of what run over structs takes."""
    names = ["inputs", "outputs", *(["workspace_pools"] if options.pool else [])]
    return [f"struct {prefix.lower()}_{name} *{name}" for name in names]


def run_checks(program: Program, options) -> list[str]:
    """Lines of C that refuse what run over structs cannot take."""
    given = structs_read(program, options)
    names = [parameter.rpartition("*")[2] for parameter in run_parameters("", options)]
    lines = [f"  (void){name};" for name in names if name not in given]
    if given:
        lines += refusal(" || ".join(f"{name} == NULL" for name in given))
    lines += _checks(list(zip(_tensors(program), _members(program))))
    if "workspace_pools" in given:
        lines += refusal(f"misplaced(workspace_pools->{options.pool}, 16)")
    return lines


def structs_read(program: Program, options) -> list[str]:
    """Those parameters of run over structs that may not be NULL."""
    read = {
        "inputs": bool(program.inputs),
        "outputs": bool(program.outputs),
        "workspace_pools": bool(options.pool) and uses_arena(program),
    }
    return [name for name, needed in read.items() if needed]


def refusal(test: str) -> list[str]:
    """Lines of C that return kTvmErrorFunctionCallInvalidArg where the test holds."""
    code = "return kTvmErrorFunctionCallInvalidArg;"
    line = f"  if ({test}) {code}"
    return [line] if len(line) <= LINE else [f"  if ({test}) {{", f"    {code}", "  }"]


def _members(program: Program, place: str = "{}->") -> list[str]:
    """Expressions for the struct members of inputs and outputs."""
    inputs, outputs = place.format("inputs"), place.format("outputs")
    members = [f"{inputs}{t.member}" for t in input_tensors(program)]
    return members + [f"{outputs}{t.member}" for t in output_tensors(program)]


def main_arguments(program: Program, prefix: str, options, place: str = "{}->") -> list[str]:
    """What run over structs passes to main, in the order of main_parameters().

    ``place`` is the C text of a struct by its name, up to its members.
    """
    passed = [_cast(b, m) for b, m in zip(_tensors(program), _members(program, place))]
    if uses_arena(program):
        lent = f"(uint8_t *){place.format('workspace_pools')}{options.pool}"
        passed.append(lent if options.pool else _workspace_name(prefix))
    return passed


def _plain_run(program: Program, prefix: str, options) -> list[str]:
    return [
        *wrap(f"int32_t {prefix}_run", run_parameters(prefix, options), " {"),
        *run_checks(program, options),
        *wrap(f"return {prefix}___tvm_main__", main_arguments(program, prefix, options), ";", 1),
        "}",
        "",
    ]

"""Entry file of a firmware network: workspace, main function and run function.

Its form depends on two options. The interface: packed functions with DLTensors, or C structs of
pointers. The operator calls: packed with tensors, or plain C with pointers. The code calls no
library; errors are codes of tvm_crt_error_t.
"""

from __future__ import annotations

from tvmrt.compiler.ir import PACKED_NAMES
from tvmrt.compiler.ir.program import ARENA, OUTPUT, Buffer, Program

from .. import pools as pools_file
from ..c.formatting import Declaration, any_null, reject_if, wrap
from ..c.packed_functions import packed_prototype
from ..entries import device_hooks, graph_json
from ..entries.aot import checked_call, guarded_call
from . import (
    dynamic_dims,
    dynamic_tensor_dims,
    link_guard,
    pool_functions,
    size_assertions,
    state,
    weight_file,
)
from .tensor_names import input_tensors, output_tensors, own_includes
from .trace import Tracer


def print_file(program: Program, prefix: str, sources, options, arguments) -> str:
    """Return the text of the entry file."""
    packed = options.interface_api == "packed"
    tracer = Tracer(program, prefix, sources, options, arguments)
    lines = [
        *own_includes(prefix, *(["c_backend_api"] if packed else []), "crt/error_codes"),
        f'#include "{prefix}_ops.h"',
        *pools_file.includes(program, options),
        *tracer.includes(),
        "",
        *arguments.print_offsets(),
        *pools_file.declarations(program, prefix, options),
        *pools_file.definitions(program, prefix, options),
        *pool_functions.loaded_declarations(program, prefix),
        *size_assertions.entry_lines(program, prefix, sources, options, arguments),
        *alignment_check_function(program),
        *state.flag_declarations(program, prefix),
        *state.definitions(program, prefix),
    ]
    if packed:
        lines += [*_TENSOR_DATA, *dynamic_tensor_dims.function(program)]
    if options.packs_operators:
        lines += graph_json.print_entries(program, sources, options, arguments)
        lines += _packed_main(program, prefix, sources, options)
    else:
        lines += _plain_main(program, prefix, sources, options, arguments, tracer)
    lines += (_packed_run if packed else _plain_run)(program, prefix, options)
    lines += link_guard.guard(prefix, "run")
    return "\n".join(lines)


_TENSOR_DATA = [
    "/* Return the address of a tensor argument's first element; only data is read. */",
    "static void *tensor_data(TVMValue value) {",
    "  const DLTensor *tensor = (const DLTensor *)value.v_handle;",
    "  return tensor == NULL ? NULL : tensor->data;",
    "}",
    "",
]


def alignment_check_function(program: Program) -> list[str]:
    """Return the C function that checks pointers to tensors and caller-provided pools."""
    if not _tensors(program) and not any(p.is_external for _, p in pools_file.used_pools(program)):
        return []
    return [
        "/* Whether p is NULL or not aligned for elements of `size` bytes. */",
        "static int misplaced(const void *p, uintptr_t size) {",
        "#if defined(__AVR__) /* no element needs an alignment */",
        "  (void)size;",
        "  return p == NULL;",
        "#else",
        "  return p == NULL || ((uintptr_t)p & (size - 1)) != 0;",
        "#endif",
        "}",
        "",
    ]


def _tensors(program: Program) -> list[Buffer]:
    """Return the inputs and outputs that the caller passes."""
    return [b for b in [*program.inputs, *program.outputs] if b.kind != ARENA]


def _cast(buffer: Buffer, expression: str) -> str:
    const = "" if buffer.kind == OUTPUT else "const "
    return f"({const}{buffer.dtype.c} *){expression}"


def _plain_main(
    program: Program, prefix: str, sources, options, arguments, tracer: Tracer
) -> list[str]:
    """Return the main function with pointer parameters."""
    declared = main_parameters(program, arguments)
    head = f"int32_t {main_symbol(program, prefix)}"
    lines = [*wrap(head, declared or ["void"], ";"), *wrap(head, declared or ["void"], " {")]
    lines += [f"  (void){name};" for name in unused_names(program, sources, arguments)]
    lines += weight_file.checks(prefix, options)
    lines += tracer.locals() if program.steps else []
    lines += [f"  {line}" for line in (*tracer.begin(), *device_hooks.activate(program))]
    for i, function in enumerate(sources.functions):
        lines += guarded_call(program.steps[i], function, arguments, tracer.call_wrapper(i))
    lines += [f"  {line}" for line in device_hooks.deactivate(program)]
    lines += [f"  {line}" for line in dynamic_dims.print_count_outputs(program, arguments)]
    lines += ["  return 0;", "}", ""]
    return lines + _tvm_main_wrapper(program, prefix, options, arguments)


def main_symbol(program: Program, prefix: str) -> str:
    """Return the main function with pointer parameters. TVM's name is used for a function without
    parameters for pools that the image owns, as programs written for TVM call it."""
    return f"{prefix}___main__" if pools_file.own(program) else f"{prefix}___tvm_main__"


def _tvm_main_wrapper(program: Program, prefix: str, options, arguments) -> list[str]:
    """Return a wrapper with TVM's name and parameters if main takes more parameters."""
    own = {
        arguments.pools[i]: pools_file.symbol(pool, prefix, options)
        for i, pool in pools_file.used_pools(program)
        if not pool.is_external
    }
    if not own:
        return []
    parameters = main_parameters(program, arguments)
    declared = [each for each in parameters if each.name not in own] or ["void"]
    head = f"int32_t {prefix}___tvm_main__"
    passed = [own.get(each.name, each.name) for each in parameters]
    return [
        "/* Entry point of programs written for TVM, which pass tensors only. */",
        *wrap(head, declared, ";"),
        *wrap(head, declared, " {"),
        *wrap(f"return {main_symbol(program, prefix)}", passed, ";", 1),
        "}",
        "",
    ]


def main_parameters(program: Program, arguments) -> list[Declaration]:
    """Return main's pointer parameters: inputs, outputs, pools, devices, sizes."""

    def pointer(kind: str, name: str, const: bool = False) -> Declaration:
        return Declaration(kind, name, pointer=True, const=const)

    tensors = [pointer(b.dtype.c, arguments.names[b], b.kind != OUTPUT) for b in _tensors(program)]
    pools = [pointer("uint8_t", arguments.pools[i]) for i, _ in pools_file.used_pools(program)]
    devices = [
        pointer("void", device_hooks.variable(d)) for d in device_hooks.hooked_devices(program)
    ]
    return [*tensors, *pools, *devices, *dynamic_dims.variables(program, arguments.prefix)]


def unused_names(program: Program, sources, arguments) -> list[str]:
    """Return the parameters of main that no operator takes."""
    used = {p.buffer for fn in sources.functions for p in fn.parameters}
    used |= {s.guard[0].buffer for s in program.steps if s.guard is not None}
    tensors = [arguments.names[b] for b in _tensors(program) if b not in used]
    return [*tensors, *dynamic_dims.unused(program, sources)]


def _packed_main(program: Program, prefix: str, sources, options) -> list[str]:
    """Return a main function with tensor parameters that passes each operator its operands."""
    operands_of_main = [*_tensors(program), *(i for i, _ in pools_file.used_pools(program))]
    index_of = {operand: i for i, operand in enumerate(operands_of_main)}
    operands = [
        [index_of[item] for item in graph_json.entry_operands(fn, options)]
        for fn in sources.functions
    ]
    symbol = f"{prefix}___tvm_main__"
    lines = _call_helper(max(map(len, operands))) if operands else []
    lines += [*packed_prototype(symbol), *packed_prototype(symbol, " {")]
    lines += [f"  (void){name};" for name in PACKED_NAMES[1:]]
    if not operands:
        lines.append("  (void)args;")
    for function, which in zip(sources.functions, operands):
        entry = graph_json.entry_symbol(function)
        lines += [
            "  {",
            f"    static const int16_t operands[] = {{{', '.join(map(str, which))}}};",
            *checked_call("call", [entry, "args", "operands", len(which)], 2),
            "  }",
        ]
    return [*lines, "  return 0;", "}", ""]


def _call_helper(max_operands: int) -> list[str]:
    return [
        "/* Call an operator with the arguments of main that it takes. */",
        "static int call(TVMCPackedFunc entry, const TVMValue *args, const int16_t *operands,",
        "                int count) {",
        f"  TVMValue values[{max_operands}], result;",
        f"  int type_codes[{max_operands}], result_code = kTVMNullptr;",
        "  for (int i = 0; i < count; ++i) {",
        "    values[i] = args[operands[i]];",
        "    type_codes[i] = kTVMDLTensorHandle;",
        "  }",
        "  result.v_handle = NULL;",
        "  return entry(values, type_codes, count, &result, &result_code, NULL);",
        "}",
        "",
    ]


def _packed_run(program: Program, prefix: str, options) -> list[str]:
    tensors, caller_pools = _tensors(program), pools_file.caller_provided(program)
    count = len(tensors) + len(caller_pools)
    # more arguments are accepted: the executor of TVM's C runtime passes the pools in the metadata
    # after the tensors
    too_few = f"  if (num_args < {count}) return kTvmErrorFunctionCallNumArguments;"
    lines = packed_prototype(f"{prefix}_run", " {")
    lines.append(too_few if count else "  (void)num_args;")
    pointers = [f"tensor_data(args[{i}])" for i in range(count)]
    lines += _checks(list(zip(tensors, pointers)))
    pool_pointers = dict(zip((pool.name for pool in caller_pools), pointers[len(tensors) :]))
    lines += _pool_checks(program, pool_pointers)
    lines += pool_functions.loaded_checks(program, prefix, options)
    lines += dynamic_tensor_dims.read(program, prefix)
    lines += state.begin(program, prefix, options, pool_pointers)
    if not count:
        lines.append("  (void)args;")
    if options.unpacked_api:
        lines += [f"  (void){name};" for name in PACKED_NAMES[1:] if name != "num_args"]
        passed = [_cast(b, p) for b, p in zip(tensors, pointers)]
        passed += _pool_pointers(program, prefix, options, pool_pointers)
        passed += dynamic_tensor_dims.values(program)
        return [*lines, *wrap(f"return {main_symbol(program, prefix)}", passed, ";", 1), "}", ""]
    at = {pool.name: len(tensors) + i for i, pool in enumerate(caller_pools)}
    call = wrap(f"return {prefix}___tvm_main__", ["values", *PACKED_NAMES[1:]], ";", 1)
    return [*lines, *_append_pools(program, prefix, options, at), *call, "}", ""]


def _append_pools(program: Program, prefix: str, options, at: dict[str, int]) -> list[str]:
    """Return lines that append the pools in main's order to the tensors: caller-provided ones from
    the arguments ``at``, the image's own as tensors with only ``data`` set."""
    tensors, used = _tensors(program), pools_file.used_pools(program)
    own = pools_file.own(program)
    lines = [f"  TVMValue values[{max(len(tensors) + len(used), 1)}];"]
    if own:
        lines.append(f"  DLTensor pools[{len(own)}];")
    if tensors:
        lines.append(f"  for (int i = 0; i < {len(tensors)}; ++i) values[i] = args[i];")
    for i, (_, pool) in enumerate(used, len(tensors)):
        if pool.is_external:
            lines.append(f"  values[{i}] = args[{at[pool.name]}];")
            continue
        tensor = f"pools[{own.index(pool)}]"
        lines += [
            f"  {tensor}.data = {pools_file.symbol(pool, prefix, options)};",
            f"  values[{i}].v_handle = &{tensor};",
        ]
    return lines


def _pool_pointers(program: Program, prefix: str, options, place: dict[str, str]) -> list[str]:
    """Return the arguments for main's pools; ``place`` maps caller-provided ones by name."""
    return [
        f"(uint8_t *){place[pool.name]}"
        if pool.is_external
        else pools_file.symbol(pool, prefix, options)
        for _, pool in pools_file.used_pools(program)
    ]


def _pool_checks(program: Program, place: dict[str, str]) -> list[str]:
    """Return C lines that reject NULL or misaligned caller-provided pools."""
    lines = []
    for _, pool in pools_file.used_pools(program):
        if pool.is_external:
            test = f"misplaced({place[pool.name]}, {pools_file.ALIGN_BYTES})"
            lines += reject_if(test, "NetworkPoolMisplaced")
    return lines


def _checks(pairs) -> list[str]:
    tests = [f"misplaced({pointer}, {buffer.dtype.itemsize})" for buffer, pointer in pairs]
    return [line for test in tests for line in reject_if(test)]


def run_parameters(program: Program, prefix: str) -> list[Declaration]:
    """Return the parameters of run with structs."""
    names = [] if pools_file.io_in_pools(program) else ["inputs", "outputs"]
    if pools_file.caller_provided(program):
        names.append("workspace_pools")
    if device_hooks.hooked_devices(program):
        names.append("devices")
    tag = prefix.lower()
    structs = [Declaration(f"struct {tag}_{name}", name, pointer=True) for name in names]
    return [*structs, *dynamic_dims.parameters(program, prefix)]


def run_checks(program: Program, prefix: str, options) -> list[str]:
    """Return C lines that reject invalid arguments of run with structs."""
    structs = required_structs(program)
    names = [parameter.name for parameter in run_parameters(program, prefix)]
    lines = [f"  (void){name};" for name in names if name not in structs]
    if structs:
        lines += reject_if(any_null(structs))
    lines += _checks(list(zip(_tensors(program), _members(program))))
    lines += _pool_checks(program, _caller_pool_members(program))
    lines += weight_file.checks(prefix, options)
    lines += pool_functions.loaded_checks(program, prefix, options)
    lines += dynamic_dims.checks(program, prefix)
    return lines + state.begin(program, prefix, options)


def _caller_pool_members(program: Program, base: str = "") -> dict[str, str]:
    """Return the struct members of caller-provided pools by name."""
    struct = dynamic_dims.struct("workspace_pools", base)
    return {pool.name: f"{struct}{pool.name}" for pool in pools_file.caller_provided(program)}


def required_structs(program: Program) -> list[str]:
    """Return the parameters of run with structs that must not be NULL."""
    passed = not pools_file.io_in_pools(program)
    read = {
        "inputs": passed and bool(program.inputs),
        "outputs": passed and bool(program.outputs),
        "workspace_pools": any(pool.is_external for _, pool in pools_file.used_pools(program)),
        "devices": bool(device_hooks.hooked_devices(program)),
        "dims": bool(program.dims()),
        "counts": bool(program.data_dependent_dims),
    }
    return [name for name, needed in read.items() if needed]


def _members(program: Program, base: str = "") -> list[str]:
    """Return the struct members of inputs and outputs that the caller passes."""
    if pools_file.io_in_pools(program):
        return []
    inputs, outputs = (dynamic_dims.struct(name, base) for name in ("inputs", "outputs"))
    members = [f"{inputs}{t.member}" for t in input_tensors(program)]
    return members + [f"{outputs}{t.member}" for t in output_tensors(program)]


def main_arguments(program: Program, prefix: str, options, base: str = "") -> list[str]:
    """Return the arguments that run passes to main, in the order of main_parameters()."""
    passed = [_cast(b, m) for b, m in zip(_tensors(program), _members(program, base))]
    passed += _pool_pointers(program, prefix, options, _caller_pool_members(program, base))
    devices = device_hooks.hooked_devices(program)
    passed += [f"{dynamic_dims.struct('devices', base)}{device}" for device in devices]
    return [*passed, *dynamic_dims.values(program, base)]


def _plain_run(program: Program, prefix: str, options) -> list[str]:
    passed = main_arguments(program, prefix, options)
    return [
        *wrap(f"int32_t {prefix}_run", run_parameters(program, prefix) or ["void"], " {"),
        *run_checks(program, prefix, options),
        *wrap(f"return {main_symbol(program, prefix)}", passed, ";", 1),
        "}",
        "",
    ]

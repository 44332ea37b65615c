"""Functions in addition to run for pools with more than intermediate values: they return the
addresses of inputs and outputs, or copy weights into pools."""

from __future__ import annotations

from tvmrt.compiler.ir.program import MemoryPool, Program

from ..c.formatting import reject_if
from ..pools import ALIGN_BYTES, caller_provided, declarations, includes, io_in_pools, symbol
from .tensor_names import input_tensors, output_tensors, own_includes


def map_declarations(program: Program, prefix: str, options) -> list[str]:
    """Return header lines with the functions that return the addresses of inputs and outputs."""
    if not io_in_pools(program):
        return []
    lines = []
    for what, when in (("inputs", "Fill them before every run"), ("outputs", "Read them after it")):
        lines += [
            f"/*! \\brief Return the addresses of the {what} in the pools. {when};"
            " NULL members for NULL. */",
            f"{_map_signature(program, prefix, what, options)};",
            "",
        ]
    return lines


def load_declarations(program: Program, prefix: str, options, sources) -> list[str]:
    """Return header lines with the function that copies weights into pools."""
    if not sources.resident:
        return []
    nbytes = sum(b.nbytes for b in sources.resident)
    return [
        "/*!",
        f" * \\brief Copy {nbytes} bytes of weights from flash to their pools, once before runs.",
        " *",
        " * Nothing else may write there. Call it again if the memory moves.",
        " * \\return 0; kTvmErrorNetworkPoolMisplaced for a NULL or misaligned pool"
        + (";" if options.weights_in_blob else "."),
        *(
            [" * kTvmErrorNetworkWeightsNotLoaded without weights."]
            if options.weights_in_blob
            else []
        ),
        " */",
        f"int32_t {prefix}_load({_pools_parameter(program, prefix, options)});",
        "",
    ]


def _pools_parameter(program: Program, prefix: str, options) -> str:
    if not caller_provided(program) or options.interface_api == "packed":
        return "void"
    return f"struct {prefix.lower()}_workspace_pools *workspace_pools"


def _map_signature(program: Program, prefix: str, what: str, options) -> str:
    parameter = _pools_parameter(program, prefix, options)
    return f"struct {prefix.lower()}_{what} {prefix}_map_{what}({parameter})"


def pool_address(pool: MemoryPool, prefix: str, options) -> str:
    """Return the C expression for a pool's address in functions with structs."""
    if pool.is_external:
        return f"(uint8_t *)workspace_pools->{pool.name}"
    return symbol(pool, prefix, options)


def loaded_symbol(pool: MemoryPool, prefix: str) -> str:
    """Return the variable with the address to which a pool's weights were copied."""
    return f"{prefix}_loaded_{pool.name}"


def loaded_pools(program: Program) -> list[MemoryPool]:
    """Return the pools into which weights are copied."""
    return [pool for pool in program.pools if pool.kept_bytes]


def loaded_declarations(program: Program, prefix: str) -> list[str]:
    """Return C lines of files that check whether weights were copied."""
    lines = [
        f"TVMGEN_LOCAL extern const uint8_t *{loaded_symbol(pool, prefix)};"
        for pool in loaded_pools(program)
    ]
    return ["/* Addresses of the copied weights. */", *lines, ""] if lines else []


def loaded_checks(program: Program, prefix: str, options) -> list[str]:
    """Return C lines that refuse to run before the weights have been copied."""
    lines = []
    for pool in loaded_pools(program):
        test = f"{loaded_symbol(pool, prefix)} != {pool_address(pool, prefix, options)}"
        lines += [f"  if ({test})", "    return kTvmErrorNetworkWeightsNotLoaded;"]
    return lines


def print_files(program: Program, prefix: str, sources, options, arguments) -> dict[str, str]:
    """Return the file with these functions by name; empty if the network has none."""
    if not io_in_pools(program) and not sources.resident:
        return {}
    lines = [
        *own_includes(prefix, "crt/error_codes", more=["string"]),
        f'#include "{prefix}_ops.h"',
        *includes(program, options),
        "",
        *arguments.print_offsets(),
        *declarations(program, prefix, options),
    ]
    if io_in_pools(program):
        lines += _map_functions(program, prefix, options, arguments)
    if sources.resident:
        lines += loaded_declarations(program, prefix)
        lines += _load_function(program, prefix, sources, options, arguments)
    return {f"{prefix}_pools.c": "\n".join(lines)}


def _map_functions(program: Program, prefix: str, options, arguments) -> list[str]:
    lines = []
    for what, tensors, buffers in (
        ("inputs", input_tensors(program), program.inputs),
        ("outputs", output_tensors(program), program.outputs),
    ):
        lines += [
            f"{_map_signature(program, prefix, what, options)} {{",
            f"  struct {prefix.lower()}_{what} {what} = {{NULL}};",
        ]
        margin = "  "
        if caller_provided(program):
            lines.append("  if (workspace_pools != NULL) {")
            margin = "    "
        for tensor, buffer in zip(tensors, buffers):
            pool = program.pools[buffer.pool]
            address = f"{pool_address(pool, prefix, options)} + {arguments.offset_name(buffer)}"
            lines.append(f"{margin}{what}.{tensor.member} = {address};")
        lines += [*(["  }"] if caller_provided(program) else []), f"  return {what};", "}", ""]
    return lines


def _load_function(program: Program, prefix: str, sources, options, arguments) -> list[str]:
    pools = loaded_pools(program)
    refused = "return kTvmErrorNetworkPoolMisplaced;"
    lines = [
        *(f"const uint8_t *{loaded_symbol(pool, prefix)};" for pool in pools),
        "",
        f"int32_t {prefix}_load({_pools_parameter(program, prefix, options)}) {{",
    ]
    if any(pool.is_external for pool in pools):
        lines.append(f"  if (workspace_pools == NULL) {refused}")
    elif _pools_parameter(program, prefix, options) != "void":
        lines.append("  (void)workspace_pools;")
    for pool in pools:
        if pool.is_external:
            member = f"workspace_pools->{pool.name}"
            test = f"{member} == NULL || ((uintptr_t){member} & {ALIGN_BYTES - 1}) != 0"
            lines += [f"  if ({test})", f"    {refused}"]
    if options.weights_in_blob:
        lines += reject_if(f"{prefix}_weights == NULL", "NetworkWeightsNotLoaded")
    for buffer in sources.resident:
        pool = pool_address(program.pools[buffer.pool], prefix, options)
        address = f"{pool} + {arguments.offset_name(buffer)}"
        lines.append(f"  memcpy({address}, {arguments.stored_weight(buffer)}, {buffer.nbytes});")
    for pool in pools:
        lines.append(f"  {loaded_symbol(pool, prefix)} = {pool_address(pool, prefix, options)};")
    return [*lines, "  return 0;", "}", ""]

"""Table of a firmware network's packed functions by name.

For the graph executor these are the operators. Callers pass each tensor with its shape; an operator
returns an error code for a tensor that is too small, as a damaged graph may pass.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvmrt.compiler.ir.program import Program

from ..c.packed_functions import exported_head
from ..entries import graph_json, symbolic_dims
from .tensor_names import own_include

OPEN_GRAPH_KEY = "+dims"  # TVMRT_GRAPH_OPEN of crt/graph_dims.h


def module_symbol(prefix: str) -> str:
    """Return the TVMModule of a network."""
    return f"{prefix}_module"


def print_file(program: Program, prefix: str, sources, options, arguments) -> str:
    """Return the text of the file with the operators' packed entries and their table."""
    entries = graph_json.print_entries(program, sources, options, arguments)
    sized = program.has_dynamic_dims()
    table = {graph_json.entry_symbol(f): graph_json.entry_symbol(f) for f in sources.functions}
    if sized:
        entries = [
            *symbolic_dims.print_dims_struct(program, "NULL"),
            *symbolic_dims.print_reader(program, symbolic_dims.ON_BOARDS),
            *entries,
            *_open_graph(prefix),
        ]
        sizes = [graph_json.sizes_symbol(sources)] if program.dims() else []
        table = {
            OPEN_GRAPH_KEY: f"{prefix}_open_graph",
            **{symbol: symbol for symbol in sizes},
            **table,
        }
    lines = [
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#include <tvm/runtime/c_backend_api.h>",
        "#include <tvm/runtime/crt/error_codes.h>",
        "#include <tvm/runtime/crt/module.h>",
        *(symbolic_dims.ON_BOARDS.headers if sized else []),
        "",
        f'#include "{prefix}_ops.h"',
        "",
        *arguments.print_offsets(),
        *(_tensor_data(program) if any("tensor_data(" in line for line in entries) else []),
        *entries,
        *_table(prefix, table),
    ]
    return "\n".join(lines)


def _tensor_data(program: Program) -> list[str]:
    """Return the function that checks a tensor's size, counted in bits for packed types."""
    packed = any(
        access.buffer.dtype.is_packed
        for step in program.steps
        for access in (*step.reads, *step.writes)
    )
    unit = "bits" if packed else "bytes"
    size = {
        "bytes": "  bytes = ((uint32_t)tensor->dtype.bits * tensor->dtype.lanes + 7) / 8;",
        "bits": "  bits = tensor->dtype.bits == 1 ? 8 : (uint32_t)tensor->dtype.bits;",
    }[unit]
    nbytes = "(bits + 7) / 8" if packed else "bytes"
    return [
        "/* Return the address of a tensor's first element; NULL if it has too few bytes. */",
        "static void *tensor_data(TVMValue value, uint32_t num_bytes) {",
        "  const DLTensor *tensor = (const DLTensor *)value.v_handle;",
        f"  uint32_t {unit};",
        "  if (tensor == NULL || tensor->data == NULL) return NULL;",
        size,
        f"  for (int i = 0; i < tensor->ndim; ++i) {unit} *= (uint32_t)tensor->shape[i];",
        f"  return {nbytes} < num_bytes ? NULL : (char *)tensor->data + tensor->byte_offset;",
        "}",
        "",
    ]


def print_system_library(prefix: str) -> str:
    """Return the text of the file with the function table of a network compiled ahead of time: its
    run function and its metadata. It is linked only if the table is referenced."""
    names = [f"{prefix}_{name}" for name in ("run", "get_c_metadata", "get_model_metadata")]
    table = {name: name for name in names}
    lines = [
        "#include <stddef.h>",
        "",
        "#include <tvm/runtime/crt/module.h>",
        "",
        *own_include(prefix),
        "",
        *_table(prefix, table),
    ]
    return "\n".join(lines)


def _open_graph(prefix: str) -> list[str]:
    """Return C lines of the function that gives executors the dynamic dimensions."""
    symbol = f"{prefix}_open_graph"
    unused = ["type_codes", "out_ret_value", "out_ret_tcode", "resource_handle"]
    return [
        *exported_head(symbol, unused, "int"),
        "  if (num_args != 1) return kTvmErrorFunctionCallNumArguments;",
        f"  return tvmrt_graph_open((TVMGraphExecutor *)args[0].v_handle, &{symbolic_dims.NAME});",
        "}",
        "",
    ]


def _table(prefix: str, functions: Mapping[str, str]) -> list[str]:
    """Return the function table that maps names to symbols."""
    names, symbols = list(functions), list(functions.values())
    count = len(names)
    low, high = (f"\\{byte:03o}" for byte in (count & 255, count >> 8))
    return [
        "/* Number of names, in the processor's byte order, then the names. */",
        "static const char function_names[] =",
        "#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__",
        f'    "{high}{low}"',
        "#else",
        f'    "{low}{high}"',
        "#endif",
        *(f'    "{name}\\000"' for name in names[:-1]),
        f'    "{names[-1] if names else ""}";',
        "",
        f"static const TVMBackendPackedCFunc functions[{max(count, 1)}] = {{",
        *(f"    (TVMBackendPackedCFunc){symbol}," for symbol in symbols or ["NULL"]),
        "};",
        "static const TVMFuncRegistry registry = {.names = function_names, .funcs = functions};",
        f"const TVMModule {module_symbol(prefix)} = {{.registry = &registry}};",
        "",
        "/* System library of an image with one network; with several, each has a module. */",
        "#if defined(__GNUC__)",
        "__attribute__((weak))",
        "#endif",
        "const TVMModule *TVMSystemLibEntryPoint(void) {",
        f"  return &{module_symbol(prefix)};",
        "}",
        "",
    ]

"""The operator table of a firmware network that the graph executor runs.

Operators are packed functions in a table by their names. Who calls them says in each tensor how
large it is; an operator that gets too small a one, as a damaged graph would have it, returns a
code.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.ir.program import Program

from . import graph_entries
from .writer import Function


def module_symbol(prefix: str) -> str:
    """The TVMModule of a network."""
    return f"{prefix}_module"


def print_file(program: Program, prefix: str, sources, options, arguments) -> str:
    """Text of the file with the operators' packed entries and their table."""
    entries = graph_entries.print_entries(program, prefix, sources, options, arguments)
    lines = [
        "#include <stddef.h>",
        "#include <stdint.h>",
        "",
        "#include <tvm/runtime/c_backend_api.h>",
        "#include <tvm/runtime/crt/error_codes.h>",
        "#include <tvm/runtime/crt/module.h>",
        "",
        f'#include "{prefix}_ops.h"',
        "",
        *arguments.places(),
        *(_TENSOR_DATA if any("tensor_data(" in line for line in entries) else []),
        *entries,
        *_table(prefix, sources.functions),
    ]
    return "\n".join(lines)


_TENSOR_DATA = [
    "/* Where a tensor argument's elements begin; NULL if it has fewer bytes than these. */",
    "static void *tensor_data(TVMValue value, uint32_t num_bytes) {",
    "  const DLTensor *tensor = (const DLTensor *)value.v_handle;",
    "  uint32_t bytes;",
    "  if (tensor == NULL || tensor->data == NULL) return NULL;",
    "  bytes = ((uint32_t)tensor->dtype.bits * tensor->dtype.lanes + 7) / 8;",
    "  for (int i = 0; i < tensor->ndim; ++i) bytes *= (uint32_t)tensor->shape[i];",
    "  return bytes < num_bytes ? NULL : (char *)tensor->data + tensor->byte_offset;",
    "}",
    "",
]


def _table(prefix: str, functions: Sequence[Function]) -> list[str]:
    names = [graph_entries.entry_symbol(function) for function in functions]
    count = len(names)
    low, high = (f"\\{byte:03o}" for byte in (count & 255, count >> 8))
    return [
        "/* Number of names in the processor's byte order, then the names. */",
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
        *(f"    {name}," for name in names or ["NULL"]),
        "};",
        "static const TVMFuncRegistry registry = {function_names, functions};",
        f"const TVMModule {module_symbol(prefix)} = {{&registry}};",
        "",
        "/* The system library of an image with one network; with several, each has its module. */",
        "#if defined(__GNUC__)",
        "__attribute__((weak))",
        "#endif",
        "const TVMModule *TVMSystemLibEntryPoint(void) {",
        f"  return &{module_symbol(prefix)};",
        "}",
        "",
    ]

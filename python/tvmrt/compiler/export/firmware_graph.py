"""A firmware network's graph as C: JSON and params as arrays, memory size as a macro.

``tvmgen_<name>_graph_create()`` creates the executor in memory of the stated size; JSON and params
stay in flash. The params array is offset to align most tensors for operators; the others are
copied, and their size is added to the macro.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from tvmrt.compiler.codegen.c.formatting import wrap
from tvmrt.compiler.codegen.c.writer import comment_text
from tvmrt.compiler.codegen.firmware import dynamic_dims, link_guard
from tvmrt.compiler.codegen.firmware.function_table import module_symbol
from tvmrt.compiler.codegen.firmware.tensor_names import (
    header_name,
    input_tensors,
    output_tensors,
    own_includes,
    tensor_macro,
)
from tvmrt.compiler.codegen.options import Sources
from tvmrt.compiler.ir import dtype_of_text
from tvmrt.compiler.ir.program import Program
from tvmrt.compiler.ir.rounding import round_up

from . import blob

ALIGN_BYTES = 16  # TVMRT_GRAPH_ALIGN_BYTES
MIN_PARAM_ALIGN_BYTES = 4


@dataclass(frozen=True)
class Params:
    """Params blob, the number of bytes to place before it, and the bytes that must be copied."""

    data: bytes
    pad: int
    copied_bytes: int


def print_files(
    program: Program, sources: Sources, graph_json: str, arrays: Mapping[str, np.ndarray]
) -> dict[str, str]:
    """Return the header and the source file of the graph, by name; ``arrays`` are the params.

    Raises ValueError if two names become one in C.
    """
    prefix = sources.prefix
    params = place_params(arrays) if arrays else None
    texts = [text for _, text in sorted(sources.files.items())]
    sources.network_id = link_guard.identity(sources.weights, graph_json, *texts)
    return {
        header_name(prefix): _header(program, sources, json.loads(graph_json), params),
        f"{prefix}_graph.c": _source(sources, graph_json, params),
    }


def place_params(arrays: Mapping[str, np.ndarray]) -> Params:
    """Return the params blob with the offset that leaves the fewest bytes to copy."""
    data = blob.params(arrays)
    tensors = [blob.ndarray(array) for array in arrays.values()]
    offset, rows = len(data) - sum(map(len, tensors)), []
    for array, tensor in zip(arrays.values(), tensors):
        offset += len(tensor)
        align = max(array.dtype.itemsize, MIN_PARAM_ALIGN_BYTES)
        rows.append((offset - array.nbytes, align, array.nbytes))
    costs = [
        sum(round_up(n, ALIGN_BYTES) for at, align, n in rows if (at + pad) % align)
        for pad in range(16)
    ]
    pad = int(np.argmin(costs))
    return Params(data, pad, costs[pad])


def storage_bytes(graph: dict) -> dict[int, int]:
    """Return the bytes of every storage of a graph, by its number."""
    sizes: dict[int, int] = {}
    columns = (graph["attrs"][name][1] for name in ("storage_id", "dltype", "shape"))
    for sid, dtype, shape in zip(*columns):
        sizes[sid] = max(sizes.get(sid, 0), dtype_of_text(dtype).nbytes(prod(shape)))
    return sizes


def _arena_arguments(graph: dict, copied_bytes: int) -> list[int]:
    """Return the arguments of TVMRT_GRAPH_ARENA_BYTES for a graph."""
    rows = graph["node_row_ptr"]
    inputs = set(graph["arg_nodes"])
    shapes, sids = (graph["attrs"][k][1] for k in ("shape", "storage_id"))
    external = {sids[rows[i]] for i in inputs}
    sizes = [n for sid, n in storage_bytes(graph).items() if sid not in external]
    operators = [i for i in range(len(graph["nodes"])) if i not in inputs]
    edges = [len(graph["nodes"][i]["inputs"]) for i in operators]
    arguments = [n + rows[i + 1] - rows[i] for i, n in zip(operators, edges)]
    return [
        len(graph["nodes"]), len(inputs), len(graph["heads"]), rows[-1],
        sum(max(len(shape), 1) for shape in shapes), sum(edges), max(arguments, default=0),
        sum(round_up(n, ALIGN_BYTES) for n in sizes) + copied_bytes,
    ]  # fmt: skip


def arena_bytes(graph_json: str, arrays: Mapping[str, np.ndarray]) -> int:
    """Return TVMRT_GRAPH_ARENA_BYTES for pointers of 4 bytes; ``arrays`` are the params."""
    copied = place_params(arrays).copied_bytes if arrays else 0
    numbers = _arena_arguments(json.loads(graph_json), copied)
    nodes, inputs, heads, entries, extents, edges, arguments, tensors = numbers
    # the executor, then tensors, extents, arguments, operators, inputs, and 2-byte indices
    tables = 24 * 4 + 40 * entries + 8 * extents + 8 * (edges + entries - inputs)
    tables += 12 * (nodes - inputs) + 8 * inputs + 2 * (nodes + 1 + entries + heads)
    return round_up(tables, ALIGN_BYTES) + round_up(4 * arguments, ALIGN_BYTES) + tensors


def _header(program: Program, sources: Sources, graph: dict, params: Params | None) -> str:
    prefix = sources.prefix
    inputs, outputs = input_tensors(program), output_tensors(program)
    macro = f"{prefix.upper()}_GRAPH_ARENA_SIZE"
    arguments = _arena_arguments(graph, params.copied_bytes if params else 0)
    declarations = []
    for what, tensors in (("Input", inputs), ("Output", outputs)):
        for i, tensor in enumerate(tensors):
            type_text = dynamic_dims.shape_text(tensor.type)
            bounds = dynamic_dims.bounds_text(tensor.type.shape)
            declarations += [
                f"/*! \\brief {what} {i}, {comment_text(tensor.origin)}: {type_text}; in bytes"
                f"{bounds}. */",
                f"#define {tensor_macro(prefix, tensor.member)} {tensor.type.nbytes}",
            ]
    declarations += [
        "",
        *dynamic_dims.bounds_macros(program, prefix),
        "/*! \\brief Bytes that the graph executor needs in addition to inputs and weights. */",
        f"#define {macro} TVMRT_GRAPH_ARENA_BYTES({', '.join(map(str, arguments))})",
        "",
        "/*! \\brief Table of the operators. */",
        f"extern const TVMModule {module_symbol(prefix)};",
        "",
        "/*! \\brief Graph JSON, not NUL-terminated. */",
        f"extern const char {prefix}_graph_json[];",
        "",
        "/*!",
        " * \\brief Create the network's executor and load its weights; see tvmrt_graph_create().",
        f" * \\param arena       [in] {macro} bytes, aligned to 16;",
        " *                    borrowed until the executor is released.",
        " * \\param executor    [out] Released by TVMGraphExecutor_Release(). NULL on failure.",
        " */",
        *wrap(
            f"tvm_crt_error_t {prefix}_graph_create",
            _CREATE_PARAMETERS,
            link_guard.prototype_end(prefix, "graph_create"),
        ),
        "",
    ]
    lines = [
        *link_guard.guard_lines(prefix, sources.network_id, *link_guard.NETWORKS),
        "#include <tvm/runtime/crt/graph_arena.h>",
        "",
        *link_guard.declaration_lines(prefix, sources.network_id, declarations),
    ]
    return "\n".join(lines)


_CREATE_PARAMETERS = ["void *arena", "size_t arena_bytes", "TVMGraphExecutor **executor"]


def _source(sources: Sources, graph_json: str, params: Params | None) -> str:
    prefix = sources.prefix
    text = graph_json.encode("ascii")
    lines = [
        *own_includes(prefix),
        f'#include "{prefix}_ops.h"',
        "",
        f"const char {prefix}_graph_json[{len(text)}] TVMGEN_RODATA = {{",
        *_rows(text),
        "};",
        "",
    ]
    if params is not None:
        data = bytes(params.pad) + params.data
        lines += [
            f"/* The first {params.pad} bytes are padding that aligns the rest. */",
            f"static const unsigned char params[{len(data)}] TVMGEN_RODATA = {{",
            *_rows(data),
            "};",
            "",
        ]
    lines += [
        *wrap(f"tvm_crt_error_t {prefix}_graph_create", _CREATE_PARAMETERS, " {"),
        f"  tvm_crt_error_t rc = tvmrt_graph_create({prefix}_graph_json, {len(text)},",
        f"                                          &{module_symbol(prefix)}, arena, arena_bytes,",
        "                                          executor, NULL);",
    ]
    if params is not None:
        lines += [
            "  if (rc != kTvmErrorNoError) return rc;",
            "  rc = (tvm_crt_error_t)TVMGraphExecutor_LoadParams(",
            f"      *executor, (const char *)params + {params.pad}, {len(params.data)});",
            "  if (rc != kTvmErrorNoError) *executor = NULL;",
        ]
    guard = link_guard.guard(prefix, "graph_create")
    return "\n".join([*lines, "  return rc;", "}", "", *guard])


def _rows(data: bytes) -> list[str]:
    return [f"  {', '.join(map(str, data[i : i + 16]))}," for i in range(0, len(data), 16)]

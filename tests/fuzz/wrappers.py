"""Write C wrappers of one signature around crt networks, for each executor and interface.

``fuzz_NAME(dims, in, out)``: the sizes of open dimensions, the inputs' memory, the outputs', and at
the end of these int32 for the extents of all outputs. The result is the network's code.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from builds import Build

CODES = {"i": 0, "u": 1, "f": 2, "b": 1}  # DLPack type codes, by numpy's kind

ARENA = ("extern uint8_t fuzz_arena[];", "extern const size_t fuzz_arena_bytes;")

PLAIN = """\
  struct tvmgen_%(name)s_inputs inputs = {%(inputs)s};
  struct tvmgen_%(name)s_outputs outputs = {%(outputs)s};
"""

PACKED = """\
  DLTensor tensors[%(count)d];
  TVMValue args[%(count)d], result;
  int codes[%(count)d], result_code = kTVMNullptr;
%(tensors)s
  for (int i = 0; i < %(count)d; ++i) {
    args[i].v_handle = &tensors[i];
    codes[i] = kTVMDLTensorHandle;
  }
  code = tvmgen_%(name)s_run(args, codes, %(count)d, &result, &result_code, NULL);
"""

GRAPH = """\
  TVMGraphExecutor *net;
  DLTensor tensors[%(count)d];
  if (fuzz_arena_bytes < TVMGEN_%(upper)s_GRAPH_ARENA_SIZE) return 20;
  code = tvmgen_%(name)s_graph_create(fuzz_arena, TVMGEN_%(upper)s_GRAPH_ARENA_SIZE, &net);
  if (code != 0) return code;
%(tensors)s
%(sets)s
  if (code == 0) code = TVMGraphExecutor_Run(net);
%(gets)s
  if (TVMGraphExecutor_Release(&net) != 0 && code == 0) code = 21;
"""


def wrapper_text(library: Any, build: Build, max_dims: int) -> str:
    """Return the C file of one network."""
    name = library.module_name
    sized = library.program.dims()
    if len(sized) > max_dims:
        raise ValueError(f"{len(sized)} dimensions are open, at most {max_dims} are run here")
    if build.executor == "graph":
        body = _graph(library)
    elif build.interface == "packed":
        body = _packed(library)
    else:
        body = _plain(library)
    return "\n".join([
        "#include <stddef.h>", "#include <stdint.h>", "#include <string.h>",
        "#include <tvm/runtime/c_packed_func.h>", f'#include "tvmgen_{name}.h"',
        *(ARENA if build.executor == "graph" else ()),
        f"int32_t fuzz_{name}(const int32_t *dims, void *const *in, void *const *out);",
        f"int32_t fuzz_{name}(const int32_t *dims, void *const *in, void *const *out) {{",
        f"  int32_t *extents = out[{len(library.summary.outputs)}];",
        "  int32_t code = 0;",
        "  (void)dims; (void)extents;",
        body,
        "  return code;",
        "}", "",
    ])  # fmt: skip


def _members(library: Any) -> list[str]:
    """Return the names of all tensors in the structs of the header."""
    outputs = library.summary.outputs
    several = len(outputs) > 1
    names = [f"output{i}" if several else "output" for i in range(len(outputs))]
    return [*(each.name for each in library.summary.inputs), *names]


def _ends(library: Any) -> list[Any]:
    return [*library.summary.inputs, *library.summary.outputs]


def _fixed_extents(library: Any) -> list[str]:
    """Return C code that reports the extents of static outputs."""
    extents = [each for tensor in library.summary.outputs for each in tensor.shape]
    return [f"  extents[{i}] = {each};" for i, each in enumerate(extents)]


def _measure(library: Any) -> list[str]:
    """Return C code that queries the shapes of a run and reports those of outputs."""
    name = library.module_name
    sizes = ", ".join(f"dims[{i}]" for i in range(len(library.program.dims())))
    dims, counts = (
        "&sizes_of_run, " * bool(sizes),
        "NULL, " * bool(library.program.data_dependent_dims),
    )
    lines = [
        f"  struct tvmgen_{name}_dims sizes_of_run = {{{sizes}}};" if sizes else "",
        f"  struct tvmgen_{name}_shapes shapes;",
        f"  struct tvmgen_{name}_sizes sizes;",
        f"  code = tvmgen_{name}_measure({dims}{counts}&shapes, &sizes);",
        "  if (code != 0) return code;",
    ]
    return lines if counts else [*lines, *_extents_of_run(library)]


def _extents_of_run(library: Any) -> list[str]:
    """Return C code that computes the extents of outputs from the shapes of a run."""
    lines, at, first = [], 0, len(library.summary.inputs)
    for member, tensor in zip(_members(library)[first:], library.summary.outputs):
        for axis in range(len(tensor.shape)):
            lines.append(f"  extents[{at}] = shapes.{member}[{axis}];")
            at += 1
    return lines


def _plain(library: Any) -> str:
    name, count = library.module_name, len(library.summary.inputs)
    outputs = len(library.summary.outputs)
    text = PLAIN % {
        "name": name,
        "inputs": ", ".join(f"in[{i}]" for i in range(count)) or "0",
        "outputs": ", ".join(f"out[{i}]" for i in range(outputs)),
    }
    dims = "&sizes_of_run, " * bool(library.program.dims())
    if library.program.data_dependent_dims:
        return "\n".join([
            text, *_measure(library), f"  struct tvmgen_{name}_counts counts;",
            f"  code = tvmgen_{name}_run_checked(&inputs, &outputs, {dims}&counts, &sizes);",
            "  if (code != 0) return code;",
            f"  code = tvmgen_{name}_measure({dims}&counts, &shapes, &sizes);",
            *_extents_of_run(library),
        ])  # fmt: skip
    if dims:
        lines = [text, *_measure(library)]
        call = f"tvmgen_{name}_run_checked(&inputs, &outputs, {dims}&sizes)"
    else:
        lines = [text, *_fixed_extents(library)]
        call = f"tvmgen_{name}_run(&inputs, &outputs)"
    return "\n".join([*lines, f"  code = {call};"])


def _tensors(library: Any, shape_of: Any) -> str:
    """Return C code that fills DLTensors; ``shape_of(number, axis)`` is the text of an extent."""
    lines, inputs = [], len(library.summary.inputs)
    for i, tensor in enumerate(_ends(library)):
        dtype, rank = np.dtype(tensor.dtype), len(tensor.shape)
        extents = ", ".join(shape_of(i, axis) for axis in range(rank)) or "1"
        data = f"in[{i}]" if i < inputs else f"out[{i - inputs}]"
        bits = 1 if dtype.kind == "b" else 8 * dtype.itemsize  # TVM's bool
        kind = f"{{{CODES[dtype.kind]}, {bits}, 1}}"
        lines.append(f"  int64_t shape{i}[] = {{{extents}}};")
        lines.append(f"  tensors[{i}] = (DLTensor){{{data}, {{kDLCPU, 0}}, {rank}, {kind}, "
                     f"shape{i}, NULL, 0}};")  # fmt: skip
    return "\n".join(lines)


def _packed(library: Any) -> str:
    members = _members(library)
    if library.program.dims():
        lines = _measure(library)
        text = _tensors(library, lambda i, axis: f"shapes.{members[i]}[{axis}]")
    else:
        ends = _ends(library)
        lines, text = _fixed_extents(library), _tensors(library, lambda i, k: str(ends[i].shape[k]))
    call = PACKED % {"name": library.module_name, "count": len(members), "tensors": text}
    return "\n".join([*lines, call])


def _graph(library: Any) -> str:
    ends, inputs = _ends(library), len(library.summary.inputs)
    order = {symbol.name: i for i, symbol in enumerate(library.program.dims())}

    def extent(i: int, axis: int) -> str:
        size = ends[i].shape[axis]
        if isinstance(size, int) or str(size).isdigit():
            return str(size)
        if i < inputs:
            return f"dims[{order[str(size)]}]"
        return f"tvmrt_graph_output(net, {i - inputs})->shape[{axis}]"

    before = _tensors(library, lambda i, k: extent(i, k) if i < inputs else "0")
    sets, gets, at = [], [], 0
    for i, tensor in enumerate(library.summary.inputs):
        call = f'TVMGraphExecutor_SetInput(net, "{tensor.name}", &tensors[{i}])'
        sets.append(f"  if (code == 0) code = {call};")
    for i, tensor in enumerate(library.summary.outputs):
        gets.append("  if (code == 0) {")
        for axis in range(len(tensor.shape)):
            text = extent(inputs + i, axis)
            gets.append(f"    shape{inputs + i}[{axis}] = {text};")
            gets.append(f"    extents[{at}] = (int32_t)shape{inputs + i}[{axis}];")
            at += 1
        gets.append(f"    code = TVMGraphExecutor_GetOutput(net, {i}, &tensors[{inputs + i}]);")
        gets.append("  }")
    return GRAPH % {
        "name": library.module_name, "upper": library.module_name.upper(), "count": len(ends),
        "tensors": before, "sets": "\n".join(sets), "gets": "\n".join(gets),
    }  # fmt: skip

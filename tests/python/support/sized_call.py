"""A C program that runs a firmware network with dynamic dimensions or data-dependent results, on
hosts and on boards.

It executes runs from a file: the sizes, then the inputs, each in a buffer of exactly the required
bytes, so that sanitizers detect overruns. Every second run is executed in steps. The results with
their extents are written to another file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from boards import Board, build_library, link_image, run_image

from tvmrt.compiler.ir.sizes import linear_form

PROGRAM = """\
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <tvmgen_%(name)s.h>

%(pool)s
static void *allocate(size_t bytes) { return malloc(bytes ? bytes : 1); }

static int32_t in_slices(struct tvmgen_%(name)s_inputs *inputs,
                         struct tvmgen_%(name)s_outputs *outputs%(declared)s) {
  struct tvmgen_%(name)s_step_state state;
  int32_t code = tvmgen_%(name)s_step_begin(&state, inputs, outputs%(pools)s%(passed)s);
  if (code != 0) return code;
  do {
    code = tvmgen_%(name)s_step(&state, 2);
  } while (code == TVMGEN_%(upper)s_STEP_MORE);
  return code;
}

static int once(int sliced, FILE *in, FILE *out%(declared)s) {
  struct tvmgen_%(name)s_inputs inputs;
  struct tvmgen_%(name)s_outputs outputs;
  struct tvmgen_%(name)s_shapes shapes;
  struct tvmgen_%(name)s_sizes sizes;
  int32_t code;
  if (tvmgen_%(name)s_measure(%(before)s&shapes, &sizes) != 0) return 10;
%(fetches)s
  code = sliced ? in_slices(&inputs, &outputs%(passed)s)
                : tvmgen_%(name)s_run_checked(&inputs, &outputs%(pools)s%(passed)s, &sizes);
  if (code != 0) return 12;
  if (tvmgen_%(name)s_measure(%(after)s&shapes, &sizes) != 0) return 13;
%(stores)s
  return 0;
}

int main(void) {
%(variables)s
  FILE *in = fopen("runs.bin", "rb"), *out = fopen("results.bin", "wb");
  int sliced = 0, code = 0;
  if (in == NULL || out == NULL) return 1;
  while (code == 0 && fread(%(first)s, 1, in) == 1) {
    code = once(sliced, in, out%(given)s);
    sliced = !sliced;
  }
  fclose(in);
  return fclose(out) == 0 ? code : 2;
}
"""

POOL = """\
static _Alignas(16) uint8_t memory[TVMGEN_%(upper)s_%(pool)s_WORKSPACE_POOL_SIZE];
static struct tvmgen_%(name)s_workspace_pools pools = {memory};
"""


def program_text(library) -> str:
    """Return the C program of a network with at most one caller-provided pool."""
    name, upper = library.module_name, library.module_name.upper()
    provided = [pool.name for pool in library.summary.pools if pool.is_external]
    fetches, stores = [], []
    for tensor in library.summary.inputs:
        member = tensor.name
        fetches += [
            f"  void *in_{member} = allocate(sizes.{member});",
            f"  if (in_{member} == NULL) return 11;",
            f"  if (fread(in_{member}, 1, sizes.{member}, in) != sizes.{member}) return 11;",
            f"  inputs.{member} = in_{member};",
        ]
        stores.append(f"  free(in_{member});")
    several = len(library.summary.outputs) > 1
    for i in range(len(library.summary.outputs)):
        member = f"output{i}" if several else "output"
        fetches.append(f"  outputs.{member} = allocate(sizes.{member});")
        stores += [
            f"  fwrite(shapes.{member}, sizeof(shapes.{member}), 1, out);",
            f"  fwrite(outputs.{member}, 1, sizes.{member}, out);",
            f"  free(outputs.{member});",
        ]
    sized, counted = bool(library.program.dims()), bool(library.program.data_dependent_dims)
    dims, counts = f"struct tvmgen_{name}_dims", f"struct tvmgen_{name}_counts"
    return PROGRAM % {
        "declared": f", const {dims} *dims" * sized + f", {counts} *counts" * counted,
        "passed": ", dims" * sized + ", counts" * counted,
        "before": "dims, " * sized + "NULL, " * counted,
        "after": "dims, " * sized + "counts, " * counted,
        "variables": f"  {dims} dims;" * sized
        + f"  {counts} counts;" * counted
        + "  char mark;" * (not sized),
        "first": "&dims, sizeof(dims)" if sized else "&mark, sizeof(mark)",
        "given": ", &dims" * sized + ", &counts" * counted,
        "name": name,
        "upper": upper,
        "fetches": "\n".join(fetches),
        "stores": "\n".join(stores),
        "pool": POOL % {"name": name, "upper": upper, "pool": provided[0].upper()}
        if provided
        else "",
        "pools": ", &pools" if provided else "",
    }


def sizes_of(library, inputs: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Return the run-time sizes by dimension, from the inputs that have them as an axis."""
    program = library.program
    sizes: dict[str, int] = {}
    for name, type in zip(program.input_names, program.input_types):
        for extent, size in zip(type.shape, inputs[name].shape):
            form = linear_form(extent)
            if form is not None:
                symbol, step, first = form
                sizes[symbol.name] = (size - first) // step
    return {symbol.name: sizes[symbol.name] for symbol in program.dims()}


def write_runs(
    library, runs: Sequence[tuple[Mapping[str, int], Mapping[str, np.ndarray]]], folder: Path
) -> None:
    """Write the file of runs: sizes by dimension, inputs by name."""
    order = [symbol.name for symbol in library.program.dims()]
    parts = []
    for sizes, inputs in runs:
        parts.append(np.array([sizes[name] for name in order], np.int32).tobytes() or b"+")
        for tensor in library.summary.inputs:
            parts.append(np.ascontiguousarray(inputs[tensor.name], tensor.dtype).tobytes())
    (folder / "runs.bin").write_bytes(b"".join(parts))


def results_on_board(
    library,
    runs: Sequence[tuple[Mapping[str, int], Mapping[str, np.ndarray]]],
    board: Board,
    folder: Path,
    flags: str,
) -> list[list[np.ndarray]]:
    """Return the outputs of each run on a board in QEMU; the library is built with ``flags``."""
    library.export(folder / "net.tar")
    archive = build_library(folder / "net.tar", board, folder / "net", flags)
    (folder / "main.c").write_text(program_text(library))
    includes = [archive.parent / "codegen/host/include", archive.parent / "runtime/include"]
    image = link_image(board, [folder / "main.c"], [archive], folder / "image.elf", includes)
    write_runs(library, runs, folder)
    run_image(board, image, folder)
    return read_results(library, folder)


def read_results(library, folder: Path) -> list[list[np.ndarray]]:
    """Return the outputs of each run with the extents that the network reported."""
    data, at, runs = (folder / "results.bin").read_bytes(), 0, []
    while at < len(data):
        results = []
        for tensor in library.summary.outputs:
            rank, dtype = len(tensor.shape), np.dtype(tensor.dtype)
            shape = np.frombuffer(data, np.int32, rank, at)
            at += shape.nbytes
            flat = np.frombuffer(data, dtype, int(np.prod(shape)), at)
            at += flat.nbytes
            results.append(flat.reshape(shape))
        runs.append(results)
    return runs

"""Archives of the crt runtime as programs of this machine or of QEMU in user mode.

A program reads the inputs of one run from a file, runs the network with its interface, and writes
the outputs to another file.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from archives import unpack

_HEAD = """\
#include <stdio.h>
#include <string.h>
#include <tvm/runtime/c_packed_func.h>
#include <tvmgen_net.h>

"""

_MAIN = """\
int main(void) {
  FILE *from = fopen("inputs.bin", "rb"), *to = fopen("outputs.bin", "wb");
  if (from == NULL || to == NULL) return 1;
  for (int i = 0; i < INPUTS; ++i) {
    if (fread(in[i], in_bytes[i], 1, from) != 1) return 2;
  }
  if (run() != 0) return 3;
  for (int i = 0; i < OUTPUTS; ++i) {
    if (fwrite(out[i], out_bytes[i], 1, to) != 1) return 4;
  }
  return fclose(to);
}
"""

_RUN = {
    "c": """\
static int run(void) {
  struct tvmgen_net_inputs inputs;
  struct tvmgen_net_outputs outputs;
  memcpy(&inputs, in, sizeof(inputs));
  memcpy(&outputs, out, sizeof(outputs));
  return (int)tvmgen_net_run(&inputs, &outputs);
}
""",
    "packed": """\
static int run(void) {
  static DLTensor tensors[INPUTS + OUTPUTS];
  TVMValue args[INPUTS + OUTPUTS], result;
  int codes[INPUTS + OUTPUTS], code;
  for (int i = 0; i < INPUTS + OUTPUTS; ++i) {
    tensors[i].data = i < INPUTS ? in[i] : out[i - INPUTS];
    args[i].v_handle = &tensors[i];
    codes[i] = kTVMDLTensorHandle;
  }
  return (int)tvmgen_net_run(args, codes, INPUTS + OUTPUTS, &result, &code, NULL);
}
""",
    "graph": """\
static unsigned char arena[TVMGEN_NET_GRAPH_ARENA_SIZE] __attribute__((aligned(16)));

static DLTensor tensor(void *data, int64_t *bytes) {
  DLTensor t = {data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, bytes, NULL, 0};
  return t;
}

static int run(void) {
  TVMGraphExecutor *net;
  int64_t count;
  if (tvmgen_net_graph_create(arena, sizeof(arena), &net) != 0) return 1;
  for (int i = 0; i < INPUTS; ++i) {
    DLTensor t = tensor(in[i], &count);
    count = (int64_t)in_bytes[i] * 8 / in_types[i].bits;
    t.dtype = in_types[i];
    if (TVMGraphExecutor_SetInput(net, in_names[i], &t) != 0) return 2;
  }
  if (TVMGraphExecutor_Run(net) != 0) return 3;
  for (int i = 0; i < OUTPUTS; ++i) {
    DLTensor t = tensor(out[i], &count);
    count = (int64_t)out_bytes[i] * 8 / out_types[i].bits;
    t.dtype = out_types[i];
    if (TVMGraphExecutor_GetOutput(net, i, &t) != 0) return 4;
  }
  return TVMGraphExecutor_Release(&net);
}
""",
}
_CODES = {"i": 0, "u": 1, "f": 2, "b": 1}


def _tables(side: str, tensors: Sequence) -> list[str]:
    """Return C of the buffers and descriptors of inputs or outputs."""
    types = [np.dtype(t.dtype) for t in tensors]
    sizes = [int(np.prod(t.shape)) * dtype.itemsize for t, dtype in zip(tensors, types)]
    kinds = ", ".join(f"{{{_CODES[t.kind]}, {t.itemsize * 8}, 1}}" for t in types)
    names = ", ".join(f'"{t.name}"' for t in tensors)
    return [
        f"enum {{ {side.upper()}PUTS = {len(sizes)} }};",
        *(
            f"static unsigned char {side}_{i}[{n}] __attribute__((aligned(16)));"
            for i, n in enumerate(sizes)
        ),
        f"static void *{side}[] = {{{', '.join(f'{side}_{i}' for i in range(len(sizes)))}}};",
        f"static const size_t {side}_bytes[] = {{{', '.join(map(str, sizes))}}};",
        f"static const DLDataType {side}_types[] = {{{kinds}}};",
        f"static const char *const {side}_names[] = {{{names}}};",
        f"static inline const void *{side}_unused(void) {{ "
        f"return {side}_names[0] != NULL ? (const void *){side}_types : NULL; }}",
        "",
    ]


def run_archive(
    library,
    feeds: Mapping[str, np.ndarray],
    folder: Path,
    compiler: Sequence[str] = ("cc", "-std=c99", "-O1"),
    emulator: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """Build the archive of a network named ``net``, run it once, and return its outputs by name."""
    folder.mkdir(parents=True, exist_ok=True)
    library.export(folder / "net.tar")
    unpack(folder / "net.tar", folder)
    options, summary = library.options, library.summary
    interface = "graph" if options.executor == "graph" else options.interface_api
    text = [*_tables("in", summary.inputs), *_tables("out", summary.outputs)]
    (folder / "main.c").write_text(_HEAD + "\n".join(text) + _RUN[interface] + _MAIN)
    sources = [folder / "main.c", *sorted((folder / "codegen").rglob("*.c"))]
    sources += sorted((folder / "runtime").rglob("*.c"))
    includes = [f"-I{folder}/codegen/host/include", f"-I{folder}/runtime/include"]
    command = [*compiler, *includes, *map(str, sources), "-lm", "-o", str(folder / "program")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    given = [np.ascontiguousarray(feeds[t.name], t.dtype) for t in summary.inputs]
    (folder / "inputs.bin").write_bytes(b"".join(x.tobytes() for x in given))
    program = [*emulator, str(folder / "program")]
    ran = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"exit code {ran.returncode}: {ran.stderr}"
    data, outputs, at = (folder / "outputs.bin").read_bytes(), {}, 0
    for t in summary.outputs:
        count = int(np.prod(t.shape))
        outputs[t.name] = np.frombuffer(data, t.dtype, count, at).reshape(t.shape)
        at += outputs[t.name].nbytes
    return outputs

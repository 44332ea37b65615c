"""Many networks in one image: compiled together, built by any compiler, each run once in QEMU."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from archives import unpack
from compilers import Build, build_image, includes_of, run_built, sources_of

import tvmrt

# As in projects that build with -Werror; GCC 14 and C++ reject the second in any case.
STRICT = (
    "-std=c99", "-Wall", "-Wextra", "-Wincompatible-pointer-types", "-Wstrict-aliasing=2",
    "-Werror",
)  # fmt: skip
CPLUSPLUS = ("-x", "c++", "-std=gnu++11", "-Wall", "-Wextra", "-Werror", "-fno-exceptions")

_CALL = """\
static int call_{name}(FILE *in, FILE *out) {{
{buffers}
  struct tvmgen_{name}_inputs inputs = {{{inputs}}};
  struct tvmgen_{name}_outputs outputs = {{{outputs}}};
{fetches}
  if (tvmgen_{name}_run(&inputs, &outputs) != 0) return 3;
{stores}
  return 0;
}}
"""
_MAIN = """\
int main(void) {{
  FILE *in = fopen("inputs.bin", "rb"), *out = fopen("outputs.bin", "wb");
  int code = in == NULL || out == NULL;
{calls}
  return fclose(out) == 0 ? code : 5;
}}
"""


def _call_text(library: Any) -> str:
    """Return a C function that runs one network from a file to another."""
    summary, buffers, fetches, stores = library.summary, [], [], []
    for kind, tensors in (("in", summary.inputs), ("out", summary.outputs)):
        for i, tensor in enumerate(tensors):
            size = tensor.nbytes
            buffers.append(f"  static _Alignas(16) uint8_t {kind}{i}[{max(size, 1)}];")
            if kind == "in" and size:
                fetches.append(f"  if (fread(in{i}, {size}, 1, in) != 1) return 2;")
            elif size:
                stores.append(f"  if (fwrite(out{i}, {size}, 1, out) != 1) return 4;")
    return _CALL.format(
        name=library.module_name,
        buffers="\n".join(buffers),
        inputs=", ".join(f"in{i}" for i in range(len(summary.inputs))),
        outputs=", ".join(f"out{i}" for i in range(len(summary.outputs))),
        fetches="\n".join(fetches),
        stores="\n".join(stores),
    )


class ManyNetworks:
    """Networks by name, compiled together for a target, with their inputs in order."""

    def __init__(
        self,
        networks: Mapping[str, Any],
        feeds: Mapping[str, Sequence[np.ndarray]],
        target: str,
        folder: Path,
        **options: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.image = tvmrt.compile_together(networks, target=target, interface_api="c", **options)
        self.image.export(folder / "image.tar")
        self.archive = folder / "net"
        unpack(folder / "image.tar", self.archive)
        self.libraries = self.image.libraries
        parts = ["#include <stdint.h>", "#include <stdio.h>"]
        parts += [f"#include <tvmgen_{name}.h>" for name in self.libraries]
        parts += [_call_text(library) for library in self.libraries.values()]
        calls = [f"  if (code == 0) code = call_{name}(in, out);" for name in self.libraries]
        self.program = folder / "main.c"
        self.program.write_text("\n".join(parts) + _MAIN.format(calls="\n".join(calls)))
        given = [
            np.ascontiguousarray(array, tensor.dtype).tobytes()
            for name, library in self.libraries.items()
            for array, tensor in zip(feeds[name], library.summary.inputs)
        ]
        self.inputs = b"".join(given)

    def results(
        self, build: Build, folder: Path, dialect: Sequence[str] = STRICT
    ) -> dict[str, list[np.ndarray]]:
        """Return the outputs of each network on a board, from an image built in one way."""
        image = build_image(build, self.program, [self.archive], folder / "objects", dialect)
        (folder / "inputs.bin").write_bytes(self.inputs)
        run_built(build, image, folder)
        data, at, found = (folder / "outputs.bin").read_bytes(), 0, {}
        for name, library in self.libraries.items():
            found[name] = []
            for tensor in library.summary.outputs:
                part = np.frombuffer(data[at : at + tensor.nbytes], tensor.dtype)
                found[name].append(part.reshape(tensor.shape))
                at += tensor.nbytes
        assert at == len(data)
        return found


def compiles_as_cplusplus(build: Build, archive: Path) -> None:
    """Assert that an archive's C files compile as C++ without warnings."""
    command = [build.board.compiler, "-print-prog-name=cc1plus"]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(found).is_absolute():
        pytest.skip(f"{build.board.compiler} has no C++")
    command = [*build.flags(), *CPLUSPLUS, "-fsyntax-only", *includes_of([archive])]
    command += map(str, sources_of(archive))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

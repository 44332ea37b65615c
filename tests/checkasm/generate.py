"""Writes the layers of one program of checks: ``generate.py LEVEL FOLDER [--seed N] [--part P]``.

``layers.c`` in the folder runs random layers by the kernels, ``layers.bin`` has their arrays, and
both make a program with the C files next to this one. The product's own planning and packing are
used: the program compares results with loops over the definition, so those are checked, too.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import layers_boards
import layers_f32
import layers_i8
from layers import Layers, Random

from tvmrt.compiler.codegen.target import LEVELS, Target, get_target

HEAD = """
#define TVMRT_PARALLEL_MIN_MACS 0
#define TVMRT_PARALLEL_MIN_FLOATS 0
#define TVMRT_MATMUL_BF16_BYTES 16384
"""


def level(family: str, name: str) -> Target:
    """Return an ISA level of a family with the widest of those that share its weights."""
    if family == "plain":
        return Target("plain", (), 1, 12, l2_bytes=0)
    if family not in LEVELS:
        return get_target(family)
    names = [each.name for each in LEVELS[family]]
    usual = [n for n in names if n not in ("v3vnni", "v4amx")]
    known = get_target(family, [n for n in names if n in (name, usual[-1], name)])
    return next(each for each in known.levels if each.name == name)


def write(target: Target, folder: Path, seed: int, part: float) -> None:
    """Write the layers of a host's ISA level."""
    layers = Layers(target, Random(seed))
    layers_f32.add_all(layers, part)
    head = HEAD + layers_i8.add_all(layers, part)
    more = '#include "check_functions.h"\n#include "check_rows.h"'
    calls = f"  ck_check_functions();\n  ck_check_rows({round(60 * part)});"
    text = layers.text(head, more, calls)
    put(folder, {"layers.c": text}, layers.arrays)


def write_board(name: str, folder: Path, seed: int, part: float) -> None:
    """Write the layers of a board, or for ``host`` those of all board kernels in plain C: one file
    per kernel, since a program of the product has only one kernel of dense layers."""
    on_host, random = name.startswith("host"), Random(seed)
    head = layers_boards.macros(get_target("cortex-m55" if on_host else name))
    if name == "host-nofpu":
        head.append("#define TVMRT_MICRO_HAS_FPU 0")
    files, arrays, functions = {}, bytearray(), []
    for kernel, add in layers_boards.kernels(None if on_host else get_target(name).board):
        layers = Layers(get_target("cortex-m55"), random)
        for number in range(round(8 * part)):
            add(layers, number)
        functions.append(f"ck_kernel_{kernel}")
        files[f"layers_{kernel}.c"] = layers.text("\n".join(head), function=functions[-1])
        arrays += layers.arrays
    calls = [f"void {each}(void);" for each in functions]
    calls += ["void ck_all(void) {", *(f"  {each}();" for each in functions), "}", ""]
    put(folder, {**files, "layers.c": "\n".join(['#include "checkasm.h"', *calls])}, arrays)


def put(folder: Path, files: dict[str, str], arrays: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)
    (folder / "layers.bin").write_bytes(arrays)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("level", help="such as x86-64:v3, wasm32, board:cortex-m4 or board:host")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--part", type=float, default=1.0)
    options = parser.parse_args()
    family, _, name = options.level.partition(":")
    if family == "board":
        write_board(name, options.folder, options.seed, options.part)
    else:
        write(level(family, name), options.folder, options.seed, options.part)

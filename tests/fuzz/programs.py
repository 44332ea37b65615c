"""Run many networks of the crt runtime in one program, on this machine or as one QEMU image.

The program reads runs from ``inputs.bin`` and writes results to ``results.bin``, on a board by
semihosting. Each tensor has guards around it. A run that ends the program is known by the number
of results before it; the program is started again with the runs that follow.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import builds
import numpy as np
from builds import Build, boards
from wrappers import wrapper_text

from tvmrt.compiler.export.firmware_build import ERRORS, SIZED_GRAPH, runtime_sources
from tvmrt.libinfo import find_firmware_path, find_include_path

GUARD = 32
DIMS = 4
C_SECONDS = 600  # for the C files of one network, on a busy machine
RUN_SECONDS = 60
OUT_OF_TIME = -1000

MAIN = """\
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { GUARD = %(guard)d, TENSORS = %(tensors)d, DIMS = %(dims)d, MEMORY = %(memory)d };
struct run {
  uint32_t network, inputs, outputs, unused;
  int32_t dims[DIMS];
  uint32_t sizes[TENSORS];
};
static _Alignas(64) uint8_t memory[MEMORY];
_Alignas(64) uint8_t fuzz_arena[%(arena)d];
const size_t fuzz_arena_bytes = sizeof(fuzz_arena);
%(declarations)s
static int32_t (*const networks[])(const int32_t *, void *const *, void *const *) = {
%(table)s
};

static int whole(const uint8_t *at) {
  for (int i = 0; i < GUARD; ++i) {
    if (at[i] != 0xa5) return 0;
  }
  return 1;
}

int main(void) {
  static struct run run;
  static uint8_t *at[TENSORS];
  FILE *from = fopen("inputs.bin", "rb"), *to = fopen("results.bin", "wb");
  if (from == NULL || to == NULL) return 1;
  while (fread(&run, sizeof(run), 1, from) == 1) {
    const uint32_t count = run.inputs + run.outputs;
    uint8_t *next = memory;
    int32_t head[2] = {0, 1};
    for (uint32_t i = 0; i < count; ++i) {
      memset(next, 0xa5, GUARD + run.sizes[i] + GUARD);
      at[i] = next + GUARD;
      if (i < run.inputs && fread(at[i], 1, run.sizes[i], from) != run.sizes[i]) return 2;
      next += (GUARD + run.sizes[i] + GUARD + 63) / 64 * 64;
    }
    head[0] = networks[run.network](run.dims, (void *const *)at, (void *const *)at + run.inputs);
    for (uint32_t i = 0; i < count; ++i) {
      if (!whole(at[i] - GUARD) || !whole(at[i] + run.sizes[i])) head[1] = 0;
    }
    fwrite(head, sizeof(head), 1, to);
    for (uint32_t i = run.inputs; i < count; ++i) fwrite(at[i], 1, run.sizes[i], to);
    fflush(to);
  }
  return fclose(to);
}
"""


class TooLarge(Exception):
    """Raised if the networks do not fit into one image."""


def run_program(
    folder: Path, members: Sequence[Any], outcomes: list[Any], build: Build, lean: bool = False
) -> None:
    """Compile and run; set the outputs or the error of each run in the outcomes.

    ``lean`` leaves out the files of a network that its plain run does not call, and compiles the
    others at once, so that the compiler reads the headers once: a third to a half of the time.
    """
    objects = compile_networks(folder, members, outcomes, build, lean)
    alive = [number for number in objects if not outcomes[number].kind]
    _run_some(folder, members, outcomes, build, objects, alive)


def _run_some(
    folder: Path, members: Sequence[Any], outcomes: list[Any], build: Build,
    objects: dict[int, list[Path]], numbers: list[int],
) -> None:  # fmt: skip
    """Run some of the networks, split in halves if they do not fit into one image."""
    if not numbers:
        return
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        program = _linked(place, members, build, objects, numbers)
    except TooLarge as problem:
        if len(numbers) == 1:
            outcomes[numbers[0]].refused = f"it does not go into the board's memory: {problem}"
            return
        half = len(numbers) // 2
        for part in (numbers[:half], numbers[half:]):
            _run_some(folder, members, outcomes, build, objects, part)
        return
    _run_all(place, program, members, outcomes, build, numbers)


def compile_networks(
    folder: Path, members: Sequence[Any], outcomes: list[Any], build: Build, lean: bool = False
) -> dict[int, list[Path]]:
    """Return the object files of each network by number; networks whose C code fails have none."""
    includes = [f"-I{path}" for path in find_include_path()]
    command = [*build.command(), "-w", "-ffunction-sections", "-fdata-sections", *includes]
    found = {}
    for number, member in enumerate(members):
        place = folder / f"c{number}"
        place.mkdir(parents=True)
        sources = member.library.write_sources(place)
        if lean:
            sources = [each for each in sources if not is_optional(each, member.library)]
        (place / "wrapper.c").write_text(wrapper_text(member.library, build, DIMS))
        sources.append(place / "wrapper.c")
        if lean:
            sources = [_joined(sources, place / "joined.c")]
        complaint = call([*command, "-c", *(each.name for each in sources)], place)
        if complaint:
            outcomes[number].kind, outcomes[number].text = "c", complaint
        else:
            found[number] = [each.with_suffix(".o") for each in sources]
    return found


def _joined(sources: Sequence[Path], path: Path) -> Path:
    """Write a file that includes the others; return its path."""
    path.write_text("".join(f'#include "{each.name}"\n' for each in sources))
    return path


def is_optional(source: Path, library: Any) -> bool:
    """Return True if a plain run of a network does not need the file."""
    endings = ["_step", "_metadata"]
    if not library.program.dims() and not library.program.data_dependent_dims:
        endings.append("_checked")
    return source.stem.endswith(tuple(endings))


def call(command: Sequence[str], folder: Path) -> str:
    """Run a compiler; return its errors about its files, or an empty text."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, timeout=C_SECONDS,
            env=builds.environment(),
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"the C compiler takes more than {C_SECONDS} s"
    if not done.returncode:
        return ""
    errors = [line for line in done.stderr.splitlines() if "warning: " not in line]
    return "\n".join(errors)[:2000] or f"exit code {done.returncode}"


def _linked(
    folder: Path, members: Sequence[Any], build: Build, objects: dict[int, list[Path]],
    numbers: Sequence[int],
) -> Path:  # fmt: skip
    names = [f"fuzz_n{number}" for number in numbers]
    signature = "(const int32_t *, void *const *, void *const *);"
    memory = max(_memory(members[number]) for number in numbers)
    text = MAIN % {
        "guard": GUARD, "tensors": _tensors(members, numbers), "dims": DIMS, "memory": memory,
        "arena": max(_arena(members[number], build) for number in numbers),
        "declarations": "\n".join(f"int32_t {name}{signature}" for name in names),
        "table": ",\n".join(f"  {name}" for name in names),
    }  # fmt: skip
    (folder / "main.c").write_text(text)
    files = [str(path) for number in numbers for path in objects[number]]
    runtime = _runtime(build)
    if build.kind == "board":
        return _linked_image(folder, build, [*files, runtime])
    command = [*build.command(), "-std=c11", "main.c", *files, runtime, "-lm", "-o", "program"]
    complaint = call([*command, "-Wl,--gc-sections"], folder)
    if complaint:
        raise RuntimeError(f"the networks of {folder} cannot be linked: {complaint[:1000]}")
    return folder / "program"


def _linked_image(folder: Path, build: Build, files: Sequence[str]) -> Path:
    board = build.board
    ram, ram_size = MORE_RAM.get(build.target, (board.ram, board.ram_size))
    layout = {"flash": board.flash, "flash_size": board.flash_size, "ram": ram,
              "ram_size": ram_size, "stack_size": 1 << 16}  # fmt: skip
    command = [
        board.compiler, "-Os", *board.linked, "--specs=picolibc.specs", "--crt0=semihost",
        "--oslib=semihost", "-Wl,--gc-sections", "-std=c11", "main.c", *files, "-lm", "-o",
        "image.elf", *(f"-Wl,--defsym=__{key}={value:#x}" for key, value in layout.items()),
    ]  # fmt: skip
    complaint = call(command, folder)
    if "overflowed by" in complaint or "will not fit" in complaint:
        raise TooLarge(complaint[-200:])
    if complaint:
        raise RuntimeError(f"the networks of {folder} cannot be linked: {complaint[:1000]}")
    return folder / "image.elf"


# Larger memories of the emulated machines, for variables.
MORE_RAM = {"cortex-m4": (0x21000000, 16 << 20), "cortex-m55": (0x60000000, 64 << 20)}


@cache
def _runtime(build: Build) -> str:
    """Build the crt runtime as a library for one compiler and optimisation level."""
    folder = Path(tempfile.mkdtemp(prefix="tvmrt-fuzz-runtime-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    root = Path(find_firmware_path())
    names = runtime_sources(["aot", "graph", SIZED_GRAPH, ERRORS])
    files = [str(root / name) for name in names if name.endswith(".c")]
    includes = [f"-I{path}" for path in find_include_path()]
    flags = ["-w", "-ffunction-sections", "-fdata-sections"]
    complaint = call([*build.command(), *flags, *includes, "-c", *files], folder)
    if complaint:
        raise RuntimeError(f"the runtime does not compile for {build}: {complaint}")
    tool = f"{build.board.tool}-ar" if build.kind == "board" else "ar"
    objects = [path.name for path in folder.glob("*.o")]
    subprocess.run([tool, "rcs", "libruntime.a", *objects], cwd=folder, check=True)
    return str(folder / "libruntime.a")


def _tensors(members: Sequence[Any], numbers: Sequence[int]) -> int:
    """Return the maximum number of inputs, outputs and shapes of a network."""
    summaries = [members[number].library.summary for number in numbers]
    return 1 + max(len(each.inputs) + len(each.outputs) for each in summaries)


def _memory(member: Any) -> int:
    """Return the bytes of a run's tensors."""
    sizes = [
        each.nbytes for each in (*member.library.summary.inputs, *member.library.summary.outputs)
    ]
    return sum((size + 2 * GUARD + 127) // 64 * 64 for size in [*sizes, 4096])


def _arena(member: Any, build: Build) -> int:
    """Return a generous arena size for a graph executor; the exact size is only in the header."""
    if build.executor != "graph":
        return 64
    summary = member.library.summary
    ends = sum(each.nbytes for each in (*summary.inputs, *summary.outputs))
    nodes = len(member.library.sources.functions) + len(summary.inputs) + len(summary.outputs)
    return 2 * (summary.arena_bytes + ends) + 2 * summary.weights_bytes + 1024 * nodes + (1 << 16)


def _requests(members: Sequence[Any], numbers: Sequence[int]) -> list[tuple[int, int, bytes]]:
    """Return the runs of all networks: number of the member, number of its run, its bytes."""
    found, tensors = [], _tensors(members, numbers)
    for index, number in enumerate(numbers):
        member = members[number]
        summary = member.library.summary
        names = [symbol.name for symbol in member.library.program.dims()]
        for i, run in enumerate(member.runs):
            feeds = [np.ascontiguousarray(run.feeds[each.name]) for each in summary.inputs]
            sizes = [each.nbytes for each in feeds]
            sizes += [each.nbytes for each in summary.outputs] + [_shape_bytes(member)]
            head = np.zeros(4 + DIMS + tensors, np.int32)
            head[:3] = index, len(feeds), len(summary.outputs) + 1
            head[4 : 4 + len(names)] = [run.sizes[name] for name in names]
            head[4 + DIMS : 4 + DIMS + len(sizes)] = sizes
            found.append((number, i, head.tobytes() + b"".join(each.tobytes() for each in feeds)))
    return found


def _shape_bytes(member: Any) -> int:
    return 4 * sum(len(each.shape) for each in member.library.summary.outputs)


def _run_all(
    folder: Path, program: Path, members: Sequence[Any], outcomes: list[Any], build: Build,
    numbers: Sequence[int],
) -> None:  # fmt: skip
    waiting = _requests(members, numbers)
    while waiting:
        code = _start(folder, program, waiting, build)
        done = _read(folder / "results.bin", members, outcomes, waiting)
        if code == 0 and done == len(waiting):
            return
        if done < len(waiting):
            number = waiting[done][0]
            kind = "slow" if code == OUT_OF_TIME and build.kind != "board" else "died"
            outcomes[number].kind = kind
            outcomes[number].text = f"exit code {code} (it may hang) in run {waiting[done][1]}"
        waiting = [each for each in waiting[done + 1 :] if not outcomes[each[0]].kind]


def _start(folder: Path, program: Path, waiting: Sequence[tuple], build: Build) -> int:
    """Run the program over some runs; return its exit code."""
    (folder / "inputs.bin").write_bytes(b"".join(data for _, _, data in waiting))
    (folder / "results.bin").unlink(missing_ok=True)
    try:
        if build.kind == "board":
            boards.run_image(build.board, program, folder, timeout=RUN_SECONDS)
        else:
            subprocess.run([program], cwd=folder, check=True, timeout=RUN_SECONDS,
                           capture_output=True)  # fmt: skip
    except subprocess.TimeoutExpired:
        return OUT_OF_TIME
    except subprocess.CalledProcessError as problem:
        return problem.returncode
    return 0


def _read(path: Path, members: Sequence[Any], outcomes: list[Any], waiting: Sequence[tuple]) -> int:
    """Read the results of a program; return the number of runs that have one."""
    data = path.read_bytes() if path.exists() else b""
    at = 0
    for done, (number, i, _) in enumerate(waiting):
        outputs = members[number].library.summary.outputs
        size = 8 + sum(each.nbytes for each in outputs) + _shape_bytes(members[number])
        if len(data) < at + size:
            return done
        _note(data[at : at + size], members[number], outcomes[number], i)
        at += size
    return len(waiting)


def _note(data: bytes, member: Any, outcome: Any, run: int) -> None:
    code, whole = np.frombuffer(data, np.int32, 2)
    if code != 0:
        outcome.failures[run] = f"the network gives {int(code):#x}"
    if not whole:
        outcome.kind, outcome.text = "beyond", f"run {run} writes beyond the ends of a tensor"
    outputs = member.library.summary.outputs
    at = 8 + sum(each.nbytes for each in outputs)
    extents = np.frombuffer(data, np.int32, _shape_bytes(member) // 4, at).tolist()
    at, found = 8, []
    for each in outputs:
        shape = [extents.pop(0) for _ in each.shape]
        count = int(np.prod(shape, dtype=np.int64))
        dtype = np.dtype(each.dtype)
        if not 0 <= count * dtype.itemsize <= each.nbytes:
            outcome.kind, outcome.text = "wrong", f"run {run}: an output has the extents {shape}"
            return
        found.append(np.frombuffer(data, dtype, count, at).reshape(shape))
        at += each.nbytes
    if code == 0:
        outcome.outputs[run] = found

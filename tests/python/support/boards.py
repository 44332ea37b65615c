"""Firmware networks on boards emulated by QEMU: build, link, run, count instructions.

A network is compiled to an archive, and the archive's Makefile builds its library. A test's C
program is linked with it and picolibc, and QEMU runs the image; by semihosting the program reads
and writes files of its folder. :func:`run_network` does all of it for the C interface.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from archives import unpack
from tools import need


@dataclass(frozen=True)
class Board:
    """A machine of QEMU: its processor as a target, where its memory lies.

    ``tool``: prefix of the compiler commands. ``slow_flash``: address of additional memory for
    weights beyond the flash, or None. ``tick_ns``: period of the counter at ``counter``; boards
    without a counter count instructions themselves. ``start``: additional C start-up code that
    picolibc lacks.
    """

    target: str
    tool: str
    emulator: tuple[str, ...]
    flags: tuple[str, ...]
    flash: int
    flash_size: int
    ram: int
    ram_size: int
    slow_flash: int | None = None
    counter: int = 0
    tick_ns: int = 0
    start: str = ""

    @property
    def linked(self) -> tuple[str, ...]:
        """Return the compiler flags that select its libraries, which are built without vectors."""
        return tuple(flag.split("_")[0] for flag in self.flags)

    @property
    def compiler(self) -> str:
        return f"{self.tool}-gcc"

    def missing_tool(self) -> str | None:
        """Return the first missing command for building and running images, or None."""
        for tool in (self.compiler, f"{self.tool}-ar", self.emulator[0], "make"):
            if shutil.which(tool) is None:
                return tool
        return None


# Options of test programs; generated C avoids the loops that GCC 12 miscompiles.
OWN_LOOPS = "-fno-branch-count-reg"

_ARM, _RISCV = "arm-none-eabi", "riscv64-unknown-elf"
_MIB = 1 << 20


def _mps2(target: str, machine: str, *flags: str) -> Board:
    emulator = ("qemu-system-arm", "-M", machine)
    cpu = (f"-mcpu={target}", "-mthumb", *flags)
    return Board(
        target, _ARM, emulator, cpu, 0, 4 * _MIB, 0x20000000, 4 * _MIB, None, 0x40028018, 40
    )


# A processor with vectors of this length and 32-bit elements (Zve32f), without the
# rest of the V extension.
VECTORS = "rv32,Zve32f=true,vext_spec=v1.0,vlen=%d,elen=32"
VECTORS_ON = """\
__attribute__((constructor)) static void vectors_on(void) {
  const unsigned long vs = 0x200;
  __asm volatile(".option push\\n.option arch, +zicsr\\ncsrs mstatus, %0\\n.option pop" ::"r"(vs));
}
"""

BOARDS = {
    board.target: board
    for board in (
        # a Cortex-M3 runs code compiled for the smaller core
        _mps2("cortex-m0plus", "mps2-an385"),
        _mps2("cortex-m4", "mps2-an386", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
        _mps2("cortex-m7", "mps2-an500", "-mfloat-abi=hard", "-mfpu=fpv5-d16"),
        Board("cortex-m55", _ARM, ("qemu-system-arm", "-M", "mps3-an547"),
              ("-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard", OWN_LOOPS),
              0, 512 << 10, 0x21000000, 4 * _MIB, 0x60000000, 0x49302018, 50),
        Board("riscv32", _RISCV, ("qemu-system-riscv32", "-M", "virt", "-bios", "none"),
              ("-march=rv32imc", "-mabi=ilp32", "-msave-restore"), 0x80000000, 4 * _MIB, 0x80400000,
              4 * _MIB),
    )
}  # fmt: skip
BOARDS["rv32imac_zve32x"] = replace(
    BOARDS["riscv32"], target="rv32imac_zve32x",
    flags=("-march=rv32imac_zve32x", "-mabi=ilp32", "-msave-restore"),
    emulator=(*BOARDS["riscv32"].emulator, "-cpu", VECTORS % 128), start=VECTORS_ON,
)  # fmt: skip

# Targets without a separate QEMU machine, or that differ little from those above.
MORE_BOARDS = {
    "cortex-m3": replace(BOARDS["cortex-m0plus"], target="cortex-m3",
                         flags=("-mcpu=cortex-m3", "-mthumb")),
    "cortex-m4-nofp": replace(BOARDS["cortex-m4"], target="cortex-m4-nofp",
                              flags=("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=soft")),
    **{
        core: Board(core, _ARM, ("qemu-system-arm", "-M", "mps2-an505"),
                    (f"-mcpu={core}", "-mthumb", *fpu), 0x10000000, 4 * _MIB, 0x38000000, 4 * _MIB,
                    None, 0x50302018, 50)
        for core, fpu in (("cortex-m23", ()),
                          ("cortex-m33", ("-mfloat-abi=hard", "-mfpu=fpv5-sp-d16")))
    },
    # a Cortex-M55 has the same instructions
    "cortex-m85": replace(BOARDS["cortex-m55"], target="cortex-m85",
                          flags=("-march=armv8.1-m.main+mve.fp+fp.dp", "-mthumb",
                                 "-mfloat-abi=hard", OWN_LOOPS)),
    # a machine of QEMU with this processor and memory from address 0, and nothing else
    "cortex-r5f": Board("cortex-r5f", _ARM,
                        ("qemu-system-arm", "-M", "none", "-cpu", "cortex-r5f", "-m", "16M"),
                        ("-mcpu=cortex-r5", "-mthumb", "-mfloat-abi=hard", "-mfpu=vfpv3-d16"),
                        0, 4 * _MIB, 4 * _MIB, 4 * _MIB),
    "rv32imac": replace(BOARDS["riscv32"], target="rv32imac",
                        flags=("-march=rv32imac", "-mabi=ilp32", "-msave-restore")),
    "rv32imafc": replace(BOARDS["riscv32"], target="rv32imafc",
                         flags=("-march=rv32imafc", "-mabi=ilp32f", "-msave-restore")),
}  # fmt: skip

STACK_BYTES = 1 << 14
# 2 ** COUNT_SHIFT nanoseconds of the board's clock pass with every instruction.
COUNT_SHIFT = 6

_COUNT_RISCV = """\
static uint32_t count_now(void) {
  unsigned long v;
  __asm volatile(".option push\\n.option arch, +zicsr\\ncsrr %0, minstret\\n.option pop"
                 : "=r"(v) : : "memory");
  return (uint32_t)v;
}
static uint32_t count_between(uint32_t from, uint32_t to) { return to - from; }
"""

# The cycle counter of the performance monitor: QEMU's is a clock of 1 GHz.
_COUNT_CYCLES = """\
static uint32_t count_now(void) {
  uint32_t v;
  __asm volatile("mcr p15, 0, %1, c9, c12, 0\\n mcr p15, 0, %2, c9, c12, 1\\n"
                 "mrc p15, 0, %0, c9, c13, 0" : "=r"(v) : "r"(1), "r"(1u << 31) : "memory");
  return v;
}
static uint32_t count_between(uint32_t from, uint32_t to) { return to - from; }
"""

_COUNT_CLOCK = """\
static uint32_t count_now(void) { return *(volatile uint32_t *)%(counter)#xu; }
static uint32_t count_between(uint32_t from, uint32_t to) {
  const uint64_t ns = (uint64_t)(uint32_t)(to - from) * %(tick_ns)du;
  return (uint32_t)((ns + (1u << %(shift)d) / 2) >> %(shift)d);
}
"""


def count_text(board: Board) -> str:
    """Return C of ``count_now()`` and ``count_between(from, to)``, which count executed
    instructions if the image runs with ``counted``."""
    if not board.tick_ns:
        return _COUNT_RISCV if board.tool == _RISCV else _COUNT_CYCLES
    return _COUNT_CLOCK % {
        "counter": board.counter, "tick_ns": board.tick_ns, "shift": COUNT_SHIFT,
    }  # fmt: skip


# Stack depth of a call: the deepest changed byte, relative to the caller.
STACK_TEXT = """\
extern char __heap_end[];
static const volatile char *stack_base;
static __attribute__((noinline)) void paint_stack(void) {
  volatile char here = 0;
  stack_base = &here;
  for (volatile char *at = __heap_end; at < &here - 32; ++at) *at = (char)0xA5;
}
static uint32_t stack_used(void) {
  const volatile char *at = __heap_end;
  while (at < stack_base && *at == (char)0xA5) ++at;
  return (uint32_t)(stack_base - at);
}
"""


def build_library(
    archive: Path, board: Board, folder: Path, cflags: str | None = None, cc: str | None = None
) -> Path:
    """Unpack an archive into ``folder``, run its Makefile, and return the library's path. Skip the
    test without the compiler."""
    need(board.compiler)
    folder.mkdir(parents=True, exist_ok=True)
    unpack(archive, folder)
    command = ["make", "-s"] + ([f"CFLAGS={cflags}"] if cflags else [])
    if cc is not None:
        command.append(f"CC={cc}")
    elif board.tool == _ARM:
        command.append(f"CC={board.compiler} --specs=picolibc.specs")  # for math.h
    subprocess.run(command, cwd=folder, check=True)
    (library,) = folder.glob("lib*.a")
    return library


def link_image(
    board: Board,
    sources: Sequence[Path],
    libraries: Sequence[Path],
    image: Path,
    includes: Sequence[Path] = (),
    options: Sequence[str] = (),
    start: tuple[str, str] = ("semihost", "semihost"),
) -> Path:
    """Link an image of C sources and libraries with picolibc's start-up and memory map.

    ``start`` selects picolibc's start-up and its operating system.
    """
    layout = {"flash": board.flash, "flash_size": board.flash_size, "ram": board.ram,
              "ram_size": board.ram_size, "stack_size": STACK_BYTES}  # fmt: skip
    placed = [f"-Wl,--defsym=__{key}={value:#x}" for key, value in layout.items()]
    if board.slow_flash is not None:
        libraries = [_weights_apart(board, path) for path in libraries]
        placed.append(f"-Wl,--section-start=.weights={board.slow_flash:#x}")
    sources = objects_of(
        board,
        [*sources, *start_files(board, image.parent)],
        image.parent,
        [*options, *(f"-I{path}" for path in includes)],
    )
    subprocess.run(
        [board.compiler, "-Os", *board.linked, "-ffunction-sections", "-fdata-sections",
         "--specs=picolibc.specs", f"--crt0={start[0]}", f"--oslib={start[1]}",
         "-DPICOLIBC_INTEGER_PRINTF_SCANF", "-Wl,--gc-sections", *placed, *options,
         *(f"-I{path}" for path in includes), *map(str, sources), *map(str, libraries), "-lm",
         "-o", str(image)],
        check=True,
    )  # fmt: skip
    return image


def objects_of(
    board: Board, sources: Sequence[Path], folder: Path, options: Sequence[str]
) -> Sequence[Path]:
    """Return the objects to link for C sources."""
    if board.linked == board.flags:
        return sources
    objects = [folder / f"{path.stem}.o" for path in sources]
    for path, made in zip(sources, objects):
        command = [board.compiler, "-Os", *board.flags, "-ffunction-sections", "-fdata-sections"]
        command += ["--specs=picolibc.specs", "-DPICOLIBC_INTEGER_PRINTF_SCANF", *options]
        subprocess.run([*command, "-c", str(path), "-o", str(made)], check=True)
    return objects


def start_files(board: Board, folder: Path) -> list[Path]:
    """Return the C files in ``folder`` that an image of the board needs besides its program."""
    if not board.start:
        return []
    path = folder / "start.c"
    path.write_text(board.start)
    return [path]


def _weights_apart(board: Board, library: Path) -> Path:
    """Copy the library with its weights in a section that is not in the memory map."""
    copy = library.with_suffix(".apart.a")
    rename = "--rename-section=.rodata.tvm=.weights"
    subprocess.run([f"{board.tool}-objcopy", rename, str(library), str(copy)], check=True)
    return copy


def run_image(
    board: Board, image: Path, folder: Path, counted: bool = False, timeout: float = 600
) -> str:
    """Run an image in ``folder`` and return its output. Raise CalledProcessError on failure."""
    icount = f"shift={COUNT_SHIFT if board.tick_ns else 0}"
    command = [
        *board.emulator, "-display", "none", "-monitor", "none", "-serial", "none",
        *(("-icount", icount) if counted else ()),
        "-chardev", "stdio,id=host", "-semihosting-config", "enable=on,target=native,chardev=host",
        *(("-device", f"loader,file={image},cpu-num=0") if "none" in board.emulator
          else ("-kernel", str(image))),
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=folder, check=True, timeout=timeout, capture_output=True, text=True,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout


# Run a network with the C interface once between two files, and write the cost to a third.
_PROGRAM = """\
#include <stdint.h>
#include <stdio.h>
#include <tvmgen_%(name)s.h>

%(count)s
%(stack)s
%(buffers)s
static int fetch(FILE *from, void *to, size_t bytes) { return fread(to, 1, bytes, from) == bytes; }

int main(void) {
  struct tvmgen_%(name)s_inputs inputs = {%(inputs)s};
  struct tvmgen_%(name)s_outputs outputs = {%(outputs)s};
  uint32_t cost[2], before, after;
  FILE *in = fopen("inputs.bin", "rb"), *out = fopen("outputs.bin", "wb");
  FILE *costs = fopen("costs.bin", "wb");
  if (in == NULL || out == NULL || costs == NULL) return 1;
%(fetches)s
  paint_stack();
  before = count_now();
  const int32_t code = tvmgen_%(name)s_run(&inputs, &outputs);
  after = count_now();
  cost[1] = stack_used();
  cost[0] = count_between(before, after);
  if (code != 0) return 3;
%(stores)s
  if (fwrite(cost, sizeof(cost), 1, costs) != 1) return 4;
  return fclose(out) == 0 && fclose(costs) == 0 ? 0 : 5;
}
"""


def program_text(board: Board, library) -> str:
    """Return a C program that runs a network with the C interface once, for :func:`run_network`."""
    summary = library.summary
    buffers, fetches, stores = [], [], []
    for kind, tensors in (("in", summary.inputs), ("out", summary.outputs)):
        for i, tensor in enumerate(tensors):
            nbytes = max(tensor.nbytes, 1)
            buffers.append(f"static _Alignas(16) uint8_t {kind}{i}[{nbytes}];")
            if kind == "in":
                fetches.append(f"  if (!fetch(in, in{i}, {tensor.nbytes})) return 2;")
            else:
                stores.append(f"  if (fwrite(out{i}, 1, {tensor.nbytes}, out) != {tensor.nbytes})")
                stores.append("    return 4;")
    return _PROGRAM % {
        "name": library.module_name,
        "count": count_text(board),
        "stack": STACK_TEXT,
        "buffers": "\n".join(buffers),
        "inputs": ", ".join(f"in{i}" for i in range(len(summary.inputs))),
        "outputs": ", ".join(f"out{i}" for i in range(len(summary.outputs))),
        "fetches": "\n".join(fetches),
        "stores": "\n".join(stores),
    }


@dataclass(frozen=True)
class Outcome:
    """Results and cost of one inference: outputs by name, executed instructions (0 unless counted),
    stack bytes below the caller."""

    outputs: dict[str, np.ndarray]
    instructions: int
    stack_bytes: int


def build_network(
    board: Board, library, folder: Path, cflags: str | None = None, cc: str | None = None
) -> Path:
    """Build the image of :func:`program_text` with a compiled network; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    library.export(folder / "net.tar")
    archive = build_library(folder / "net.tar", board, folder / "net", cflags, cc)
    main = folder / "main.c"
    main.write_text(program_text(board, library))
    includes = [folder / "net" / "codegen/host/include", folder / "net" / "runtime/include"]
    return link_image(board, [main], [archive], folder / "image.elf", includes)


def run_network(
    board: Board,
    library,
    inputs: Mapping[str, np.ndarray],
    folder: Path,
    counted: bool = False,
    cflags: str | None = None,
    cc: str | None = None,
) -> Outcome:
    """Build a network compiled with ``interface_api="c"`` for a board and run it there once.

    ``cflags`` and ``cc`` replace the options and the compiler of the archive's Makefile; ``inputs``
    are by name.
    """
    image = build_network(board, library, folder, cflags, cc)
    write_inputs(library, inputs, folder)
    run_image(board, image, folder, counted)
    outcome = read_outcome(library, folder)
    return outcome if counted else replace(outcome, instructions=0)


def write_inputs(library, inputs: Mapping[str, np.ndarray], folder: Path) -> None:
    """Write the inputs of an image of :func:`build_network`."""
    arrays = [np.ascontiguousarray(inputs[t.name], t.dtype) for t in library.summary.inputs]
    (folder / "inputs.bin").write_bytes(b"".join(a.tobytes() for a in arrays))


def read_outcome(library, folder: Path) -> Outcome:
    """Read the image's outputs; instructions are valid only after a ``counted`` run."""
    data, outputs, at = (folder / "outputs.bin").read_bytes(), {}, 0
    for t in library.summary.outputs:
        flat = np.frombuffer(data[at : at + t.nbytes], t.dtype)
        outputs[t.name] = flat.reshape(t.shape)
        at += t.nbytes
    instructions, stack = np.fromfile(folder / "costs.bin", np.uint32)
    return Outcome(outputs, int(instructions), int(stack))

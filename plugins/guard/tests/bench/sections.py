"""Flips of bits in all constants of a guarded network's C, counted by kind.

The flips cover the sections ``.rodata`` and ``.data`` and their kinds in the network's objects,
with what the compiler adds to them. The objects are compiled for this machine, or for a board
that QEMU emulates.
"""

from __future__ import annotations

import re
import shlex
import struct
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tvmrt
from tvmrt.libinfo import find_include_path

HERE = Path(__file__).parent
NAME = "guarded"
RESULTS = {"d": "detected", "n": "no effect", "w": "wrong answers", "c": "crashes"}
KINDS = (
    "weights", "layers", "tables of kernels", "the guard's own", "metadata", "made by the compiler",
)  # fmt: skip
_SECTION = re.compile(
    r"^ (\.s?(?:ro)?data\S*)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+\S*?(\w+)\.o$", re.MULTILINE
)


@dataclass(frozen=True)
class Machine:
    """A machine that runs the flips: its compiler, and the command before the program's name."""

    compiler: str
    options: tuple[str, ...]
    link: tuple[str, ...] = ("-no-pie",)
    emulator: tuple[str, ...] = ()
    target: str = "cortex-m4"

    def tool(self, name: str) -> str:
        return self.compiler.removesuffix("gcc") + name if self.emulator else name


HOST = Machine("gcc", ("-O1", "-fno-pie"))
_BOARD = ("-Os", "-DBOARD", "--specs=picolibc.specs")


def _link(flash: int, ram: int) -> tuple[str, ...]:
    sizes = {"flash": flash, "flash_size": 4 << 20, "ram": ram, "ram_size": 4 << 20,
             "stack_size": 1 << 14}  # fmt: skip
    symbols = (f"-Wl,--defsym=__{name}={value:#x}" for name, value in sizes.items())
    return ("--crt0=semihost", "--oslib=semihost", *symbols)


def _emulator(*command: str) -> tuple[str, ...]:
    return (
        *command, "-display", "none", "-monitor", "none", "-serial", "none", "-chardev",
        "stdio,id=host", "-semihosting-config", "enable=on,target=native,chardev=host", "-kernel",
    )  # fmt: skip


CORTEX_M4 = Machine(
    "arm-none-eabi-gcc",
    (*_BOARD, "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"),
    _link(0, 0x20000000),
    _emulator("qemu-system-arm", "-M", "mps2-an386"),
)
RISCV32 = Machine(
    "riscv64-unknown-elf-gcc",
    (*_BOARD, "-march=rv32imc", "-mabi=ilp32", "-fno-jump-tables"),
    _link(0x80000000, 0x80400000),
    _emulator("qemu-system-riscv32", "-M", "virt", "-bios", "none"),
    "riscv32",
)


@dataclass(frozen=True)
class Constant:
    """Part of a section: the kind of its contents, its symbol or "", its address and size."""

    kind: str
    symbol: str
    address: int
    size: int


@dataclass(frozen=True)
class Build:
    """A program that flips bits of a network, with the constants of the network."""

    program: Path
    machine: Machine
    constants: Sequence[Constant]


def build(network: Any, folder: Path, guard: str, machine: Machine = HOST, **options: Any) -> Build:
    """Compile a network and the program; ``options`` are those of :func:`tvmrt.compile`."""
    options = {"target": machine.target, "interface_api": "c", "module_name": NAME, **options}
    library = tvmrt.compile(network, guard=guard, **options)
    library.export_sources(folder)
    (folder / "sections.h").write_text(_header(library, guard))
    includes = [f"-I{path}" for path in (folder, *find_include_path())]
    objects = []
    for source in [HERE / "sections.c", *sorted(folder.glob("tvmgen_*.c"))]:
        objects.append(folder / f"{source.stem}.o")
        # strings in sections of the object, as the linker merges them
        flags = [*machine.options, "-w", "-fno-merge-constants", *includes]
        _run([machine.compiler, *flags, "-c", str(source), "-o", str(objects[-1])])
    program, link_map = folder / "sections", folder / "sections.map"
    link = [*machine.options, *machine.link, f"-Wl,-Map={link_map}", "-lm"]
    _run([machine.compiler, *map(str, objects), *link, "-o", str(program)])
    symbols = _run([machine.tool("nm"), "-S", str(program)])
    return Build(program, machine, [*_constants(link_map.read_text(), symbols)])


def draw(built: Build, most: int, seed: int = 1) -> list[tuple[Constant, int, int]]:
    """Return flips as (constant, address, bit): all, or of each kind ``most`` random ones."""
    flips = []
    for kind in KINDS:
        constants = [c for c in built.constants if c.kind == kind]
        places = [(c, c.address + i // 8, i % 8) for c in constants for i in range(8 * c.size)]
        if len(places) > most:
            chosen = np.random.default_rng(seed).choice(len(places), most, replace=False)
            places = [places[i] for i in sorted(chosen)]
        flips += places
    return flips


def run(built: Build, flips: Sequence[tuple[Constant, int, int]]) -> str:
    """Return the result of each flip, a letter of ``RESULTS``."""
    folder, results = built.program.parent, ""
    data = b"".join(struct.pack("<QQ", address, bit) for _, address, bit in flips)
    while len(results) < len(flips):
        (folder / "flips.bin").write_bytes(struct.pack("<Q", len(results)) + data)
        command = [*built.machine.emulator, str(built.program)]
        letters, ended = _letters(command, folder, 60 + (len(flips) - len(results)) / 5)
        results += letters
        if not ended and not letters.endswith("w"):
            results += "c"
    return results


def _letters(command: Sequence[str], folder: Path, timeout: float) -> tuple[str, bool]:
    """Return the letters that a program printed, and whether it ended as expected."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, check=False, timeout=timeout,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as failure:
        output, code = failure.stdout or b"", -1
    text = output.decode("ascii", "replace")
    if code in (2, 3, 4, 5, 6):
        raise ValueError(f"{shlex.join(command)} failed with exit status {code}: {text[-200:]}")
    letters = re.match(r"[dnwc]*", text)
    assert letters is not None  # the pattern matches empty text
    return letters[0], code == 0


def table(flips: Sequence[tuple[Constant, int, int]], results: str) -> dict[str, Counter[str]]:
    """Return the counts of the results by kind."""
    counts = {kind: Counter() for kind in KINDS}
    for (constant, _, _), letter in zip(flips, results):
        counts[constant.kind][RESULTS[letter]] += 1
    return {kind: count for kind, count in counts.items() if count}


def table_text(counts: Mapping[str, Mapping[str, int]]) -> str:
    """Return the counts as the rows of a Markdown table."""
    names = RESULTS.values()
    rows = [["constants", "flips", *names], ["---"] * (len(names) + 2)]
    for kind, count in counts.items():
        numbers = [sum(count.values()), *(count.get(name, 0) for name in names)]
        rows.append([kind, *(f"{number:,}" for number in numbers)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"{shlex.join(command)} failed: {done.stderr[-2000:]}")
    return done.stdout


def _constants(link_map: str, symbols: str) -> Iterator[Constant]:
    """Yield the parts of the network's sections, in the order of their addresses."""
    rows = [line.split() for line in symbols.splitlines()]
    named = sorted((int(r[0], 16), int(r[1], 16), r[3]) for r in rows if len(r) == 4)
    kept = link_map.split("\nLinker script and memory map\n")[1]
    joined = re.sub(r"^( \.\S+)\n\s+", r"\1 ", kept, flags=re.MULTILINE)
    for _, begin, size, stem in _SECTION.findall(joined):
        if not stem.startswith("tvmgen_"):
            continue
        at, end = int(begin, 16), int(begin, 16) + int(size, 16)
        for address, count, name in named:
            if at <= address < end and count:
                if at < address:
                    yield Constant(_kind(stem, ""), "", at, address - at)
                yield Constant(_kind(stem, name), name, address, count)
                at = address + count
        if at < end:
            yield Constant(_kind(stem, ""), "", at, end - at)


def _kind(stem: str, symbol: str) -> str:
    if stem.endswith("_metadata") or "_is_linked_twice_" in symbol:
        return "metadata"
    if stem.endswith("_guard"):
        return "the guard's own"
    if not symbol or re.search(r"^CSWTCH|^C\.\d|\.LC", symbol):
        return "made by the compiler"
    if f"tvmgen_{NAME}_w_" in symbol:
        return "weights"
    return "tables of kernels" if symbol.startswith("tvmrt_") else "layers"


def _header(library: Any, guard: str) -> str:
    """Return the parts of the program that depend on the network."""
    inputs, outputs = library.program.input_types, library.program.output_types
    offsets = [sum(16 * -(-t.nbytes // 16) for t in outputs[:i]) for i in range(len(outputs))]
    size = offsets[-1] + outputs[-1].nbytes
    names, fill = [f"input{i}" for i in range(len(inputs))], []
    for i, kind in enumerate(inputs):
        count, dtype = kind.nbytes // kind.dtype.itemsize, str(kind.dtype)
        value = {"float32": f"(float)((i * 37 + {i}) % 101 - 50) / 25"}.get(dtype, "i * 37 % 101")
        # an integer of several bytes may be an index
        value = value if dtype == "float32" or kind.dtype.itemsize == 1 else "0"
        fill.append(
            f"  for (int i = 0; i < {count}; ++i) (({kind.dtype.c} *)input{i})[i] = "
            f"({kind.dtype.c})({value});"
        )
    prefix = f"tvmgen_{NAME}"
    has_idle = guard == "idle" and f"{prefix}_guard_idle" in library.sources.files[f"{prefix}.h"]
    idle = f"return {prefix}_guard_idle({prefix.upper()}_GUARD_BYTES + 32 * 1000);"
    return "\n".join([
        f'#include "{prefix}.h"',
        f"enum {{ OUTPUT_BYTES = {size} }};",
        "static _Alignas(16) unsigned char outputs[OUTPUT_BYTES];",
        *(f"static _Alignas(16) unsigned char {n}[{t.nbytes}];" for n, t in zip(names, inputs)),
        "static void fill_inputs(void) {", *fill, "}",
        "static int32_t run(void) {",
        f"  struct {prefix}_inputs from = {{{', '.join(names)}}};",
        f"  struct {prefix}_outputs to = {{{', '.join(f'outputs + {at}' for at in offsets)}}};",
        f"  return {prefix}_run(&from, &to);",
        "}",
        f"static int32_t idle(void) {{ {idle if has_idle else 'return 0;'} }}",
        *([f"extern uint32_t {prefix}_guard_next;"] if has_idle else []),
        f"static void reset_idle(void) {{ {f'{prefix}_guard_next = 0;' if has_idle else ''} }}",
        "",
    ])  # fmt: skip

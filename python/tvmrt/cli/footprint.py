"""Measure the costs of a firmware network on its target with the target's C compiler.

The C files are compiled, never run. Weights are left out, because their size is known.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tvmrt import toolchains
from tvmrt.cli.call_graph import CallGraph, Depth, frame_names
from tvmrt.cli.elf import TYPE_SYMBOLS, ElfFile, part_of
from tvmrt.compiler.codegen.target import VIRTUAL, Target
from tvmrt.compiler.export.firmware_build import CFLAGS, tools_of
from tvmrt.error import CompileError

_RUN_FILE = re.compile(r"_lib\d+$|^tvmgen_image_operators$")
SECONDS = 300  # time limit for one file
PICOLIBC = "--specs=picolibc.specs"


@dataclass(frozen=True)
class FunctionCost:
    """A C function: its code size, stack frame, and total stack including callees."""

    name: str
    code_bytes: int
    frame_bytes: int
    stack: Depth


@dataclass
class Footprint:
    """Sizes in bytes with the compiler named in ``compiler``.

    ``run_constant_bytes`` is the part of ``constant_bytes`` in the files of operators and of their
    callers. ``outside`` are called functions of the C library and of the runtime, whose stack the
    bounds do not include. ``left_out`` maps C files that do not compile here, such as for lack of
    a vendor's headers, to the reason.
    """

    compiler: str
    code_bytes: int = 0
    constant_bytes: int = 0
    run_constant_bytes: int = 0
    data_bytes: int = 0
    bss_bytes: int = 0
    functions: dict[str, FunctionCost] = field(default_factory=dict)
    outside: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    graph: CallGraph = field(default_factory=CallGraph)

    def code_of(self, *entries: str) -> int:
        """Return the bytes of code that these functions use, including callees."""
        reached = {name for entry in entries for name in self.graph.reachable_functions(entry)}
        return sum(self.functions[name].code_bytes for name in reached)


def measure(
    sources: Sequence[Path], includes: Sequence[Path], target: Target, cc: str | None = None
) -> Footprint:
    """Compile C files for the target and add up their sizes.

    Raises CompileError if the compiler is not installed, is not compatible with GCC, or compiles
    none of the files.
    """
    command = find_compiler(target, cc)
    dumper = _call([*command, "-print-prog-name=objdump"], None).strip() or "objdump"
    flags = ["-std=c99", *target.flags, *CFLAGS, "-fstack-usage", "-fcallgraph-info=su"]
    flags += [f"-I{path.resolve()}" for path in includes]
    result = Footprint(" ".join(command))
    graph = result.graph
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:

        def build(source: Path) -> tuple[Path, str] | None:
            out = Path(folder, f"{source.stem}.o")
            try:
                _call([*command, *flags, "-c", str(source.resolve()), "-o", str(out)], folder)
            except CompileError as problem:
                text = str(problem).replace(f"{source.resolve().parent}{os.sep}", "")
                result.left_out[source.name] = text.replace(f"{folder}{os.sep}", "")
                return None
            return out, _call([dumper, "-r", str(out)], folder)

        with ThreadPoolExecutor(max_workers=os.cpu_count() or 1) as pool:
            built = [row for row in pool.map(build, sources) if row is not None]
        if result.left_out and not built:
            raise CompileError(next(iter(result.left_out.values())))
        sizes: dict[str, int] = {}
        for out, relocations in built:
            before = result.constant_bytes
            elf = ElfFile(out)
            _add_sections(result, elf, sizes)
            if _RUN_FILE.search(out.stem):
                result.run_constant_bytes += result.constant_bytes - before
            info = out.with_suffix(".ci").read_text(errors="replace")
            graph.add(out.stem, info, relocations, _merged_functions(elf, info))
    for name in graph.names():
        frame = max(f.nbytes for f in graph.frames.values() if f.name == name)
        cost = FunctionCost(name, sizes.get(name, 0), frame, graph.depth(name))
        result.functions[name] = cost
    result.outside = sorted(graph.outside)
    return result


def find_compiler(target: Target, cc: str | None = None) -> list[str]:
    """Return the command of the target's C compiler, with options for a usable C library."""
    if target.name in VIRTUAL:
        raise CompileError(f"code for {target.name} has no sizes before it is linked")
    command = toolchains.words_of(cc or tools_of(target)[0], "--cc")
    if shutil.which(command[0]) is None:
        raise CompileError(
            f"C compiler {command[0]} for {target.name} is not installed; install it, or give "
            "another one with --cc"
        )
    for more in ([], [PICOLIBC]):
        probe = [*command, *more, *target.flags, "-fcallgraph-info=su", "-x", "c", "-", "-o",
                 os.devnull, "-S"]  # fmt: skip
        # in a temporary folder, because the compiler writes the call graph there, as -.ci
        with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            done = subprocess.run(
                probe, input="#include <math.h>\n", capture_output=True, text=True, check=False,
                cwd=folder,
            )  # fmt: skip
        if done.returncode == 0:
            return [*command, *more]
    words = done.stderr.strip().splitlines() or ["no message"]
    raise CompileError(f"C compiler {command[0]} cannot report stack sizes: {words[0].strip()}")


def _add_sections(found: Footprint, elf: ElfFile, sizes: dict[str, int]) -> None:
    parts = [part_of(section) for section in elf.sections]
    for section, part in zip(elf.sections, parts):
        if part == "code":
            found.code_bytes += section["sh_size"]
        elif part == "constants":
            found.constant_bytes += section["sh_size"]
        elif part and section["sh_type"] == "SHT_NOBITS":
            found.bss_bytes += section["sh_size"]
        elif part:
            found.data_bytes += section["sh_size"]
    for symbol in elf.symbols(TYPE_SYMBOLS):
        section_index = symbol.section
        if (
            symbol.size
            and isinstance(section_index, int)
            and section_index < len(parts)
            and parts[section_index] == "code"
        ):
            sizes[symbol.name] = sizes.get(symbol.name, 0) + symbol.size


def _merged_functions(elf: ElfFile, info: str) -> dict[str, str]:
    """Return each function without a frame in the .ci file ``info`` that has the address of a
    function with one, by name."""
    framed = frame_names(info)
    groups: dict[tuple[int | str, int], list[str]] = {}
    for symbol in elf.symbols(TYPE_SYMBOLS):
        if symbol.size:
            groups.setdefault((symbol.section, symbol.address), []).append(symbol.name)
    found: dict[str, str] = {}
    for names in groups.values():
        owner = next((name for name in names if name in framed), None)
        if owner is not None:
            found.update(dict.fromkeys((name for name in names if name not in framed), owner))
    return found


def _call(command: Sequence[str], folder: str | None) -> str:
    # ccache stores the object of a file but not its call graph
    environment = {**os.environ, "CCACHE_DISABLE": "1"}
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False,
            timeout=SECONDS, env=environment,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise CompileError(f"{command[0]} cannot be run: {problem}") from problem
    if done.returncode != 0:
        words = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
        raise CompileError(f"{command[0]} failed: {words[0].strip()}")
    return done.stdout

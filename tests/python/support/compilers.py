"""Firmware built with many compilers, optimisation levels, options and processors.

A build is one image of C files from archives and a program, without their Makefiles; all compilers
use the C library and the linker of the board's GCC. ``zig`` is the clang of the ziglang wheel,
which is newer than the system's.
"""

from __future__ import annotations

import importlib.util
import itertools
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from boards import BOARDS, MORE_BOARDS, OWN_LOOPS, STACK_BYTES, Board, run_image, start_files

COMPILERS = ("gcc", "clang", "zig")
LEVELS = ("-O0", "-Og", "-O1", "-Os", "-Oz", "-O2", "-O3")
# Options of all files, and each compiler's additional ones.
WAYS = {
    "plain": (),
    "frames": ("-fno-omit-frame-pointer",),
    "protected": ("-fstack-protector-strong",),
    "trapping": ("-fsanitize=undefined",),
    "lto": ("-flto",),
}
TRAPS = {"gcc": "-fsanitize-undefined-trap-on-error"}
TARGETS = {**BOARDS, **MORE_BOARDS}
_TRIPLES = {"arm-none-eabi": "arm-none-eabi", "riscv64-unknown-elf": "riscv32-unknown-elf"}


@dataclass(frozen=True)
class Build:
    """A way to build for a board, selected by its target."""

    compiler: str
    level: str
    way: str
    target: str

    def __str__(self) -> str:
        return f"{self.compiler}{self.level}-{self.way}-{self.target}"

    @property
    def board(self) -> Board:
        return TARGETS[self.target]

    def missing_tool(self) -> str | None:
        """Return the first command that this machine lacks, or None."""
        if self.compiler == "clang" and shutil.which("clang") is None:
            return "clang"
        if self.compiler == "zig" and importlib.util.find_spec("ziglang") is None:
            return "the ziglang package"
        return self.board.missing_tool()

    def command(self) -> list[str]:
        """Return the compiler command, with the C library's headers."""
        compiler = self.board.compiler
        if self.compiler == "gcc":
            return [compiler, "--specs=picolibc.specs"]
        triple = f"--target={_TRIPLES[self.board.tool]}"
        command = ["clang"] if self.compiler == "clang" else newer_clang()
        return [*command, triple, f"-isystem{libc_headers(compiler)}"]

    def flags(self) -> list[str]:
        """Return the compiler command without the files."""
        more = list(WAYS[self.way])
        if self.way == "trapping":
            more.append(TRAPS.get(self.compiler, "-fsanitize-trap=all"))
        own = [flag for flag in self.board.flags if flag != OWN_LOOPS]
        return [*self.command(), *own, self.level, *more]


def every_build() -> Iterator[Build]:
    """Return all builds except LTO by clang, because the linker is GCC's."""
    for compiler, level, way, target in itertools.product(COMPILERS, LEVELS, WAYS, TARGETS):
        if compiler == "gcc" or way != "lto":
            yield Build(compiler, level, way, target)


def sampled_builds(count: int) -> list[Build]:
    """Return some builds, ordered so that consecutive ones differ in every axis."""
    builds = []
    ways, targets = list(WAYS), list(TARGETS)
    for i in itertools.count():
        turn = i + i // len(targets)  # otherwise a target would always get one of three compilers
        build = Build(COMPILERS[turn % 3], LEVELS[i % len(LEVELS)], ways[i // 2 % len(ways)],
                      targets[i % len(targets)])  # fmt: skip
        if build.compiler == "gcc" or build.way != "lto":
            builds.append(build)
        if len(builds) == count:
            return builds


@cache
def newer_clang() -> list[str]:
    """Return the ziglang wheel's clang as a plain driver, and its headers, which it finds only as
    zig."""
    spec = importlib.util.find_spec("ziglang")
    (folder,) = spec.submodule_search_locations if spec else [""]
    headers = f"-idirafter{Path(folder, 'lib', 'include')}"
    return [sys.executable, "-m", "ziglang", "clang", headers]


@cache
def libc_headers(gcc: str) -> str:
    """Return the folder of the picolibc headers that a board's GCC uses."""
    command = [gcc, "--specs=picolibc.specs", "-E", "-v", "-x", "c", "/dev/null"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = [line.strip() for line in printed.splitlines() if line.startswith(" /")]
    return next(line for line in found if "picolibc" in line and line.endswith("include"))


def sources_of(archive: Path) -> list[Path]:
    """Return the C files of an unpacked archive."""
    folders = ("codegen/host/src", "runtime/src_backend", "runtime/src_runtime/firmware/*")
    return sorted(path for folder in folders for path in archive.glob(f"{folder}/*.c"))


def includes_of(archives: Sequence[Path]) -> list[str]:
    """Return the include options of an unpacked archive."""
    parts = ("codegen/host/include", "runtime/include")
    return [f"-I{archive / part}" for archive in archives for part in parts]


def build_image(
    build: Build,
    program: Path,
    archives: Sequence[Path],
    folder: Path,
    dialect: Sequence[str] = ("-std=c99",),
) -> Path:
    """Compile and link a C program and its networks. ``dialect``: options of the latter.

    ``dialect``: additional options of the networks' files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    includes = includes_of(archives)
    files = [path for archive in archives for path in sources_of(archive)]
    objects = []
    for path in files:
        objects.append(folder / f"{path.stem}.o")
        options = [*dialect, "-ffunction-sections", "-fdata-sections"]
        _run([*build.flags(), *options, *includes, "-c", str(path), "-o", str(objects[-1])])
    return link(build, program, objects, includes, folder)


def link(
    build: Build, program: Path, objects: Sequence[Path], includes: Sequence[str], folder: Path
) -> Path:
    """Link objects and a program with the board's GCC; return the image."""
    board, image = build.board, folder / "image.elf"
    layout = {"flash": board.flash, "flash_size": board.flash_size, "ram": board.ram,
              "ram_size": board.ram_size, "stack_size": STACK_BYTES}  # fmt: skip
    more = ["-flto", build.level] if build.way == "lto" else ["-Os"]
    sources = [program, *start_files(board, folder)]
    _run([
        board.compiler, *board.linked, "--specs=picolibc.specs", "--crt0=semihost",
        "--oslib=semihost", *more, *includes, *map(str, [*sources, *objects]), "-Wl,--gc-sections",
        *(f"-Wl,--defsym=__{key}={value:#x}" for key, value in layout.items()),
        "-lm", "-o", str(image),
    ])  # fmt: skip
    return image


def run_built(build: Build, image: Path, folder: Path) -> None:
    """Run an image in its folder."""
    run_image(build.board, image, folder)


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"

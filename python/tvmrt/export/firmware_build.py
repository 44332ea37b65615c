"""What an archive of a firmware network needs to build by itself: headers and a Makefile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tvmrt.codegen.target import Target
from tvmrt.libinfo import find_firmware_path, find_include_path

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)

# The compiler's command and the archiver's.
TOOLS = {
    "cortex": ("arm-none-eabi-gcc", "arm-none-eabi-ar"),
    "riscv32": ("riscv64-unknown-elf-gcc", "riscv64-unknown-elf-ar"),
}

# How the archive's Makefile compiles, unless it is told otherwise.
CFLAGS = ("-Os", "-ffunction-sections", "-fdata-sections")


def runtime_headers(texts: Iterable[str]) -> dict[str, str]:
    """The package's headers that C texts include, and those that these include, by their path
    below the include folder."""
    root = Path(find_include_path()[0])
    found: dict[str, str] = {}
    waiting = [(name, Path()) for text in texts for name in _INCLUDE.findall(text)]
    while waiting:
        name, folder = waiting.pop()
        for path in (folder / name, Path(name)):
            if str(path) in found:
                break
            if (root / path).is_file():
                found[str(path)] = text = (root / path).read_text()
                waiting += [(inner, path.parent) for inner in _INCLUDE.findall(text)]
                break
    return found


def runtime_sources() -> dict[str, str]:
    """The C files of the firmware libraries and their private headers, by their path."""
    root = Path(find_firmware_path())
    rooms = (root / "src_backend", root / "src_runtime" / "firmware")
    paths = sorted(path for room in rooms for path in room.glob("*.[ch]"))
    return {path.relative_to(root).as_posix(): path.read_text() for path in paths}


def tools_of(target: str) -> tuple[str, str]:
    """The commands of the C compiler and archiver that are usual for a target."""
    for start, commands in TOOLS.items():
        if target.startswith(start):
            return commands
    return "cc", "ar"


def makefile(name: str, target: Target, file_flags: Mapping[str, Sequence[str]]) -> str:
    """Makes ``lib<name>.a`` of the archive's sources, for the target that it was compiled for.

    ``file_flags`` are further options of single C files, by their names.
    """
    compiler, archiver = tools_of(target.name)
    flags = " ".join(target.flags)
    more = "".join(
        f"codegen/host/src/{Path(file).stem}.o: TARGET_FLAGS += {' '.join(options)}\n"
        for file, options in sorted(file_flags.items())
        if options
    )
    return f"""\
# Makes lib{name}.a of the network. Another compiler or other options: make CC=... CFLAGS=...
# A program that links it includes codegen/host/include/ and runtime/include/.
ifeq ($(origin CC),default)
CC = {compiler}
endif
# A compiler that brings no C library has the headers of picolibc where that is installed.
ifneq ($(shell $(CC) -include math.h -E -x c /dev/null >/dev/null 2>&1 || echo none),)
override CC += --specs=picolibc.specs
endif
ifeq ($(origin AR),default)
AR = {archiver}
endif
CFLAGS ?= {" ".join(CFLAGS)}
TARGET_FLAGS ?= {flags}

runtime := runtime/src_backend runtime/src_runtime/firmware
sources := $(wildcard codegen/host/src/*.c $(runtime:=/*.c))
objects := $(sources:.c=.o)
compiled := $(wildcard codegen/host/lib/*.o)
headers := $(wildcard codegen/host/include/*.h)

lib{name}.a: $(objects) $(compiled)
\trm -f $@
\t$(AR) rcs $@ $^

%.o: %.c $(headers)
\t$(CC) -std=c99 $(TARGET_FLAGS) $(CFLAGS) -Icodegen/host/include -Iruntime/include -c $< -o $@

{more}clean:
\trm -f lib{name}.a $(objects)

.PHONY: clean
"""

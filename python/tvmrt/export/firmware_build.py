"""What an archive of a firmware network needs to build by itself: headers and a Makefile."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tvmrt.codegen.target import Target
from tvmrt.libinfo import find_firmware_path, find_include_path

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)

_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_WORD = re.compile(r"\w+")
_DEFINITION = re.compile(r"^(?!static\b|typedef\b)\w[\w *]*?\b(\w+)\([^;{}]*\)\s*{", re.MULTILINE)

# Through which functions a program runs a network of an executor that it does not call by itself.
EXECUTORS = {
    "aot": ("TVMAotExecutor_Create", "TVMAotExecutorModule_Register"),
    "graph": ("TVMGraphExecutor_Create", "TVMGraphExecutorModule_Register"),
}

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
        for path in (Path(os.path.normpath(folder / name)), Path(name)):
            if str(path) in found:
                break
            if (root / path).is_file():
                found[str(path)] = text = (root / path).read_text()
                waiting += [(inner, path.parent) for inner in _INCLUDE.findall(text)]
                break
    return found


def runtime_sources(executors: Iterable[str], texts: Iterable[str]) -> dict[str, str]:
    """The C files of the firmware libraries that a network can call, by their path.

    That is what its C ``texts`` call, what its executors offer to programs, see ``EXECUTORS``, and
    what these call in turn, with the private headers of all of them.
    """
    root = Path(find_firmware_path())
    rooms = (root / "src_backend", root / "src_runtime" / "firmware")
    files = {path: path.read_text() for room in rooms for path in sorted(room.glob("*.[ch]"))}
    code = {path: _COMMENT.sub("", text) for path, text in files.items()}
    home = {
        name: path for path, text in code.items() if path.suffix == ".c" for name in _defined(text)
    }
    found: dict[Path, str] = {}
    waiting = [home[name] for executor in executors for name in EXECUTORS[executor]]
    waiting += [home[word] for text in texts for word in _words(text) if word in home]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        found[path] = files[path]
        if path.suffix == ".c":
            waiting += [home[word] for word in _words(code[path]) if word in home]
        inner = ((path.parent / name).resolve() for name in _INCLUDE.findall(files[path]))
        waiting += [header for header in inner if header in files]
    return {path.relative_to(root).as_posix(): text for path, text in sorted(found.items())}


def _defined(text: str) -> set[str]:
    """What other files can call of a C file."""
    return {match[1] for match in _DEFINITION.finditer(text)}


def _words(text: str) -> set[str]:
    return set(_WORD.findall(_COMMENT.sub("", text)))


def tools_of(target: str) -> tuple[str, str]:
    """The commands of the C compiler and archiver that are usual for a target."""
    for start, commands in TOOLS.items():
        if target.startswith(start):
            return commands
    return "cc", "ar"


def makefile(
    name: str, target: Target, file_flags: Mapping[str, Sequence[str]], content: str
) -> str:
    """Makes ``lib<name>.a`` of the archive's sources, for the target that it was compiled for.

    ``file_flags`` are further options of single C files, by their names. ``content`` differs
    where the sources do: the files of all archives have one date, by which make could not tell
    that an archive was unpacked over an older one.
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
# Made anew where these files took the place of others, whose date is the same.
content := content-{content}.stamp

lib{name}.a: $(objects) $(compiled)
\trm -f $@
\t$(AR) rcs $@ $^

$(content):
\trm -f content-*.stamp
\ttouch $@

%.o: %.c $(headers) $(content)
\t$(CC) -std=c99 $(TARGET_FLAGS) $(CFLAGS) -Icodegen/host/include -Iruntime/include -c $< -o $@

{more}clean:
\trm -f lib{name}.a $(objects) $(content)

.PHONY: clean
"""

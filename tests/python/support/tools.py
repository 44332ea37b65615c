"""Optional external tools: a test that starts a missing one is skipped and names it.

``watch()`` checks each process that a test file starts. A command of ``OPTIONAL`` that is not found
on ``PATH`` skips the test, so tests need no checks. Processes started by tvmrt are not checked:
tvmrt must report missing tools. Other missing commands fail as usual, which finds misspelled names.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[2]
# Tests require Python, the C compiler cc with as, ld and ar, make, git and a shell.
_BINUTILS = r"addr2line|c\+\+filt|gprof|nm|objcopy|objdump|ranlib|readelf|size|strings|strip"
OPTIONAL = re.compile(
    rf"""
    (gcc|g\+\+|c\+\+|clang|clang\+\+|cpp|{_BINUTILS})(-\d+)? # compilers and what reads their files
    | [\w.-]+-(gcc|g\+\+|clang|ar|as|ld|{_BINUTILS})(-posix)? # cross compilers
    | (qemu|llvm)-[\w-]+ | wine(64|server|boot)? | valgrind | gdb # emulators and debuggers
    | abidiff | abidw | clang-tidy | cppcheck | codespell | doxygen | dot | patchelf
    | bash | cmake | ctest | ninja | meson | pio | node | localedef | ldd | tar | unzip | xz
    | mount | umount
    | awk | bc | file | perl | strace | taskset | timeout | unshare | chromium | google-chrome
    """,
    re.VERBOSE,
)


def need(*commands: str) -> None:
    """Skip the test if a command that a C program of the tests starts is missing."""
    for name in commands:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not installed")


def lacking(command: object, environment: Mapping[str, str] | None = None) -> str | None:
    """Return the optional tool that a command starts, if it is not on PATH; otherwise None.

    ``command`` is the first argument of ``subprocess.Popen``: a line or a list.
    """
    if isinstance(command, (str, bytes, os.PathLike)):
        first = os.fsdecode(command).partition(" ")[0]
    elif isinstance(command, Sequence) and command:
        first = os.fsdecode(command[0])
    else:
        return None
    if not OPTIONAL.fullmatch(first):  # a path never matches
        return None
    path = None if environment is None else environment.get("PATH", os.defpath)
    return first if shutil.which(first, path=path) is None else None


def watch() -> None:
    """Skip each test whose files start an optional tool that this machine lacks."""
    start = subprocess.Popen.__init__

    @functools.wraps(start)
    def checked(self, args, *positional, **named):
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename == subprocess.__file__:
            frame = frame.f_back
        if frame is not None and TESTS in Path(frame.f_code.co_filename).parents:
            tool = lacking(args, named.get("env"))
            if tool is not None:
                pytest.skip(f"{tool} is not installed")
        return start(self, args, *positional, **named)

    subprocess.Popen.__init__ = checked

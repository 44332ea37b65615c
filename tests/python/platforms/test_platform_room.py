"""What systems have of their own is in src_runtime/platform, what compilers have in compiler.h."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
# C11 without what only some compilers have, and the headers of libraries, which devices name.
STANDARD = set(
    "assert ctype errno float inttypes limits locale math setjmp signal stdalign stdarg stdatomic "
    "stdbool stddef stdint stdio stdlib string time".split()
)
# Devices are built outside of the tree too, each for the systems that have its library.
OF_A_SYSTEM = ("src_runtime/platform/", "src_runtime/devices/")
HEADER = re.compile(r"^\s*#\s*include\s*<(\w[\w/]*)\.h>", re.MULTILINE)
EXTENSION = re.compile(
    r"__attribute__|__typeof|\b__thread\b|(?<!\w)__builtin_|\b__asm__\b|_GNU_SOURCE"
)
COMMENT = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
# The names of C++ that a library asks for can only be given by an extension.
NAMES_OF_CXX = "src_runtime/modules/cxx_errors.c"


def _sources(*but: str) -> dict[str, str]:
    files = (f for top in ("src_backend", "src_runtime") for f in (ROOT / top).rglob("*.[ch]"))
    names = {f.relative_to(ROOT).as_posix(): f for f in files}
    return {
        name: file.read_text(encoding="utf-8")
        for name, file in sorted(names.items())
        if not name.startswith(but)
    }


def test_only_the_platform_room_includes_headers_of_a_system():
    wrong = [
        f"{name} includes <{header}.h>"
        for name, text in _sources(*OF_A_SYSTEM).items()
        for header in HEADER.findall(text)
        if header not in STANDARD and not header.startswith(("tvm/", "dlpack/"))
    ]
    assert not wrong


def test_only_compiler_headers_have_extensions_of_a_compiler():
    wrong = []
    for name, text in _sources(*OF_A_SYSTEM).items():
        if name.endswith("/compiler.h"):
            continue
        code = "\n".join(
            line
            for line in COMMENT.sub('""', text).splitlines()
            if not (name == NAMES_OF_CXX and "__asm__" in line)
        )
        wrong += [f"{name}: {found}" for found in EXTENSION.findall(code)]
    assert not wrong

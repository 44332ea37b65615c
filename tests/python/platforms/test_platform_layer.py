"""System-specific code is in src_runtime/platform, compiler-specific code in compiler.h."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Headers of strict C11, and of libraries that devices use.
STANDARD = set(
    "assert ctype errno float inttypes limits locale math setjmp signal stdalign stdarg stdatomic "
    "stdbool stddef stdint stdio stdlib string time".split()
)
# Devices can be built outside of the tree, each for the systems that have its library.
DEVICES = [
    build.parent / "src"
    for build in ROOT.glob("plugins/*/meson.build")
    if "plugin_is_device = true" in build.read_text(encoding="utf-8")
]
OF_A_SYSTEM = (
    "src_runtime/platform/",
    *(
        f"{folder.relative_to(ROOT).as_posix()}/"
        for folder in [*ROOT.glob("plugins/*/src/platform"), *DEVICES]
    ),
)
HEADER = re.compile(r"^\s*#\s*include\s*<(\w[\w/]*)\.h>", re.MULTILINE)
EXTENSION = re.compile(
    r"__attribute__|__typeof|\b__thread\b|(?<!\w)__builtin_|\b__asm__\b|_GNU_SOURCE"
)
COMMENT = re.compile(r"/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"", re.DOTALL)
# Mangled C++ names that a library requires need an extension.
NAMES_OF_CXX = "src_runtime/modules/cxx_errors.c"


def _sources(*but: str) -> dict[str, str]:
    tops = ("src_backend", "src_runtime", *ROOT.glob("plugins/*/src"))
    files = (f for top in tops for f in (ROOT / top).rglob("*.[ch]"))
    names = {f.relative_to(ROOT).as_posix(): f for f in files}
    return {
        name: file.read_text(encoding="utf-8")
        for name, file in sorted(names.items())
        if not name.startswith(but)
    }


def test_only_the_platform_layer_includes_system_headers():
    wrong = [
        f"{name} includes <{header}.h>"
        for name, text in _sources(*OF_A_SYSTEM).items()
        for header in HEADER.findall(text)
        if header not in STANDARD and not header.startswith(("tvm/", "dlpack/"))
    ]
    assert not wrong


def test_only_compiler_headers_use_compiler_extensions():
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


MINGW = Path("/usr/share/mingw-w64/include")
# MinGW's headers write these after a declaration, which only GCC-like compilers accept.
OVERLAY = """#include_next <_mingw.h>
#undef __MINGW_ATTRIB_NORETURN
#define __MINGW_ATTRIB_NORETURN
#undef __MINGW_ATTRIB_DEPRECATED
#define __MINGW_ATTRIB_DEPRECATED
"""


def _plugins_of_other_systems() -> list[str]:
    """Return the C folders of plug-ins that are not built for Windows."""
    return [
        f"{file.parent.relative_to(ROOT).as_posix()}/src/"
        for file in sorted(ROOT.glob("plugins/*/meson.build"))
        if re.search(r"^if windows\n    plugin_lacks", file.read_text("utf-8"), re.MULTILINE)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["c11", "msvc"])
def test_other_sources_compile_without_extensions(dialect, tmp_path):
    """Compile as strict C11 and in clang-cl mode, without GCC extensions."""
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    command = ["clang", "-std=c11", "-fsyntax-only", "-DTVM_EXPORTS"]
    command += ['-DTVMRT_SDK_VERSION="0"']
    if dialect == "msvc":
        if not MINGW.is_dir():
            pytest.skip("there are no headers of Windows: MinGW's are not installed")
        (tmp_path / "_mingw.h").write_text(OVERLAY)
        command += ["--target=x86_64-pc-windows-msvc", "-fms-extensions", "-fms-compatibility"]
        command += ["-isystem", str(tmp_path), "-isystem", str(MINGW)]
    else:
        command += ["-pedantic-errors", "-D_POSIX_C_SOURCE=200809L"]
    folders = (*OF_A_SYSTEM, *_plugins_of_other_systems())
    files = [name for name in _sources(*folders) if name.endswith(".c")]
    done = subprocess.run(
        [*command, "-Iinclude", "-Isrc_runtime", *files],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(files) > 100

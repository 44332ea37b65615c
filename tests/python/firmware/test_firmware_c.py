"""The C of firmware networks: no warnings of strict compilers, little stack, no recursion."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from boards import BOARDS, build_library

import tvmrt

sys.path.insert(0, str(Path(__file__).parents[2] / "bench" / "firmware"))
import own_networks

MAX_STACK = 576  # per function, inlined ones included; limits.json has the limits of networks
STRICT = ["-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wmissing-prototypes", "-Wvla"]
NETWORKS = ["vww_int8", "vww_f32", "ic_int8", "ad_f32"]
EDGE = re.compile(r'edge: \{ sourcename: "([^"]+)" targetname: "([^"]+)"')


def compiled(name: str, target: str):
    if name.endswith("int8"):
        pytest.importorskip("onnxruntime")
    return tvmrt.compile(
        own_networks.build(name), target=target, interface_api="c", unpacked_api=True,
        module_name="net",
    )  # fmt: skip


OTHER_TARGETS = [pytest.param(t, marks=pytest.mark.slow) for t in ("cortex-m55", "riscv32")]


@pytest.mark.slow
@pytest.mark.parametrize("target", ["cortex-m4", *OTHER_TARGETS])
@pytest.mark.parametrize("name", NETWORKS)
def test_functions_compile_without_warnings_and_need_little_stack(
    name, target, tmp_path, monkeypatch
):
    board = BOARDS[target]
    monkeypatch.setenv("CCACHE_DISABLE", "1")  # only objects are cached, not stack reports
    compiled(name, target).export(tmp_path / "net.tar")
    flags = " ".join(["-Os", "-ffreestanding", *STRICT, "-fstack-usage", "-fcallgraph-info"])
    build_library(tmp_path / "net.tar", board, tmp_path / "net", flags)
    usage = [line.split("\t") for path in tmp_path.rglob("*.su")
             for line in path.read_text().splitlines()]  # fmt: skip
    assert usage, "no stack usage from the compiler"
    for place, nbytes, kind in usage:
        assert kind == "static", f"{place} has an array of variable length"
        assert int(nbytes) <= MAX_STACK, f"{place} takes {nbytes} bytes of stack"
    calls: dict[str, set[str]] = {}
    for path in tmp_path.rglob("*.ci"):
        for caller, callee in EDGE.findall(path.read_text()):
            calls.setdefault(caller, set()).add(callee)
    assert calls, "no call graph from the compiler"
    assert not recursive(calls)


def recursive(calls: dict[str, set[str]]) -> set[str]:
    """Return functions that call themselves, directly or indirectly."""
    reached = {name: set(others) for name, others in calls.items()}
    changed = True
    while changed:
        changed = False
        for name, others in reached.items():
            more = set().union(*(reached.get(o, set()) for o in others)) - others
            reached[name] = others | more
            changed = changed or bool(more)
    return {name for name, others in reached.items() if name in others}


@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-Os", "-O3"])
def test_kernels_of_boards_compile_with_clang_and_without_optimisation(level, tmp_path):
    """Loops in assembly are for GCC with optimisation; other builds use C loops."""
    gcc = shutil.which("arm-none-eabi-gcc")
    if gcc is None or shutil.which("clang") is None:
        pytest.skip("clang and arm-none-eabi-gcc, for its C library, are needed")
    compiled("vww_int8", "cortex-m4").export_sources(tmp_path)
    (source,) = tmp_path.glob("*_lib1.c")
    include = f"-I{Path(__file__).parents[3] / 'include'}"
    libc = subprocess.run([gcc, "--specs=picolibc.specs", "-E", "-v", "-x", "c", "/dev/null"],
                          capture_output=True, text=True, check=True).stderr  # fmt: skip
    found = [line.strip() for line in libc.splitlines() if line.startswith(" /")]
    folder = next(line for line in found if "picolibc" in line and line.endswith("include"))
    flags = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", level]
    for compiler in (["clang", "--target=arm-none-eabi", f"-isystem{folder}"],
                     [gcc, "--specs=picolibc.specs"]):  # fmt: skip
        command = [*compiler, *flags, "-std=c99", include, "-c", source, "-o", tmp_path / "x.o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_clang_gives_no_warnings(name, tmp_path):
    if shutil.which("clang") is None:
        pytest.skip("clang is not installed")
    compiled(name, "cortex-m4").export_sources(tmp_path)
    include = f"-I{Path(__file__).parents[3] / 'include'}"
    sources = sorted(map(str, tmp_path.glob("*.c")))
    command = ["clang", "-std=c99", "-O1", *STRICT, "-fsyntax-only", include, *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

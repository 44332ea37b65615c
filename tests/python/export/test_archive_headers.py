"""Board archives contain the kernel headers that their C includes, and build with any compiler. The
board's own compiler lists the included headers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from archives import unpack
from board_layers import layers
from boards import BOARDS

import tvmrt

# Headers that the C may include with other options of the board's compiler.
MORE = {
    # for processors with unaligned loads, with Helium
    "cortex-m0plus": {"board/im2col_i8_2px.h", "board/requantize_i8_mve.h"},
    "cortex-m4": {"board/requantize_i8_mve.h"},
    "riscv32": {"board/rvv.h", "board/requantize_i8_rvv.h"},  # with vector instructions
}
ANYWHERE = ["x86-64", "x86-64-v4"]


@pytest.fixture(scope="module", params=["cortex-m0plus", "cortex-m4", "cortex-m55", "riscv32"])
def archive(request, tmp_path_factory):
    """Return the target, and archives of a float32 and an int8 network."""
    folder = tmp_path_factory.mktemp(request.param)
    places = []
    for name in ("real", "small"):
        compiled = tvmrt.compile(layers(name == "small"), target=request.param, module_name=name)
        compiled.export(folder / f"{name}.tar")
        places.append(unpack(folder / f"{name}.tar", folder / name))
    return request.param, places


def built(compiler: list[str], place: Path) -> str:
    """Return the compiler's messages for the archive's C."""
    sources = sorted(place.rglob("*.c"))
    folders = [f"-I{place}/codegen/host/include", f"-I{place}/runtime/include"]
    command = [*compiler, "-std=c99", "-O1", *folders, *map(str, sources)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def kernels(names) -> set[str]:
    """Return the kernel headers among the headers, relative to their folder."""
    marked = (os.path.normpath(name).partition("/runtime/kernels/")[2] for name in names)
    return {name for name in marked if name}


@pytest.mark.slow
def test_archive_has_the_kernels_that_its_board_includes(archive):
    target, places = archive
    board = BOARDS[target]
    for place in places:
        command = [board.compiler, "--specs=picolibc.specs", *board.flags, "-MM"]
        words = built(command, place).replace("\\\n", " ").split()
        carried = kernels((place / "runtime/include").rglob("*.h"))
        used = kernels(word for word in words if word.endswith(".h"))
        assert used <= carried
        assert carried - used <= MORE.get(target, set())


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_it_builds_on_hosts_with_any_vectors(archive, compiler):
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    for place in archive[1]:
        for march in ANYWHERE:
            built([compiler, "-w", f"-march={march}", "-fsyntax-only"], place)

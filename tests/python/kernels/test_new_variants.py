"""A new variant in the kernels without the code that handles it is a compile error."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from kernel_build import ROOT

from tvmrt.compiler.ir.winograd import TILE_SIZES

KERNELS = "tvm/runtime/kernels"


def test_a_new_weight_format_without_its_code_does_not_compile(tmp_path):
    """A format whose own header is complete lacks what other kernels do for each format."""
    kernels = tmp_path / "tvm" / "runtime" / "kernels"
    shutil.copytree(ROOT / "include", tmp_path, dirs_exist_ok=True)
    for name, old, new in (
        ("simd_i8_formats.h", "I8_X86_SSE41\n\n", "I8_X86_SSE41 || TVMRT_I8_FORMAT == 99\n"),
        ("simd_i8_sse41.h", "TVMRT_I8_FORMAT != TVMRT_I8_X86_SSE41", "0"),
    ):
        text = (kernels / "tile" / name).read_text()
        assert text.count(old) == 1
        (kernels / "tile" / name).write_text(text.replace(old, new))
    source = tmp_path / "new.c"
    for header in ("matmul_i8", "depthwise_i8"):
        source.write_text(f"#include <tvm/runtime/kernels/{header}.h>\n")
        command = ["gcc", "-std=c99", "-msse4.1", "-fsyntax-only", f"-I{tmp_path}", str(source)]
        subprocess.run(command, check=True)
        failed = subprocess.run(
            [*command, "-DTVMRT_I8_FORMAT=99"], capture_output=True, text=True, check=False
        )
        assert f"{header}.h" in failed.stderr
        assert "lacks this TVMRT_I8_FORMAT" in failed.stderr


def test_a_new_size_without_its_transforms_does_not_compile(tmp_path) -> None:
    text = (ROOT / "include/tvm/runtime/kernels/winograd_f32.h").read_text()
    sizes = re.search(r"#define TVMRT_WINOGRAD_SIZES\(X\) (.*)", text)
    assert sizes[1].split() == [f"X({size})" for size in TILE_SIZES]
    header = tmp_path / "winograd_f32.h"
    for size, error in ((None, ""), (3, "tvmrt_winograd_in_3"), (6, "tvmrt_winograd_fits_6")):
        more = f"{sizes[0]} X({size})" if size else sizes[0]
        header.write_text(text.replace(sizes[0], more))
        include = f"-I{ROOT}/include"
        kernels = f"{include}/tvm/runtime/kernels"
        command = ["gcc", "-std=c99", "-fsyntax-only", "-Werror", include, kernels, str(header)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) == bool(error)
        assert error in done.stderr


@pytest.mark.parametrize(
    ("header", "last", "users"),
    [
        ("op/grid_sample", "TVMRT_SAMPLE_CUBIC", ["op/grid_sample"]),
        ("op/grid_sample", "TVMRT_OUTSIDE_REFLECT", ["op/grid_sample"]),
        ("matmul_f32", "TVMRT_B_COLUMNS", ["matmul_f32", "matmul_bf16"]),
        ("pool_window", "TVMRT_POOL_LP", ["pool_window", "pool"]),
        ("op/forest", "TVMRT_FOREST_MAX", ["op/forest"]),
        ("op/forest", "TVMRT_FOREST_NAN_BOTH", ["op/forest"]),
    ],
)
def test_a_new_member_of_an_enumeration_without_its_code_does_not_compile(
    header, last, users, tmp_path
):
    text = (ROOT / "include" / KERNELS / f"{header}.h").read_text()
    more = re.sub(rf"\b{last},", f"{last}, {last}_NEW,", text, count=1)
    assert more != text
    shutil.copytree(ROOT / "include", tmp_path, dirs_exist_ok=True)
    (tmp_path / KERNELS / f"{header}.h").write_text(more)
    for user in users:
        source = tmp_path / "new.c"
        source.write_text(f"#include <{KERNELS}/{user}.h>\n")
        for folder, is_new in ((ROOT / "include", False), (tmp_path, True)):
            command = ["gcc", "-std=c99", "-fsyntax-only", f"-I{folder}", str(source)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert ("TVMRT_HANDLES" in done.stderr and done.returncode != 0) == is_new, done.stderr

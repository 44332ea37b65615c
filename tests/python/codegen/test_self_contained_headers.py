"""Kernel headers compile alone in C and C++; partial headers state their prerequisites."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tvmrt.libinfo import find_include_path

CHECK = Path(__file__).parents[2] / "c" / "check_headers.py"
INCLUDE = Path(find_include_path()[0])
KERNELS = INCLUDE / "tvm/runtime/kernels"


@pytest.mark.slow
def test_kernel_headers_are_self_contained():
    """The C tests compile the other dialects of each language."""
    command = [sys.executable, str(CHECK), "--kernels", str(INCLUDE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# Partial headers, and the prerequisite that their error names.
PARTS = {
    "tile/simd_i8_avx2.h": "TVMRT_I8_FORMAT",
    "tile/simd_i8_neon.h": "TVMRT_I8_FORMAT",
    "tile/simd_i8_formats.h": "TVMRT_I8_PLAIN",
    "tile/gemm_i8_i8mm.h": "TVMRT_I8_FORMAT",
}


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("part", PARTS)
def test_partial_header_error_names_the_missing_prerequisite(part):
    text = f"#include <tvm/runtime/kernels/{part}>\n"
    command = ["cc", "-std=c99", "-fsyntax-only", f"-I{INCLUDE}", "-x", "c", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    (error,) = re.findall(r"error: (.*)", done.stderr)
    assert part in error and PARTS[part] in error


def test_partial_headers_state_their_prerequisites():
    """A header with a prerequisite names it in its first comment."""
    for header in (KERNELS / "tile").glob("*.h"):
        text = header.read_text()
        head, _, body = text.partition("*/")
        if re.search(rf'#error "tile/{header.name} ', body):
            assert "\n * Before: " in head, header.name

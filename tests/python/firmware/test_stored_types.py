"""Conversions of float16 and smaller floats to float32 on boards, all codes by ml_dtypes.

Vector units of microcontrollers take denormals of float32 for zeros, so the loops are compiled
where compilers use these units.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from boards import run_image
from compilers import Build, link

from tvmrt.libinfo import find_include_path

TYPES = {
    "float16": np.float16,
    "float8_e4m3fn": ml_dtypes.float8_e4m3fn,
    "float8_e5m2": ml_dtypes.float8_e5m2,
    "float8_e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "float8_e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "float4_e2m1fn": ml_dtypes.float4_e2m1fn,
}
BUILDS = (
    Build("clang", "-O3", "plain", "cortex-m55"),
    Build("gcc", "-O3", "plain", "cortex-m55"),
    Build("clang", "-O2", "plain", "cortex-m4"),
)


def codes_of(kind: str) -> np.ndarray:
    if kind == "float16":
        return np.arange(1 << 16, dtype=np.uint16)
    return np.arange(16 if kind.startswith("float4") else 256, dtype=np.uint8)


def conversions() -> str:
    """Return a C file with one loop per type, which a compiler can vectorise."""
    lines = ["#include <tvm/runtime/kernels/scalar/half.h>",
             "#include <tvm/runtime/kernels/scalar/sub_byte_types.h>"]  # fmt: skip
    for kind in TYPES:
        code = f"uint{codes_of(kind).itemsize * 8}_t"
        lines.append(
            f"void convert_{kind}(const {code}* codes, float* values, int count) {{\n"
            f"  for (int i = 0; i < count; ++i) values[i] = tvmrt_{kind}_to_f32(codes[i]);\n}}"
        )
    return "\n".join(lines) + "\n"


def program() -> str:
    """Return a C program that writes the values of all codes, in parts that fit into the RAM."""
    lines = ["#include <stdint.h>", "#include <stdio.h>", "static float values[256];"]
    calls = []
    for kind in TYPES:
        code = f"uint{codes_of(kind).itemsize * 8}_t"
        lines.append(f"void convert_{kind}(const {code}* codes, float* values, int count);")
        part = min(codes_of(kind).size, 256)
        calls.append(
            f"  static {code} {kind}_codes[{part}];\n"
            f"  for (int begin = 0; begin < {codes_of(kind).size}; begin += {part}) {{\n"
            f"    for (int i = 0; i < {part}; ++i) {kind}_codes[i] = ({code})(begin + i);\n"
            f"    convert_{kind}({kind}_codes, values, {part});\n"
            f"    if (fwrite(values, 4, {part}, file) != {part}) return 1;\n  }}"
        )
    lines += ["int main(void) {", '  FILE* file = fopen("values.bin", "wb");', *calls]
    return "\n".join([*lines, "  return fclose(file);", "}"]) + "\n"


@pytest.mark.slow
@pytest.mark.parametrize("build", [pytest.param(each, id=str(each)) for each in BUILDS])
def test_every_code_has_its_value(build: Build, tmp_path: Path):
    if build.missing_tool():
        pytest.skip(f"{build.missing_tool()} is not installed")
    (tmp_path / "convert.c").write_text(conversions())
    (tmp_path / "main.c").write_text(program())
    includes = [f"-I{path}" for path in find_include_path()]
    made = tmp_path / "convert.o"
    command = [*build.flags(), "-std=c99", *includes, "-c", str(tmp_path / "convert.c"), "-o"]
    subprocess.run([*command, str(made)], check=True)
    image = link(build, tmp_path / "main.c", [made], includes, tmp_path)
    run_image(build.board, image, tmp_path)
    found = np.fromfile(tmp_path / "values.bin", np.float32)
    expected = np.concatenate(
        [codes_of(kind).view(numpy).astype(np.float32) for kind, numpy in TYPES.items()]
    )
    np.testing.assert_array_equal(found, expected)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])

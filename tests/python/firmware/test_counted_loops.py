"""A header keeps GCC 12 from dropping conditions after counted loops on Cortex-M55."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from archives import unpack
from boards import BOARDS, OWN_LOOPS, link_image, run_image
from small_network import small_network

import tvmrt
from tvmrt.libinfo import find_firmware_path, find_include_path

BOARD = BOARDS["cortex-m55"]
HEADER = "tvm/runtime/kernels/scalar/no_low_overhead_loops.h"
# GCC 12 without the header prints 7 7 31, as if each count were odd, with -Os and -Oz.
SUMS = f"""\
#include <{HEADER}>
int sum(const int* a, int n, int step);
int sum(const int* a, int n, int step) {{
  int x = 0, y = 0;
  for (; n >= 2; n -= 2) {{ x += a[0]; y ^= a[step]; a += 2 * step; }}
  if (n == 1) x += a[0];
  return x + y;
}}
"""
# The loop ends in its middle: without the header the result is wrong with -O2 and -O3.
ROUNDS = """\
int rounds(const int* a, int n);
int rounds(const int* a, int n) {
  int x = 0, y = 0;
  for (;;) {
    if (x == 77) y += 9;
    if (!(n > 1)) break;
    x += a[n & 3];
    if (x & 1) y++;
    n -= 4;
  }
  if (n == 1) x += 1000;
  return x * 31 + y;
}
"""
MAIN = """\
#include <stdio.h>
int sum(const int* a, int n, int step);
int rounds(const int* a, int n);
int main(void) {
  static const int a[] = {1, 2, 4, 8, 16, 32};
  printf("%d %d %d, ", sum(a, 2, 1), sum(a, 3, 1), sum(a, 4, 1));
  printf("%d %d %d\\n", rounds(a, 5), rounds(a, 6), rounds(a, 9));
  return 0;
}
"""
_LOOP = re.compile(r"\b(?:for|while) \(|\bdo \{")


@pytest.mark.parametrize("level", ["-Os", "-O2"])
def test_conditions_after_counted_loops_are_kept(level, tmp_path):
    (tmp_path / "loops.c").write_text(SUMS + ROUNDS)
    (tmp_path / "main.c").write_text(MAIN)
    flags = [flag for flag in BOARD.flags if flag != OWN_LOOPS]
    loops = tmp_path / "loops.o"
    includes = [f"-I{path}" for path in find_include_path()]
    subprocess.run(
        [BOARD.compiler, *flags, level, *includes, "-c", tmp_path / "loops.c", "-o", loops],
        check=True,
    )
    image = link_image(BOARD, [tmp_path / "main.c"], [], tmp_path / "i.elf", options=[str(loops)])
    assert run_image(BOARD, image, tmp_path) == "3 7 15, 31062 248 31124\n"


def _code(path: Path, archive: Path, *options: str) -> str:
    """Return the instructions of a file, compiled with the archive's Makefile."""
    flags = ["-std=c99", *tvmrt.compiler.codegen.target.FIRMWARE["cortex-m55"], "-Os", *options]
    includes = [f"-I{archive / part}" for part in ("codegen/host/include", "runtime/include")]
    command = [BOARD.compiler, "--specs=picolibc.specs", *flags, *includes, "-S", "-o", "-", path]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_networks_need_no_compiler_option(tmp_path):
    network = tvmrt.compile(small_network(), target="cortex-m55", interface_api="c")
    network.export(tmp_path / "net.tar")
    unpack(tmp_path / "net.tar", tmp_path)
    assert OWN_LOOPS not in (tmp_path / "Makefile").read_text()
    files = sorted((tmp_path / "codegen/host/src").glob("*.c"))
    looping = [path for path in files if _LOOP.search(path.read_text())]
    assert looping
    for path in looping:
        assert _code(path, tmp_path) == _code(path, tmp_path, OWN_LOOPS), path.name


def _reads(path: Path, seen: set[Path]) -> bool:
    """Return whether a file includes the header, directly or through other files of its folder."""
    seen.add(path)
    names = re.findall(r'#include [<"]([^>"]+)[>"]', path.read_text())
    near = [(path.parent / name).resolve() for name in names]
    return HEADER in names or any(
        _reads(other, seen) for other in near if other.is_file() and other not in seen
    )


def test_runtime_loops_avoid_the_compiler_bug():
    root = Path(find_firmware_path())
    files = [*root.glob("src_backend/*.c"), *root.glob("src_runtime/firmware/*/*.c")]
    looping = [path for path in files if _LOOP.search(path.read_text())]
    assert len(looping) > 20
    assert [path.name for path in looping if not _reads(path, set())] == []

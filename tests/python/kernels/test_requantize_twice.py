"""Requantisation with TensorFlow Lite's two roundings by the board kernels, compared with exact
integers."""

from __future__ import annotations

import numpy as np
import pytest
from boards import BOARDS, link_image, run_image
from kernel_build import CHECKED, ROOT, build, pointer

from tvmrt.compiler.codegen.c.formatting import break_lines
from tvmrt.compiler.codegen.window.boards.layer_i8 import micro_range
from tvmrt.compiler.codegen.window.boards.requant_multipliers import requant_table

LIMIT = (1 << 30) - 1
MOST = 13  # channels of a row
BOUNDS = {
    "relu": (-128, -128, 127), "linear": (3, -128, 127), "uint8": (119, 0, 255),
    "relu6": (-128, -128, 100), "narrow": (10, -20, 30), "highest": (127, -128, 127),
}  # fmt: skip

ROWS = """
#define TVMRT_FREESTANDING 1
#define TVMRT_MICRO_ROUNDS_TWICE 1
#include <tvm/runtime/kernels/board/common_i8.h>
void rows(uint8_t* y, const int32_t* sums, const tvmrt_micro_multiplier* pairs, int count);
void rows(uint8_t* y, const int32_t* sums, const tvmrt_micro_multiplier* pairs, int count) {{
  static const tvmrt_micro_range range = {{{range}}};
  for (int row = 0; row < count; row++) {{
    tvmrt_micro_requantize(y + row * {most}, sums + row * {most}, pairs + row * {padded},
                           row % {most} + 1, &range);
  }}
}}
"""

MAIN = """
#include <stdio.h>
{arrays}
int main(void) {{
  static uint8_t y[sizeof(expected)];
  memset(y, 0x5A, sizeof(y));
  rows(y, sums, (const tvmrt_micro_multiplier*)(const void*)pairs, {rows});
  for (unsigned i = 0; i < sizeof(y); i++) {{
    if (y[i] != expected[i]) printf("row %u: %d, not %d\\n", i / {most}, y[i], expected[i]);
  }}
  return 0;
}}
"""


def exact(acc: int, m: int, n: int) -> int:
    """Round acc * m / 2 ** 31 to the nearest integer, then that / 2 ** n with ties away from 0."""
    x = (acc * m + (1 << 30)) >> 31
    if n == 0:
        return x
    return (abs(x) + (1 << (n - 1)) >> n) * (1 if x >= 0 else -1)


def case(bounds: tuple[int, int, int], rows: int):
    """Return multipliers with n from 1 to 31, accumulators near ties, extreme or random, and the
    bytes; a row has up to ``MOST`` channels, and 0x5A follows the row's own."""
    zero, low, high = bounds
    rng = np.random.default_rng(9)
    n = rng.integers(1, 32, (rows, MOST))
    m = rng.integers(1 << 30, 1 << 31, n.shape)
    m[::3] = np.where(rng.random(m[::3].shape) < 0.5, 1 << 30, (1 << 31) - 1)
    wanted = rng.integers(low - zero - 2, high - zero + 3, n.shape)
    sums = [
        min(max((int((2 * w - 1) << (30 + int(k))) // int(f)) + int(d), -LIMIT), LIMIT)
        for w, k, f, d in zip(wanted.flat, n.flat, m.flat, rng.integers(-1, 3, n.size))
    ]
    sums = np.array(sums).reshape(n.shape)
    sums[5::7] = rng.integers(-LIMIT, LIMIT + 1, sums[5::7].shape)
    sums[6::21] = rng.choice([-LIMIT, -1, 0, 1, LIMIT], sums[6::21].shape)
    tables = [
        requant_table(np.ldexp(f.astype(np.float64), -31 - k), "twice", *bounds)
        for f, k in zip(m, n)
    ]
    found = [exact(int(s), int(f), int(k)) + zero for s, f, k in zip(sums.flat, m.flat, n.flat)]
    expected = np.clip(found, low, high).astype(np.int64).astype(np.uint8).reshape(n.shape)
    for row, count in enumerate(np.arange(rows) % MOST + 1):
        expected[row, count:] = 0x5A
    members = micro_range(*bounds, low < 0, twice=tables[0].twice)
    pairs = np.stack([table.multipliers for table in tables])
    text = ROWS.format(
        range=", ".join(f".{k} = {v}" for k, v in members.items()), most=MOST, padded=pairs.shape[1]
    )
    return sums.astype(np.int32), np.ascontiguousarray(pairs), expected, text


@pytest.mark.slow
@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
def test_rows_equal_exact_integers(bounds, tmp_path):
    sums, pairs, expected, text = case(bounds, 1500)
    found = np.full(expected.shape, 0x5A, np.uint8)
    build(tmp_path, text, CHECKED).rows(pointer(found), pointer(sums), pointer(pairs), len(sums))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.slow
@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
@pytest.mark.parametrize(
    "target", ["cortex-m0plus", "cortex-m4", "cortex-m55", "riscv32", "rv32imac_zve32x"]
)
def test_rows_on_boards_equal_exact_integers(target, bounds, tmp_path):
    board = BOARDS[target]
    sums, pairs, expected, text = case(bounds, 400)
    types = {"int32_t sums": sums, "int32_t pairs": pairs, "uint8_t expected": expected}
    arrays = "\n".join(
        f"static const {name}[] = {{{', '.join(map(str, array.reshape(-1)))}}};"
        for name, array in types.items()
    )
    main = MAIN.format(arrays=arrays, rows=len(sums), most=MOST)
    (tmp_path / "main.c").write_text(break_lines(text + main))
    image = link_image(
        board, [tmp_path / "main.c"], [], tmp_path / "image.elf", [ROOT / "include"], ["-O2"]
    )
    assert run_image(board, image, tmp_path) == ""

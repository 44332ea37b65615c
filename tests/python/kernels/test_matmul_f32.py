"""The float matrix product against numpy, with the right factor in every order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import kernel_build as kb
import kernel_reference as ref
import numpy as np
import pytest

packing = kb.packing
INFINITY = float("inf")


@dataclass(frozen=True)
class Case:
    """A product [batch][m][k] * [batch][k][n]; order as in the header."""

    name: str
    m: int
    n: int
    k: int
    order: str = "PACKED"
    batch: tuple[int, int] = (1, 1)
    bounds: tuple[float, float] = (-INFINITY, INFINITY)
    bias: bool = True
    residual: str = "none"  # none, rows, one_row
    epilogue: bool = False
    wider: tuple[int, int, int] = (0, 0, 0)  # floats between the rows of a, b, y
    one_b: bool = False  # the batch shares b
    far: bool = False  # as if b were large

    def tiles(self, machine: kb.Machine) -> packing.Tiles:
        tiles = packing.choose_tiles(self.m, self.n, self.k, machine)
        tiles = tiles.without_lone_row(self.m)
        return tiles.in_parts(self.m, packing.FAR_MATRIX, machine.registers) if self.far else tiles


ORDERS = ("PACKED", "ROWS", "COLUMNS")
CASES = [
    *(Case(f"{order}-64", 64, 64, 64, order) for order in ORDERS),
    *(
        Case(f"{order}-odd", 13, 37, 29, order, residual="rows", bounds=(0.0, 3.0))
        for order in ORDERS
    ),
    *(Case(f"{order}-one-row", 1, 131, 70, order) for order in ORDERS),
    *(Case(f"{order}-two-rows", 2, 50, 33, order, residual="one_row") for order in ORDERS),
    *(Case(f"{order}-one-column", 9, 1, 40, order) for order in ORDERS),
    *(Case(f"{order}-k1", 5, 20, 1, order, bias=False) for order in ORDERS),
    *(Case(f"{order}-batch", 10, 21, 16, order, batch=(2, 3)) for order in ORDERS),
    *(Case(f"{order}-one-b", 10, 21, 16, order, batch=(3, 2), one_b=True) for order in ORDERS),
    *(Case(f"{order}-wider", 11, 18, 20, order, batch=(1, 2), wider=(3, 5, 7)) for order in ORDERS),
    *(
        Case(f"{order}-epilogue", 17, 45, 20, order, batch=(2, 1), epilogue=True)
        for order in ORDERS
    ),
    # heads of an attention, which two and three tasks cut by rows
    *(Case(f"{order}-long-batch", 97, 21, 16, order, batch=(1, 5)) for order in ORDERS),
    # tiles of 14 rows would leave one alone
    *(Case(f"{order}-lone", 197, 37, 16, order, residual="rows") for order in ORDERS),
    *(Case(f"{order}-lone-batch", 197, 33, 16, order, batch=(1, 3)) for order in ORDERS),
    Case("PACKED-epilogue-single", 17, 45, 20, epilogue=True),
    *(Case(f"PACKED-far-k{k}", 1, 261, k, residual="rows", far=True) for k in (1, 3, 4, 70, 203)),
    Case("PACKED-far-bounds", 1, 200, 37, bounds=(-1.0, 1.0), bias=False, far=True),
    Case("PACKED-far-batch", 1, 77, 50, batch=(2, 3), epilogue=True, far=True),
]


def function(index: int, case: Case, tiles: packing.Tiles) -> str:
    """C that runs one case: run_<index>(a, b, bias, residual, y, ctx)."""
    names = ("a", "b", "bias", "r")
    arguments = ", ".join([f"const float* {name}" for name in names])
    arguments += ", float* y, const float* ctx"
    m, n, k = case.m, case.n, case.k
    a_stride, y_stride = k + case.wider[0], n + case.wider[2]
    b_rows, b_stride = (k, n + case.wider[1]) if case.order == "ROWS" else (n, k + case.wider[1])
    b_floats = (
        -(-n // tiles.block) * tiles.block * k if case.order == "PACKED" else b_rows * b_stride
    )
    b_batch = (0, 0) if case.one_b else (case.batch[1] * b_floats, b_floats)
    r_stride = n if case.residual == "rows" else 0
    r_batch = (case.batch[1] * m * n, m * n) if r_stride else (0, 0)
    define = f"""
static void add_index_{index}(float* out, int64_t pixel, int pixels, int channel, int channels,
                              const void* ctx) {{
  const float* each = (const float*)ctx + pixel * {n} + channel;
  for (int p = 0; p < pixels; p++)
    for (int c = 0; c < channels; c++) out[p * {y_stride} + c] += each[p * {n} + c];
}}"""
    return f"""{define if case.epilogue else ""}
int run_{index}({arguments});
int run_{index}({arguments}) {{
  static const tvmrt_tiles_f32 tiles = {tiles.initializer()};
  static const tvmrt_matmul_f32_layer layer = {{
      .batch = {kb.triple(case.batch)}, .m = {m}, .n = {n}, .k = {k},
      .a_batch = {{{case.batch[1] * m * a_stride}, {m * a_stride}}},
      .b_batch = {kb.triple(b_batch)},
      .y_batch = {{{case.batch[1] * m * y_stride}, {m * y_stride}}},
      .residual_batch = {kb.triple(r_batch)},
      .a_stride = {a_stride}, .b_stride = {b_stride}, .y_stride = {y_stride}, .residual_stride =
      {r_stride},
      .lo = {kb.c_float(case.bounds[0])}, .hi = {kb.c_float(case.bounds[1])},
      .b_order = TVMRT_B_{case.order}}};
  const tvmrt_data_f32 data = {{a, b, bias, r, y,
      {f"add_index_{index}" if case.epilogue else "NULL"}, ctx}};
  return tvmrt_matmul_f32(&layer, &tiles, &data);
}}
"""


def source(machine: kb.Machine) -> str:
    tiles = [case.tiles(machine) for case in CASES]
    headers = ["matmul_f32.h", *dict.fromkeys(header for each in tiles for header in each.headers)]
    head = ["#include <math.h>", *(f"#include <tvm/runtime/kernels/{each}>" for each in headers)]
    functions = [function(index, case, tiles[index]) for index, case in enumerate(CASES)]
    return "\n".join([*head, *kb.unique_definitions(tiles), *functions])


def widen(array: np.ndarray, floats: int) -> np.ndarray:
    """The array with `floats` NaN behind each row."""
    wide = np.full((*array.shape[:-1], array.shape[-1] + floats), np.nan, np.float32)
    wide[..., : array.shape[-1]] = array
    return kb.guarded(wide, np.nan)[0]


@pytest.mark.parametrize("rows", [15, 43])
@pytest.mark.parametrize("order", ["PACKED", "ROWS"])
def test_a_lone_row_is_computed_alike_by_any_number_of_tasks(
    rows: int, order: str, build_folder: Path
) -> None:
    """A task that had it alone would add in another order."""
    case = Case("", rows, 70, 45, order, batch=(1, 2 if order == "ROWS" else 1), bias=False)
    tiles = packing.Tiles(4, 2, (14, 1)).without_lone_row(rows)
    lines = ["#include <math.h>", "#include <tvm/runtime/kernels/matmul_f32.h>"]
    text = "\n".join([*lines, *map(str, tiles.definitions()), function(0, case, tiles)])
    rng = np.random.default_rng(5)
    a = rng.standard_normal((*case.batch, rows, case.k), np.float32)
    b = rng.standard_normal((*case.batch, case.k, case.n), np.float32)
    memory = packing.pack_matmul(b, tiles) if order == "PACKED" else b
    results = []
    for tasks in (1, 2, 3, 5, 7):
        library = kb.build(build_folder, text, ["-O2", f"-DTASKS={tasks}", *kb.PARALLEL])
        y = np.full((*case.batch, rows, case.n), np.nan, np.float32)
        assert library.run_0(*(kb.pointer(v) for v in (a, memory, None, None, y, None))) == 0
        results.append(y)

    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(results[0], expected, **ref.tolerance(case.k))
    for other in results[1:]:
        np.testing.assert_array_equal(other, results[0])


@pytest.mark.everyday(2)
@pytest.mark.parametrize("build", kb.BUILDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_matmul_equals_numpy(case: Case, build: str, build_folder: Path) -> None:
    cc, flags, machine = kb.BUILDS[build]
    if not kb.has_compiler(cc):
        pytest.skip(f"{cc} is not installed")
    library = kb.build(build_folder, source(machine), flags, cc)
    tiles = case.tiles(machine)

    rng = np.random.default_rng(3)
    a = rng.standard_normal((*case.batch, case.m, case.k), np.float32)
    b_batch = (1, 1) if case.one_b else case.batch
    b = rng.standard_normal((*b_batch, case.k, case.n), np.float32)
    bias = rng.standard_normal(case.n, np.float32) * case.bias
    shape = (*case.batch, case.m, case.n)
    residual_shape = {"none": None, "rows": shape, "one_row": (case.n,)}[case.residual]
    residual = None if residual_shape is None else rng.standard_normal(residual_shape, np.float32)
    each = rng.standard_normal(shape, np.float32)

    expected = a.astype(np.float64) @ b.astype(np.float64) + bias
    expected = np.clip(expected + (0 if residual is None else residual), *case.bounds)
    if case.epilogue:
        expected = expected + each

    if case.order == "PACKED":
        b_memory = packing.pack_matmul(b, tiles)
    else:
        b_memory = widen(b if case.order == "ROWS" else b.swapaxes(-1, -2), case.wider[1])
    y_memory, y_whole = kb.guarded(np.full((*shape[:-1], case.n + case.wider[2]), 7.0, np.float32))
    packed_bias = packing.pack_bias(bias, tiles) if case.bias else None
    residual_memory = None if residual is None else kb.guarded(residual, np.nan)[0]
    arrays = (widen(a, case.wider[0]), b_memory, packed_bias, residual_memory, y_memory, each)
    rc = library[f"run_{CASES.index(case)}"](*(kb.pointer(array) for array in arrays))

    assert rc == 0
    assert kb.guards_intact(y_whole)
    assert (y_memory[..., case.n :] == 7.0).all()
    np.testing.assert_allclose(y_memory[..., : case.n], expected, **ref.tolerance(case.k))

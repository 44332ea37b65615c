"""Packed functions of boards with dynamic dimensions: the tensors' shapes give the sizes."""

from __future__ import annotations

import numpy as np
import pytest
from boards import BOARDS, build_library, link_image, run_image
from dynamic_networks import CASES
from firmware_call import build_shared, call_packed, tensor

import tvmrt

runtime = pytest.importorskip("onnxruntime")

PACKED = {"target": "host", "runtime": "crt", "executor": "aot", "module_name": "net"}
INVALID, MISMATCH, OUT_OF_RANGE = 0x0803, 0x1102, 0x1104
CASE = CASES["decoder"]  # past may be 0, and the mask is as long as past and seq together

# Runs 8, 1 and 5 rows computed by a formula; prints results in millionths.
PROGRAM = """\
#include <stdint.h>
#include <stdio.h>
#include <tvmgen_net.h>

static float x[8 * 16], y[8 * 10];

int main(void) {
  static const int batches[] = {8, 1, 5};
  for (int i = 0; i < 3; ++i) {
    int64_t rows[] = {batches[i], 16}, room[] = {8, 10};
    DLTensor in = {.data = x, .device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}};
    DLTensor out = in;
    TVMValue args[2], result;
    int codes[] = {kTVMDLTensorHandle, kTVMDLTensorHandle}, code = 0;
    in.shape = rows, out.data = y, out.shape = room;
    args[0].v_handle = &in, args[1].v_handle = &out;
    for (int k = 0; k < 8 * 16; ++k) x[k] = (float)(k * 7 % 11 - 5) / 4;
    if (tvmgen_net_run(args, codes, 2, &result, &code, NULL) != 0) return 1;
    printf("%d %d", (int)room[0], (int)room[1]);
    for (int k = 0; k < (int)(room[0] * room[1]); ++k) printf(" %d", (int)(1e6f * y[k]));
    printf("\\n");
  }
  return 0;
}
"""


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoder")
    library = tvmrt.compile(CASE.make(), dims=CASE.dims, **PACKED)
    library.export_sources(folder)
    shared = build_shared(folder)
    session = runtime.InferenceSession(CASE.make().SerializeToString())
    largest = session.run(None, CASE.inputs(np.random.default_rng(0), CASE.most()))
    return library, shared, session, [y.shape for y in largest]


def call(decoder, inputs, checked=False, capacities=None):
    """Return the code of a run, its results and their extents. Outputs have the maximum capacity or
    less; inputs without elements still have an address."""
    library, shared, _, largest = decoder
    given = [np.ascontiguousarray(inputs[t.name]) for t in library.summary.inputs]
    capacities = [np.full(shape, 7, np.float32) for shape in capacities or largest]
    tensors = [tensor(x.ctypes.data, x) for x in [*given, *capacities]]
    code = call_packed(getattr(shared, f"tvmgen_net_run{'_checked' if checked else ''}"), tensors)
    shapes = [tuple(t.shape[: t.ndim]) for t in tensors[len(given) :]]
    return code, [y.reshape(-1)[: np.prod(s)].reshape(s) for y, s in zip(capacities, shapes)]


def test_every_size_is_right(decoder):
    rng, session = np.random.default_rng(5), decoder[2]
    for i, sizes in enumerate(CASE.sizes(rng, 6)):
        inputs = CASE.inputs(rng, sizes)
        code, found = call(decoder, inputs, checked=bool(i % 2))
        assert code == 0
        expected = session.run(None, inputs)
        assert [y.shape for y in found] == [y.shape for y in expected]
        for mine, theirs in zip(found, expected):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("checked", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        {"ids": (3, 5)},  # batch is at most 2
        {"ids": (2, 6)},
        {"ids": (0, 5)},
        {"ids": (1, 5)},  # the others have 2
        {"mask": (2, 1, 5, 28)},  # past + seq is 29
        {"past_v": (2, 4, 23, 8)},
    ],
    ids=str,
)
def test_invalid_sizes_write_nothing(decoder, change, checked):
    inputs = CASE.inputs(np.random.default_rng(0), CASE.most())
    inputs.update({n: np.zeros(shape, inputs[n].dtype) for n, shape in change.items()})
    code, found = call(decoder, inputs, checked)
    assert code == OUT_OF_RANGE
    assert all((y == 7).all() and y.size for y in found)


def test_tensors_of_wrong_rank_or_capacity_are_refused(decoder):
    inputs = CASE.inputs(np.random.default_rng(0), CASE.most())
    assert call(decoder, {**inputs, "ids": inputs["ids"].reshape(-1)})[0] == INVALID
    other = {**inputs, "ids": inputs["ids"].astype(np.int32)}
    assert call(decoder, other, checked=True)[0] == MISMATCH
    largest = decoder[-1]
    for k, size in [(1, (2, 4, 28, 8)), (1, (2, 4, 29, 9)), (0, (2, 4, 50))]:  # short, gaps, short
        capacities = [size if i == k else shape for i, shape in enumerate(largest)]
        code, found = call(decoder, inputs, capacities=capacities)
        assert code == OUT_OF_RANGE
        assert all((y == 7).all() for y in found)


def test_every_size_is_right_on_a_board(tmp_path):
    board, case = BOARDS["cortex-m4"], CASES["perceptron"]
    model = case.make()
    library = tvmrt.compile(model, dims=case.dims, target="cortex-m4", module_name="net")
    library.export(tmp_path / "net.tar")
    archive = build_library(tmp_path / "net.tar", board, tmp_path / "net")
    (tmp_path / "main.c").write_text(PROGRAM)
    includes = [archive.parent / "codegen/host/include", archive.parent / "runtime/include"]
    image = link_image(board, [tmp_path / "main.c"], [archive], tmp_path / "image.elf", includes)
    session = runtime.InferenceSession(model.SerializeToString())
    x = ((np.arange(128) * 7 % 11 - 5) / 4).astype(np.float32).reshape(8, 16)
    lines = run_image(board, image, tmp_path).splitlines()
    for line, batch in zip(lines, (8, 1, 5)):
        numbers = [int(word) for word in line.split()]
        (expected,) = session.run(None, {"x": x[:batch]})
        assert numbers[:2] == [batch, 10]
        np.testing.assert_allclose(np.array(numbers[2:]) / 1e6, expected.reshape(-1), atol=2e-5)
    assert len(lines) == 3

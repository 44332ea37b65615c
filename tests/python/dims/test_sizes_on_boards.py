"""Networks of dynamic length on boards emulated by QEMU, compared with onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from boards import BOARDS
from dynamic_networks import CASES, quantised
from keyword_network import KEYWORD, keyword
from sized_call import results_on_board, sizes_of
from test_data_dependent_dims import CASES as COUNTED
from test_data_dependent_trip_count import CASES as ROUNDS
from test_data_dependent_trip_count import Case
from test_growing_loops import CASES as GROWING

import tvmrt

runtime = pytest.importorskip("onnxruntime")

STRICT = "-Os -ffreestanding -Wall -Wextra -Werror -Wconversion"
# One pooled value may be rounded differently: 0.02 times the largest weight, 100 * 0.008.
ROUNDED = 0.0161


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def close_integers(found, expected):
    away = np.abs(found.astype(np.float32) - expected)
    assert away.max() <= 2 * ROUNDED
    assert np.std(expected) > 20 * ROUNDED


def close_bytes(found, expected):
    assert np.abs(found.astype(int) - expected).max() <= 1


@dataclass(frozen=True)
class Found:
    """A case with data-dependent results or trip count, in the form of the other cases."""

    case: object

    @property
    def dims(self):
        return self.case.dims

    def runs(self, library, rng):
        return [(sizes_of(library, inputs), inputs) for inputs in self.case.inputs(rng)]


GROWN = Case(*GROWING["rows"])
# network, dimensions and inputs, comparison of each output, pools
NETWORKS = {
    "tagger": (CASES["tagger"].make, CASES["tagger"], [close], {"sram": 1 << 16}),
    "keyword": (keyword, KEYWORD, [close, close_integers], None),
    "detector": (COUNTED["detector"].make, Found(COUNTED["detector"]), [close, close], None),
    "loops": (
        ROUNDS["loop in a loop"].make,
        Found(ROUNDS["loop in a loop"]),
        [close],
        None,
    ),
    "growing": (GROWN.make, Found(GROWN), [close, close], None),
    "images": (quantised, CASES["convolutions"], [close_bytes], None),
}
CHOSEN = [
    ("cortex-m4", "tagger"),
    ("cortex-m4", "keyword"),
    ("cortex-m4", "detector"),
    ("cortex-m4", "loops"),
    ("cortex-m4", "growing"),
    *(
        pytest.param(board, name, marks=pytest.mark.slow)
        for board in ("cortex-m55", "riscv32", "cortex-m0plus")
        for name in NETWORKS
        if name != "growing"
    ),
]


@pytest.mark.parametrize("target, name", CHOSEN)
def test_every_size_is_right_on_the_board(target, name, tmp_path):
    """Large and small sizes alternate in one image; every second one runs in slices."""
    board = BOARDS[target]
    make, case, closes, pools = NETWORKS[name]
    model, rng = make(), np.random.default_rng(5)
    library = tvmrt.compile(
        model, dims=case.dims, target=target, interface_api="c", module_name="net", pools=pools
    )
    if isinstance(case, Found):
        runs = case.runs(library, rng)
    else:
        runs = [(sizes, case.inputs(rng, sizes)) for sizes in case.sizes(rng, 20)]
    found = results_on_board(library, runs, board, tmp_path, STRICT)
    session = runtime.InferenceSession(model.SerializeToString())
    assert len(found) == len(runs)
    for (_, inputs), results in zip(runs, found):
        expected = session.run(None, inputs)
        assert [y.shape for y in results] == [y.shape for y in expected]
        for check, mine, theirs in zip(closes, results, expected):
            check(mine, theirs)

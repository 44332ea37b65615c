"""``tvmrt tune`` from a network to a library, and what entries do to code."""

from __future__ import annotations

import json
import sys

import numpy as np
import onnxruntime
import pytest

import tvmrt
from tvmrt import processor
from tvmrt.cli import main
from tvmrt.codegen.target import get_target, vectors_of
from tvmrt.ir.tuned import Choice
from tvmrt.tuning import database
from tvmrt.tuning.database import Entry, Tried
from tvmrt.tuning.search import Effort, search

CONV = "conv float32 1x8x8x8 by 16x8x3x3 stride 2x2 dilation 1x1 pads 1x1 1x1 groups 1"
FIRST = "conv float32 1x1x8x8 by 8x1x3x3 stride 1x1 dilation 1x1 pads 1x1 1x1 groups 1"
DEPTHWISE = "conv float32 1x16x4x4 by 16x1x3x3 stride 1x1 dilation 1x1 pads 1x1 1x1 groups 16"
PRODUCT = "matmul float32 1x128 by 128x10"


@pytest.fixture
def write(tmp_path):
    """Write a database with these choices by layers, for this machine or for another level."""

    def written(choices, level=None, square=0):
        path = tmp_path / "tuning.json"
        level = level or vectors_of(get_target("native")).partition(" ")[0]
        entries = [
            Entry(
                layer, level, processor.name(), Tried(Choice(), 2e-6), Tried(choice, 1e-6), square
            )
            for layer, choice in choices.items()
        ]
        database.add(path, entries)
        return path

    return written


def compiled(digits, **options):
    return tvmrt.compile(str(digits / "digits_f32.onnx"), **options)


def images(digits) -> np.ndarray:
    with np.load(digits / "digits_test.npz") as data:
        return (data["images"][:8, None] / 16).astype(np.float32)


def operators(library) -> str:
    """The C of the operators."""
    return "\n".join(function.text for function in library.sources.functions)


def test_entries_decide_tiles_and_results_stay_right(digits, write):
    lanes = get_target("native").lanes
    choices = {
        CONV: Choice((lanes, 1, 3), 1), DEPTHWISE: Choice((lanes, 1, 2)),
        PRODUCT: Choice((lanes, 1, 1), parallel=False),
    }  # fmt: skip
    usual, tuned = compiled(digits), compiled(digits, tuned=write(choices))
    names = (f"tvmrt_tile_f32_{lanes}x1x3", f"tvmrt_depthwise_f32_{lanes}k3s1x2")
    for name in names:
        assert name not in operators(usual)
        assert name in operators(tuned)
    image = images(digits)[:1]
    session = onnxruntime.InferenceSession(str(digits / "digits_f32.onnx"))
    (right,) = session.run(None, {session.get_inputs()[0].name: image})
    np.testing.assert_allclose(np.asarray(tvmrt.load(tuned)(image)), right, rtol=1e-4, atol=1e-6)


def test_the_manifest_tells_which_entries_were_used(digits, write):
    lanes = get_target("native").lanes
    path = write({CONV: Choice((lanes, 1, 3)), "matmul float32 6x5 by 5x7": Choice()})
    manifest = compiled(digits, tuned=path).manifest
    level = vectors_of(get_target("native")).partition(" ")[0]
    assert manifest["tuned"] == [
        {"layer": CONV, "level": level, "source": "measured",
         "choice": {"tile": [lanes, 1, 3]}},
    ]  # fmt: skip
    assert "tuned" not in manifest["options"]  # a path of the machine that compiles
    assert "tuned" not in compiled(digits).manifest


def test_a_choice_of_threads_decides_whether_a_layer_is_shared_out(digits, write):
    def work(parallel):
        text = operators(compiled(digits, tuned=write({CONV: Choice(parallel=parallel)})))
        _, _, function = text.partition("tvmgen_default_conv2(")
        return int(function.partition(".work = ")[2].partition(",")[0])

    assert work(False) == 0
    assert work(True) == 300000  # what it takes, whatever the layer is
    assert work(None) == 4 * 4 * 16 * 9 * 8


def test_tiles_that_a_processor_lacks_are_left_to_the_estimate(digits, write):
    path = write({CONV: Choice((64, 9, 9)), DEPTHWISE: Choice((3, 3, 3))})
    assert operators(compiled(digits, tuned=path)) == operators(compiled(digits))


def test_each_level_of_a_family_has_its_entries(digits, write):
    path = write({CONV: Choice((8, 1, 3))}, level="8x16")
    library = compiled(digits, target="x86-64", levels=("v3", "v4"), tuned=path)
    files = library.sources.files
    assert "tile_f32_8x1x3" in next(t for n, t in files.items() if "_v3_lib" in n)
    assert "tile_f32_8x1x3" not in next(t for n, t in files.items() if "_v4_lib" in n)
    assert [row["level"] for row in library.manifest["tuned"]] == ["8x16"]


def test_levels_share_weights_in_the_order_of_the_widest_ones_choice(digits, write):
    def weights(**options):
        library = compiled(digits, target="x86-64", levels=("v3", "v4"), **options)
        return library.summary.weights_bytes, operators_of(library, "v3")

    def operators_of(library, level):
        return "".join(t for name, t in library.sources.files.items() if f"_{level}_lib" in name)

    product = "conv float32 1x16x4x4 by 32x16x1x1 stride 1x1 dilation 1x1 pads 0x0 0x0 groups 1"
    usual, _ = weights()
    tuned, narrow = weights(tuned=write({product: Choice((16, 1, 8))}, level="16x32"))
    assert tuned == usual
    assert ".packed = 32" not in narrow  # two vectors of 16, as the estimate has it


@pytest.mark.parametrize(("square", "found"), [(1, []), (4, [4]), (2, [2])])
def test_measured_squares_are_taken_in_place_of_the_estimate(digits, write, square, found):
    path = write({FIRST: Choice()}, square=square)
    summary = compiled(digits, tuned=path, winograd=True).summary
    assert [row.size for row in summary.winograd] == found
    assert not compiled(digits, tuned=path).summary.winograd


def test_a_search_tells_what_it_has_tried():
    entry = search("matmul float32 16x64 by 64x32", Effort(candidates=2, seconds=0.01, threads=2))
    assert entry.processor == processor.name()
    assert len({tried.choice for tried in entry.tried}) == 2
    assert entry.usual.choice == entry.tried[0].choice
    assert entry.best.seconds <= entry.usual.seconds
    assert entry.best.choice.parallel in (True, False)
    assert entry.square == 0


def test_tune_measures_once_and_compile_takes_it(digits, tmp_path, capsys):
    path, model = tmp_path / "new" / "tuning.json", str(digits / "digits_f32.onnx")
    quick = ["--database", str(path), "--candidates", "2", "--seconds", "0.01", "--json"]
    assert main(["tune", model, *quick]) == 0
    first = json.loads(capsys.readouterr().out)
    assert {row["layer"] for row in first["layers"]} == {CONV}
    assert first["measured"] == 1
    assert first["networks"][0]["before_seconds"] > 0
    assert main(["tune", model, *quick]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["measured"] == 0
    assert again["layers"] == first["layers"]
    out = tmp_path / "net.so"
    assert main(["compile", model, "-o", str(out), "--tuned", str(path)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(out), "--json"]) == 0
    assert CONV in capsys.readouterr().out


def test_a_network_with_nothing_to_search_is_told(digits, tmp_path, capsys):
    path = tmp_path / "tuning.json"
    assert main(["tune", str(digits / "digits_int8.onnx"), "--database", str(path)]) == 0
    assert "nothing to search: tuning knows convolutions and products in" in capsys.readouterr().err
    assert not path.exists()


def test_without_ray_a_sentence_says_what_to_install(digits, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    path = tmp_path / "tuning.json"
    arguments = ["--database", str(path), "--ray", "auto"]
    assert main(["tune", str(digits / "digits_f32.onnx"), *arguments]) == 2
    assert "sharing layers out needs the package ray (" in capsys.readouterr().err
    assert not path.exists()

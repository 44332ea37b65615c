"""Test ``tvmrt tune`` from a network to a library, and the effect of entries on code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest

import tvmrt
from tvmrt.cli import main
from tvmrt.compiler import processor
from tvmrt.compiler.codegen.target import get_target, vector_key
from tvmrt.compiler.codegen.window.tiles_i8 import FORMATS
from tvmrt.compiler.ir.tuned import Choice
from tvmrt.plugins.tuning import database, measure
from tvmrt.plugins.tuning.database import Measurement, TuningEntry
from tvmrt.plugins.tuning.search import SearchSettings, layers_of, search

CONV = "conv float32 1x8x8x8 by 16x8x3x3 stride 2x2 dilation 1x1 pads 1x1 1x1 groups 1"
FIRST = "conv float32 1x1x8x8 by 8x1x3x3 stride 1x1 dilation 1x1 pads 1x1 1x1 groups 1"
DEPTHWISE = "conv float32 1x16x4x4 by 16x1x3x3 stride 1x1 dilation 1x1 pads 1x1 1x1 groups 16"
PRODUCT = "matmul float32 1x128 by 128x10"


@pytest.fixture
def write(tmp_path):
    """Write a database with these choices per layer, for this machine or for another ISA level."""

    def written(choices, level=None, square=0):
        path = tmp_path / "tuning.json"
        level = level or vector_key(get_target("native")).partition(" ")[0]
        entries = [
            TuningEntry(
                layer,
                level,
                processor.name(),
                Measurement(Choice(), 2e-6),
                Measurement(choice, 1e-6),
                square,
            )
            for layer, choice in choices.items()
        ]
        database.add(path, entries)
        return path

    return written


# Reports the number of threads of each launch on standard error.
SPY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
typedef int (*task)(int, void *, void *);
typedef struct { task f; void *data; } call;
static int report_call(int id, void *env, void *data) {
  call *c = data;
  if (id == 0) fprintf(stderr, "%d\\n", ((int *)env)[2]);
  return c->f(id, env, c->data);
}
int TVMBackendParallelLaunch(task f, void *data, int count) {
  int (*real)(task, void *, int) = dlsym(RTLD_NEXT, "TVMBackendParallelLaunch");
  call c = {f, data};
  return real(report_call, &c, count);
}
"""
RUN = """
import sys
import numpy as np, tvmrt
tvmrt.load(sys.argv[1])(np.load(sys.argv[2]))
"""


def compiled(digits, name="digits_f32.onnx", **options):
    return tvmrt.compile(str(digits / name), **options)


def images(digits) -> np.ndarray:
    with np.load(digits / "digits_test.npz") as data:
        return (data["images"][:8, None] / 16).astype(np.float32)


def operators(library) -> str:
    """Return the C code of the operators."""
    return "\n".join(function.text for function in library.sources.functions)


def test_entries_select_tiles_with_equal_results(digits, write):
    lanes = get_target("native").lanes
    choices = {
        CONV: Choice((lanes, 1, 3), 1), DEPTHWISE: Choice((lanes, 1, 2)),
        PRODUCT: Choice((lanes, 1, 1), threads=1),
    }  # fmt: skip
    baseline, tuned = compiled(digits), compiled(digits, tuned=write(choices))
    names = (f"tvmrt_tile_f32_{lanes}x1x3", f"tvmrt_depthwise_f32_{lanes}k3s1x2")
    for name in names:
        assert name not in operators(baseline)
        assert name in operators(tuned)
    image = images(digits)[:1]
    session = onnxruntime.InferenceSession(str(digits / "digits_f32.onnx"))
    (right,) = session.run(None, {session.get_inputs()[0].name: image})
    np.testing.assert_allclose(np.asarray(tvmrt.load(tuned)(image)), right, rtol=1e-4, atol=1e-6)


def right(model, feeds):
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return session.run(None, feeds)[0]


@pytest.mark.slow
def test_entries_decide_tiles_of_layers_in_8_bits(digits, write):
    fmt = get_target("native").int8
    lanes = FORMATS[fmt].lanes
    if lanes == 1:
        pytest.skip("this processor has one tile for bytes")
    conv, depthwise = (text.replace("float32", "int8") for text in (CONV, DEPTHWISE))
    choices = {conv: Choice((lanes, 1, 3), 1, pixels=3), depthwise: Choice((lanes, 1, 2))}
    baseline = compiled(digits, "digits_int8.onnx")
    tuned = compiled(digits, "digits_int8.onnx", tuned=write(choices, level=fmt))
    assert "tvmrt_tile_i8_1x3_" not in operators(baseline)
    assert "tvmrt_tile_i8_1x3_" in operators(tuned)
    assert {row["layer"] for row in tuned.manifest["tuned"]} == {conv, depthwise}
    image = images(digits)[:1]
    model = onnx.load(digits / "digits_int8.onnx")
    found = np.asarray(tvmrt.load(tuned)(image))
    expected = right(model, {model.graph.input[0].name: image})
    np.testing.assert_allclose(found, expected, atol=0.02 * np.abs(expected).max())
    np.testing.assert_array_equal(found, np.asarray(tvmrt.load(baseline)(image)))


@pytest.mark.parametrize("op", ["ConvTranspose", "GRU"])
def test_entries_decide_tiles_of_transposed_and_recurrent_layers(write, op):
    model, x = one_layer(op)
    (layer,) = layers_of(tvmrt.compile(model).program)
    lanes = get_target("native").lanes // 2
    tile = (lanes, 1, 1)
    baseline, tuned = (
        tvmrt.compile(model),
        tvmrt.compile(model, tuned=write({layer.text: Choice(tile)})),
    )
    name = f"tvmrt_tile_f32_{lanes}x1x1"
    assert name not in operators(baseline)
    assert name in operators(tuned)
    np.testing.assert_allclose(
        np.asarray(tvmrt.load(tuned)(x)), right(model, {"x": x}), rtol=1e-4, atol=1e-5
    )


def one_layer(op: str):
    """Return a network of one operator with its weights, and an input."""
    rng = np.random.default_rng(0)
    shapes, attrs = [(8, 16, 4, 4)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    x = rng.standard_normal((1, 8, 5, 5), np.float32)
    if op == "GRU":
        shapes, attrs = [(1, 3 * 32, 8), (1, 3 * 32, 32)], {"hidden_size": 32}
        x = rng.standard_normal((6, 1, 8), np.float32)
    held = [
        onnx.numpy_helper.from_array(rng.standard_normal(shape, np.float32) / 4, f"w{i}")
        for i, shape in enumerate(shapes)
    ]
    node = onnx.helper.make_node(op, ["x", *(w.name for w in held)], ["y"], **attrs)
    info = [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)]
    outputs = [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    graph = onnx.helper.make_graph([node], "net", info, outputs, held)
    opsets = [onnx.helper.make_opsetid("", 17)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), x


def test_manifest_lists_the_used_entries(digits, write):
    lanes = get_target("native").lanes
    path = write({CONV: Choice((lanes, 1, 3)), "matmul float32 6x5 by 5x7": Choice()})
    manifest = compiled(digits, tuned=path).manifest
    level = vector_key(get_target("native")).partition(" ")[0]
    assert manifest["tuned"] == [
        {"layer": CONV, "level": level, "source": "measured",
         "choice": {"tile": [lanes, 1, 3]}},
    ]  # fmt: skip
    assert "tuned" not in manifest["options"]  # a path of the compiling machine
    assert "tuned" not in compiled(digits).manifest


def launches(library, folder, image) -> list[int]:
    """Return the number of tasks of each launch in a run with four threads, from the library's own
    runtime calls."""
    library.export_library(folder / "net.so")
    np.save(folder / "image.npy", image)
    environment = {**os.environ, "TVM_NUM_THREADS": "4", "TVM_THREAD_POOL_TRUCE": "0"}
    (folder / "spy.c").write_text(SPY)
    subprocess.run(["cc", "-shared", "-fPIC", "spy.c", "-o", "spy.so"], cwd=folder, check=True)
    environment["LD_PRELOAD"] = str(folder / "spy.so")
    done = subprocess.run(
        [sys.executable, "-c", RUN, "net.so", "image.npy"], cwd=folder, env=environment,
        capture_output=True, text=True, check=True, timeout=600,
    )  # fmt: skip
    return [int(line) for line in done.stderr.split()]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 0])
def test_a_choice_of_threads_decides_how_many_share_a_layer(digits, write, tmp_path, threads):
    bytes_, level = CONV.replace("float32", "int8"), get_target("native").int8
    floats = compiled(digits, tuned=write({CONV: Choice(threads=threads)}))
    eight = compiled(
        digits, "digits_int8.onnx", tuned=write({bytes_: Choice(threads=threads)}, level=level)
    )
    for library in (floats, eight):
        expected = {1: [], 2: [2], 0: [4]}[threads]
        assert launches(library, tmp_path, images(digits)[:1]) == expected


def test_tiles_of_other_processors_fall_back_to_the_estimate(digits, write):
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
    baseline, _ = weights()
    tuned, narrow = weights(tuned=write({product: Choice((16, 1, 8))}, level="16x32"))
    assert tuned == baseline
    assert ".packed = 32" not in narrow  # two vectors of 16, as estimated


@pytest.mark.parametrize(("square", "found"), [(1, []), (4, [4]), (2, [2])])
def test_measured_winograd_tiles_replace_the_estimate(digits, write, square, found):
    path = write({FIRST: Choice()}, square=square)
    summary = compiled(digits, tuned=path, winograd=True).summary
    assert [row.size for row in summary.winograd] == found
    assert [row.size for row in compiled(digits, tuned=path).summary.winograd] == found
    assert not compiled(digits, tuned=path, winograd=False).summary.winograd


SEARCHED = [
    "matmul float32 16x64 by 64x32",
    "matmul uint8 16x64 by 64x32",
    "conv int8 1x16x9x9 by 16x1x3x3 stride 1x1 dilation 1x1 pads 1x1 1x1 groups 16",
    "conv_transpose float32 1x8x4x4 by 8x4x4x4 stride 2x2 dilation 1x1 pads 1x1 1x1 groups 1",
    "gru float32 3x1x48 by 48x16",
]


@pytest.mark.everyday(1)
@pytest.mark.parametrize("text", SEARCHED, ids=lambda text: " ".join(text.split()[:2]))
def test_search_reports_its_trials(text):
    entry = search(text, SearchSettings(candidates=2, seconds=0.01, threads=3))
    assert entry.processor == processor.name()
    assert len({measurements.choice for measurements in entry.measurements}) == 2
    assert entry.baseline.choice == entry.measurements[0].choice
    assert entry.best.seconds <= entry.baseline.seconds
    assert entry.square == 0
    counts = [] if text.startswith("gru") else [1, 2, 0]  # cells run on the calling thread
    assert [measurements.choice.threads for measurements in entry.shared] == counts
    assert entry.best.choice.threads in (counts or [None])


def test_the_first_run_of_a_choice_does_not_count():
    """The first run finds other weights in the cache; the time of a choice is the minimum of the
    others."""
    seconds = np.array([[9.0, 9.0, 9.0], [1e-6, 5e-6, 4e-6], [7e-6, 2e-6, 3e-6]])
    data = np.int64(len(seconds)).tobytes() + seconds.tobytes()

    def run(number, repeat, least):
        assert (number, repeat, least) == (1, seconds.shape[1], 0)
        return data

    executor = SimpleNamespace(module={"run_individual": run})
    rows = measure.measure_rounds(executor, [2, 1], 0.0)
    assert rows == [[2e-6, 4e-6]] * measure.MIN_ROUNDS


def test_winograd_and_fused_layers_are_found_by_signature():
    """Their signatures equal those of a network without Winograd and row fusion."""
    layers = [("expand", (32, 8, 1, 1), 1), ("middle", (32, 1, 3, 3), 32), ("y", (16, 32, 3, 3), 1)]
    before, nodes, held = "x", [], []
    for name, shape, groups in layers:
        weights = np.random.default_rng(0).standard_normal(shape, np.float32)
        held.append(onnx.numpy_helper.from_array(weights, f"{name}_w"))
        pads, inputs = [shape[-1] // 2] * 4, [before, f"{name}_w"]
        nodes.append(onnx.helper.make_node("Conv", inputs, [name], pads=pads, group=groups))
        before = name
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, (1, channels, 12, 12))
        for name, channels in (("x", 8), ("y", 16))
    ]
    graph = onnx.helper.make_graph(nodes, "net", ends[:1], ends[1:], held)
    opsets = [onnx.helper.make_opsetid("", 17)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)
    directly = tvmrt.compile(model, winograd=False, row_chains=False).program
    other = tvmrt.compile(model, winograd=True, row_chains=True).program
    assert len(other.steps) < len(directly.steps)
    assert any(step.group.root.op == "conv_winograd" for step in other.steps)
    assert len(layers_of(directly)) == len(layers)
    assert layers_of(other) == layers_of(directly)


@pytest.mark.slow
def test_tune_measures_once_and_compile_takes_it(digits, tmp_path, capsys):
    path, model = tmp_path / "new" / "tuning.json", str(digits / "digits_f32.onnx")
    quick = ["--database", str(path), "--candidates", "2", "--seconds", "0.01", "--json"]
    quick += ["--threads", "2"]
    assert main(["tune", model, *quick]) == 0
    first = json.loads(capsys.readouterr().out)
    assert {row["layer"] for row in first["layers"]} == {CONV}
    assert first["measured"] == 1
    assert [row["threads"] for row in first["networks"]] == [1, 2]
    assert all(row["before_seconds"] > 0 for row in first["networks"])
    assert main(["tune", model, *quick]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["measured"] == 0
    assert again["layers"] == first["layers"]
    out = tmp_path / "net.so"
    assert main(["compile", model, "-o", str(out), "--tuned", str(path)]) == 0
    capsys.readouterr()
    assert main(["inspect", str(out), "--json"]) == 0
    assert CONV in capsys.readouterr().out


def test_network_with_nothing_to_search_is_reported(digits, tmp_path, capsys):
    path, model = tmp_path / "tuning.json", tmp_path / "relu.onnx"
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    ends = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, (1, 8)) for n in "xy"]
    graph = onnx.helper.make_graph([node], "net", ends[:1], ends[1:])
    opsets = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), model)
    assert main(["tune", str(model), "--database", str(path)]) == 0
    assert "nothing to search: tuning knows convolutions, products" in capsys.readouterr().err
    assert not path.exists()


def test_missing_ray_names_the_extra(digits, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    path = tmp_path / "tuning.json"
    arguments = ["--database", str(path), "--ray", "auto"]
    assert main(["tune", str(digits / "digits_f32.onnx"), *arguments]) == 2
    assert "distributing layers needs the package ray (" in capsys.readouterr().err
    assert not path.exists()

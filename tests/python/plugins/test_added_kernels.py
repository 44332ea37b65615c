"""Kernels of boards, with their headers, and tolerances of ``verify`` that plug-ins add."""

from __future__ import annotations

import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.reference
import pytest
from firmware_program import DIGITS, build, program_text, run
from installed_plugins import install
from onnx import helper
from onnx_graph import model

import tvmrt
from tvmrt import plugin
from tvmrt.cli import main
from tvmrt.compiler.sdk.codegen import Im2colBuffer, MicroKernel, MicroWeights, get_target
from tvmrt.devices import PythonDevice

CORE = replace(get_target("cortex-m4"), name="mycore", board=frozenset({"mycore"}))
HEADERS = Path("/nowhere")  # replaced by a folder of the test
HEADER = """\
#ifndef MINE_ROWS_F32_H_
#define MINE_ROWS_F32_H_

#include <tvm/runtime/kernels/board/layer_f32.h>

/* y[p][o] = bias[o] + sum of x[p][i] * w[i][o], clamped. */
static inline int mine_rows_f32_run(const tvmrt_micro_conv_f32* c, const tvmrt_micro_data_f32* d) {
  const int32_t n = c->shape.in_c, m = c->shape.out_c;
  for (int32_t p = 0; p < c->shape.layout.windows.pixels; p++) {
    for (int32_t o = 0; o < m; o++) {
      float sum = d->bias[o];
      for (int32_t i = 0; i < n; i++) {
        sum += d->x[p * c->shape.x_stride + i] * d->weights[i * m + o];
      }
      d->y[p * c->shape.y_stride + o] = sum < c->lo ? c->lo : sum > c->hi ? c->hi : sum;
    }
  }
  return 0;
}

#endif /* MINE_ROWS_F32_H_ */
"""
KERNEL = MicroKernel(
    header="board/mine_rows_f32.h",
    name="mine_rows_f32",
    cost=1.0,
    supports=lambda layer: layer.shape.pointwise and layer.only_clamps,
    pack=lambda layer: MicroWeights(np.ascontiguousarray(layer.weights.T), layer.biases),
    scratch=lambda layer: Im2colBuffer(layer.shape.elements, 0),
    required_features=frozenset({"mycore"}),
)
APART = replace(KERNEL, may_overwrite_input=False)
NUMBER = 1


class Rounding(PythonDevice):
    """Computes the absolute value, one percent too large."""

    name = "rounding"

    def supports(self, node):
        return None if node.op == "abs" else "it computes abs only"

    def compute(self, node, inputs):
        return (np.abs(inputs[0]) * np.float32(1.01)).astype(np.float32)


TWO_PERCENT = 0.02


def _use(monkeypatch, **tables) -> None:
    """Install one plug-in, with references to objects of this file, and no other."""
    added = {
        table: {key: f"{__name__}:{name}" for key, name in rows.items()}
        for table, rows in tables.items()
    }
    install(monkeypatch, plugin.Plugin("mine", "for tests", **added))


@pytest.fixture
def mine(monkeypatch, tmp_path) -> None:
    """Install a plug-in with a processor, a kernel for it, and the kernel's header."""
    folder = tmp_path / "include"
    board = folder / "tvm" / "runtime" / "kernels" / "board"
    board.mkdir(parents=True)
    (board / "mine_rows_f32.h").write_text(HEADER)
    monkeypatch.setattr(f"{__name__}.HEADERS", folder)
    _use(
        monkeypatch,
        targets={"mycore": "CORE"},
        headers={"mine": "HEADERS"},
        board_kernels={"float32/mine_rows": "KERNEL"},
    )


def test_an_added_kernel_computes_layers_of_its_processor(mine, tmp_path):
    options = {"interface_api": "c", "unpacked_api": True, "module_name": "net"}
    tvmrt.compile(DIGITS / "digits_f32.onnx", target="mycore", **options).export(tmp_path / "out")
    text = "".join(path.read_text() for path in (tmp_path / "out").glob("*.c"))
    assert text.count("mine_rows_f32_run(") == 2  # pointwise, dense
    (tmp_path / "main.c").write_text(program_text(["net"], "c"))
    sources = [tmp_path / "main.c", *sorted((tmp_path / "out").glob("*.c"))]
    program = build(tmp_path, sources, [tmp_path / "out"])
    with np.load(DIGITS / "digits_test.npz") as data:
        images = (data["images"][:20].astype(np.float32) / 16).reshape(-1, 1, 1, 8, 8)
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(DIGITS / "digits_f32.onnx")
    right = np.concatenate([session.run(None, {"image": image})[0] for image in images])
    np.testing.assert_allclose(run(program, images, 10), right, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kernel", ["KERNEL", "APART"])
def test_a_kernel_says_whether_its_output_may_overwrite_its_input(
    mine, monkeypatch, tmp_path, kernel
):
    """Outputs fit where their inputs lie. The kernel reads a pixel after it wrote a part of it."""
    tables = {"headers": {"mine": "HEADERS"}, "targets": {"mycore": "CORE"}}
    _use(monkeypatch, **tables, board_kernels={"float32/mine_rows": kernel})
    rng = np.random.default_rng(3)
    weights = {f"w{i}": rng.normal(size=(6, 6, 1, 1)).astype(np.float32) for i in range(4)}
    names = ["image", "a", "b", "c", "output"]
    nodes = [
        helper.make_node("Conv", [names[i], f"w{i}"], [names[i + 1]]) for i in range(len(weights))
    ]
    images = rng.normal(size=(5, 1, 6, 4, 4)).astype(np.float32)
    network = model(nodes, {"image": images[0]}, ["output"], weights)
    options = {"interface_api": "c", "unpacked_api": True, "module_name": "net"}
    tvmrt.compile(network, target="mycore", **options).export(tmp_path / "out")
    (tmp_path / "main.c").write_text(program_text(["net"], "c"))
    sources = [tmp_path / "main.c", *sorted((tmp_path / "out").glob("*.c"))]
    result = run(build(tmp_path, sources, [tmp_path / "out"]), images, 96)
    right = onnx.reference.ReferenceEvaluator(network)
    right = np.stack([right.run(None, {"image": image})[0].ravel() for image in images])
    assert np.allclose(result, right, 1e-4, 1e-5) == (kernel == "APART")


@pytest.mark.parametrize(
    ("table", "key", "reference", "reason"),
    [
        (
            "targets",
            "mycore",
            "NUMBER",
            "'mycore' to its targets: .*:NUMBER is not of the type Target",
        ),
        ("targets", "yours", "CORE", "adds the target yours with the name mycore; give both one"),
        (
            "board_kernels",
            "float32/mine",
            "NUMBER",
            "board_kernels: .* is not of the type MicroKernel",
        ),
        ("passes", "mine", "NUMBER", "passes: .* is not of the type GraphPass"),
    ],
)
def test_objects_of_a_wrong_type_name_plugin_and_table(monkeypatch, table, key, reference, reason):
    _use(monkeypatch, **{table: {key: reference}})
    with pytest.raises(ValueError, match=f"the plug-in mine .*{reason}"):
        tvmrt.compile(DIGITS / "digits_f32.onnx", target=key if table == "targets" else "cortex-m4")


def test_boards_of_a_wrong_type_are_refused(monkeypatch, tmp_path, capsys):
    _use(monkeypatch, boards={"myboard": "NUMBER"})
    out = str(tmp_path / "net.tar")
    assert main(["compile", str(DIGITS / "digits_f32.onnx"), "--board", "myboard", "-o", out]) == 2
    assert "adds 'myboard' to its boards" in capsys.readouterr().err


def test_archives_contain_the_header_of_an_added_kernel(mine, tmp_path):
    tvmrt.compile(DIGITS / "digits_f32.onnx", target="mycore").export(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as archive:
        name = "./runtime/include/tvm/runtime/kernels/board/mine_rows_f32.h"
        assert archive.extractfile(name).read().decode() == HEADER


def test_other_processors_do_not_use_an_added_kernel(mine):
    library = tvmrt.compile(DIGITS / "digits_f32.onnx", target="cortex-m4")
    assert not any("mine_rows" in each.text for each in library.sources.functions)


def test_flags_name_the_folder_of_added_headers(mine, capsys):
    assert main(["config", "--cflags"]) == 0
    assert f"-I{HEADERS}" in capsys.readouterr().out


def test_a_kernel_of_an_unknown_kind_is_refused(monkeypatch):
    _use(monkeypatch, board_kernels={"float/mine": "KERNEL"})
    with pytest.raises(ValueError, match="'float/mine'; its name must be int8/NAME or float32/"):
        tvmrt.compile(DIGITS / "digits_f32.onnx", target="cortex-m4")


def test_missing_headers_are_refused(monkeypatch, tmp_path):
    _use(monkeypatch, headers={"mine": "HEADERS"})
    with pytest.raises(FileNotFoundError, match=r"the plug-in mine names /nowhere .*install"):
        tvmrt.compile(DIGITS / "digits_f32.onnx", target="cortex-m4").export(tmp_path / "net.tar")


@pytest.mark.parametrize("allowed", [False, True])
def test_verify_allows_the_tolerance_of_an_operator(allowed, monkeypatch, tmp_path, capsys):
    pytest.importorskip("onnxruntime")
    tolerances = {("", "Abs"): "TWO_PERCENT"} if allowed else {}
    _use(monkeypatch, devices={"rounding": "Rounding"}, tolerances=tolerances)
    x = {"x": np.zeros((3, 5), np.float32)}
    network = model([helper.make_node("Abs", ["x"], ["y"])], x, ["y"])
    onnx.save(network, tmp_path / "net.onnx")
    code = main(["verify", str(tmp_path / "net.onnx"), "--device", "rounding"])
    assert code == (0 if allowed else 1), capsys.readouterr()

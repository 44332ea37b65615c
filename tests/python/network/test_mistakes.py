"""Errors about common mistakes name the remedy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tvmrt
from tvmrt.cli import main
from tvmrt.error import suggestion

DIGITS = Path(__file__).parents[3] / "examples/digits/digits_f32.onnx"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 132735151\n"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("aarch64", "aarch64-linux or aarch64-macos"), ("arm64", "aarch64-linux or aarch64-macos"),
     ("raspberrypi", "aarch64-linux"), ("x64", "x86-64"), ("M4", "cortex-m4"),
     ("cortex-m44", "cortex-m4"), ("wasm", "wasm32")],
)  # fmt: skip
def test_a_target_of_another_name_is_suggested(name, meant):
    with pytest.raises(ValueError, match=f"is not known; did you mean {meant}\\?$"):
        tvmrt.compile(DIGITS, target=name)


def test_suggestions_are_longer_names_then_similar_ones_then_all():
    names = ["ab-c", "ab-d", "xyz"]
    assert suggestion("ab", names) == "did you mean ab-c or ab-d?"
    assert suggestion("xyy", ["xyyz", "q"]) == "did you mean xyyz?"
    assert suggestion("?", names) == "choose from ab-c, ab-d, xyz"


@pytest.mark.parametrize("name", ["net.onnx", "net.tflite", "net.so"])
def test_a_pointer_of_git_lfs_is_named(name, tmp_path, capsys):
    (tmp_path / name).write_bytes(POINTER)
    with pytest.raises(ValueError, match=f"{name} is a pointer of git LFS.*git lfs pull"):
        tvmrt.load(tmp_path / name)
    if not name.endswith(".so"):
        assert main(["compile", str(tmp_path / name), "-o", str(tmp_path / "out.so")]) == 2
        assert "git lfs pull" in capsys.readouterr().err


def test_bytes_of_a_file_are_loaded(tmp_path):
    x = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    found = tvmrt.load(DIGITS.read_bytes())(x)
    np.testing.assert_array_equal(found, tvmrt.load(DIGITS)(x))
    for wrong in (b"", b"nothing", DIGITS.read_bytes()[:-100]):
        with pytest.raises(ValueError, match=f"these {len(wrong)} bytes are not a network"):
            tvmrt.load(wrong)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [("model.json", b'{"learner": {"attributes": {}}}', "XGBoost; read it with xgboost.Booster"),
     ("model.ubj", b"{", "XGBoost; read it"),
     ("trees.txt", b"tree\nversion=v4\n", "LightGBM; read it with lightgbm.Booster"),
     ("notes.txt", b"tree", "neither a network"), ("data.json", b"{}", "neither a network"),
     ("net.xml", b"<net/>", "OpenVINO; give the ONNX file")],
)  # fmt: skip
def test_files_of_other_libraries_are_named(name, content, words, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=words):
        tvmrt.load(tmp_path / name)


def test_weights_without_a_module_are_named():
    with pytest.raises(TypeError, match=r"weights of a module alone.*give the module"):
        tvmrt.load({"weight": np.zeros(3)})


@pytest.mark.parametrize("name", ["cuda", "GPU", "tensorrt"])
def test_a_gpu_is_answered_at_once(name):
    with pytest.raises(ValueError, match=f"device {name} is not known: tvmrt computes on GPUs by"):
        tvmrt.load(DIGITS, devices=[name])


def test_arguments_of_another_kind_are_named():
    net = tvmrt.load(DIGITS)
    with pytest.raises(ValueError, match="its rows have 1 and 2 elements"):
        net([[1, 2], [3]])
    with pytest.raises(TypeError, match="seconds is '1'; give a number"):
        net.benchmark(seconds="1")


def test_help_is_a_command(capsys):
    for words in (["help"], ["help", "compile"]):
        assert main(words) == 0
        assert capsys.readouterr().out.startswith(" ".join(["Usage: tvmrt", *words[1:]]))


def test_misspelled_rivals_and_forms_of_a_target_are_suggested(tmp_path, capsys):
    assert main(["bench", str(DIGITS), "--against", "onnxrutime"]) == 2
    assert "did you mean onnxruntime?" in capsys.readouterr().err
    out = str(tmp_path / "net.so")
    assert main(["compile", str(DIGITS), "-o", out, "--target", "wasm32"]) == 2
    assert "write a .wasm or a .js or a .tar" in capsys.readouterr().err

"""Errors about common mistakes name the remedy."""

from __future__ import annotations

import io
from collections import OrderedDict
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
     ("cortex-m44", "cortex-m4"), ("wasm", "wasm32"), ("raspberrypi4", "aarch64-linux"),
     ("jetson-nano", "aarch64-linux"), ("cortex_m4", "cortex-m4"), ("win64", "x86_64-windows"),
     ("apple-m1", "aarch64-macos"), ("llvm", "native")],
)  # fmt: skip
def test_a_target_of_another_name_is_suggested(name, meant):
    with pytest.raises(ValueError, match=f"is not known; did you mean {meant}\\?$"):
        tvmrt.compile(DIGITS, target=name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("stm32f407", 'board="stm32f4"'), ("nrf52840", 'board="nrf52"'), ("esp32", 'board="esp32"'),
     ("pico", 'board="rp2040" or board="rp2350"'), ("stm32h7", 'board="stm32h7"')],
)  # fmt: skip
def test_a_board_in_place_of_a_target_is_named(name, meant):
    with pytest.raises(ValueError, match=f"is not known; for a board, give {meant}$"):
        tvmrt.compile(DIGITS, target=name)


def test_suggestions_are_longer_names_then_similar_ones_then_all():
    names = ["ab-c", "ab-d", "xyz"]
    assert suggestion("ab", names) == "did you mean ab-c or ab-d?"
    assert suggestion("xyy", ["xyyz", "q"]) == "did you mean xyyz?"
    assert suggestion("?", names) == "choose from ab-c, ab-d, xyz"


@pytest.mark.parametrize(
    "name", ["net.onnx", "net.tflite", "net.so", "net.pt", "net.safetensors", "net.keras", "net"]
)
def test_a_pointer_of_git_lfs_is_named(name, tmp_path, capsys):
    (tmp_path / name).write_bytes(POINTER)
    with pytest.raises(ValueError, match=f"{name} is a pointer of git LFS.*git lfs pull"):
        tvmrt.load(tmp_path / name)
    if name in ("net.onnx", "net.tflite"):
        assert main(["compile", str(tmp_path / name), "-o", str(tmp_path / "out.so")]) == 2
        assert "git lfs pull" in capsys.readouterr().err


def test_bytes_of_a_file_are_loaded(tmp_path):
    x = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    found = tvmrt.load(DIGITS.read_bytes())(x)
    np.testing.assert_array_equal(found, tvmrt.load(DIGITS)(x))
    for wrong in (b"", b"nothing", DIGITS.read_bytes()[:-100]):
        with pytest.raises(ValueError, match=f"these {len(wrong)} bytes are not a network"):
            tvmrt.load(wrong)
    for wrong in (memoryview(DIGITS.read_bytes()), io.BytesIO(DIGITS.read_bytes())):
        with pytest.raises(TypeError, match="give the path of the file, or its bytes"):
            tvmrt.load(wrong)
    for function in (tvmrt.load, tvmrt.compile):
        with pytest.raises(ValueError, match="this text is the content of a file; give the path"):
            function(DIGITS.read_bytes().decode("latin1"))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [("model.json", b'{"learner": {"attributes": {}}}', "XGBoost; read it with xgboost.Booster"),
     ("model.ubj", b"{", "XGBoost; read it"),
     ("trees.txt", b"tree\nversion=v4\n", "LightGBM; read it with lightgbm.Booster"),
     ("notes.txt", b"tree", "neither a network"), ("data.json", b"{}", "neither a network"),
     ("net.xml", b"<net/>", "a model of OpenVINO; export the original model to ONNX"),
     ("net.engine", b"ftrt", "a model of TensorRT; export the original model"),
     ("net.pte", b"....ET12", "a model of another runtime; export the original model"),
     ("model.bin", b"{L......learner{", "XGBoost; read it with xgboost.Booster"),
     ("model.lgb", b"tree\nversion=v4\n", "LightGBM; read it with lightgbm.Booster"),
     ("model.cbm", b"CBM1", 'CatBoost; read it, and write it with save_model\\("net.onnx"'),
     ("model.sav", b"\x80\x04\x95", "a pickle, which can run any code .*trusted=True"),
     ("net.onnx", b"\x89HDF\r\n", "a Keras model, which can run any code .*trusted=True"),
     ("weights", b"GGUF\3", "weights without a graph; load them into the module"),
     ("weights.bin", b"\x40\0\0\0\0\0\0\0{\"w\":", "weights without a graph; load them"),
     ("w.safetensors", b"", "weights without a graph; load them into the module"),
     ("pytorch_model.bin", b"PK\3\4" + bytes(26) + b"archive/data.pkl", "a PyTorch file, which"),
     ("net.onnx", b"PK\3\4", "an archive; unpack it"), ("net.onnx.gz", b"\x1f\x8b", "an archive"),
     ("net.onnx", b"\n<!DOCTYPE html>", "a web page; download the file"),
     ("net.so", b"<html>", "a web page; download the file")],
)  # fmt: skip
def test_files_of_other_libraries_are_named(name, content, words, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=words):
        tvmrt.load(tmp_path / name)


@pytest.mark.parametrize(
    "weights", [{"weight": np.zeros(3)}, {}, OrderedDict(w=1), {"state_dict": {}, "epoch": 3}]
)
def test_weights_without_a_module_are_named(weights):
    with pytest.raises(TypeError, match=r"weights of a module alone.*give the module"):
        tvmrt.load(weights)


@pytest.mark.parametrize("name", ["cuda", "GPU", "tensorrt", "cuda:0", "CUDAExecutionProvider"])
def test_a_gpu_is_answered_at_once(name):
    with pytest.raises(ValueError, match=f"device {name} is not known: tvmrt computes on GPUs by"):
        tvmrt.load(DIGITS, devices=[name])
    with pytest.raises(TypeError, match=f'devices="{name}": tvmrt computes on GPUs by the device'):
        tvmrt.load(DIGITS, devices=name)
    with pytest.raises(ValueError, match=f'target="{name}" is not known; tvmrt computes on GPUs'):
        tvmrt.compile(DIGITS, target=name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("net.sos", ".so"), ("net.dylb", ".dylib"), ("net.c.txt", ".c"), ("net.so.1", ".so"),
     ("net.tar.gz", ".tar"), ("net.dll2", ".dll"), ("net.wasm2", ".wasm")],
)  # fmt: skip
def test_a_suffix_near_a_known_one_is_no_folder(name, meant, tmp_path, capsys):
    with pytest.raises(ValueError, match=f"did you mean {meant}\\? Otherwise use"):
        tvmrt.compile(DIGITS).export(tmp_path / name)
    assert main(["compile", str(DIGITS), "-o", str(tmp_path / name)]) == 2
    assert f"did you mean {meant}? Otherwise" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_batches_of_no_rows():
    net, empty = tvmrt.load(DIGITS), np.zeros((0, 1, 8, 8), np.float32)
    with pytest.raises(ValueError, match=r'shapes=\{"image": \("N=0..1", 1, 8, 8\)\}'):
        net(empty)
    assert tvmrt.load(DIGITS, shapes={"image": ("N=0..1", 1, 8, 8)})(empty).shape == (0, 10)
    bounded = tvmrt.load(DIGITS, shapes={"image": ("N=1..2", 1, 8, 8)})
    with pytest.raises(ValueError, match=r'dims=\{"N": \(0, 2\)\}'):
        bounded(empty)


def test_arguments_of_another_kind_are_named():
    net = tvmrt.load(DIGITS)
    for ragged in ([[1, 2], [3]], [[[1], [2]], [[1, 2], [3]]], [np.zeros(1), np.zeros(2)]):
        with pytest.raises(ValueError, match="its rows have 1 and 2 elements"):
            net(ragged)
    for seconds in ("1", None, -1, float("nan"), float("inf")):
        with pytest.raises(TypeError, match=f"seconds is {seconds!r}; give a number"):
            net.benchmark(seconds=seconds)
    for path in ("net.html", Path("net.html")):
        with pytest.raises(TypeError, match=r"write the page with report\(\).save\(path\)"):
            net.report(path)


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

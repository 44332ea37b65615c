"""Invalid requests give a one-sentence error and exit code 2, and no file is lost."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tvmrt.cli import app

IMAGE = np.zeros((1, 1, 8, 8), np.float32)


def _save_network(path: Path, nodes: list[onnx.NodeProto], inputs=("x",), dims=(1, 4)) -> Path:
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, dims) for n in inputs]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "net", values, [output])
    opset = [helper.make_opsetid("", 17), helper.make_opsetid("some.vendor", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    return path


@pytest.fixture
def output(tmp_path) -> Path:
    """Return an existing output file, which must stay unchanged and alone in its folder."""
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "net.so"
    path.write_text("the library of yesterday")
    yield path
    assert path.read_text() == "the library of yesterday"
    assert [entry.name for entry in folder.iterdir()] == ["net.so"]


def _truncated(folder: Path, digits: Path) -> Path:
    path = folder / "cut.onnx"
    path.write_bytes((digits / "digits_f32.onnx").read_bytes()[:5000])
    return path


def _text(folder: Path, _digits: Path) -> Path:
    path = folder / "notes.onnx"
    path.write_text("These are my notes on the network.\n" * 20)
    return path


def _empty(folder: Path, _digits: Path) -> Path:
    path = folder / "empty.onnx"
    path.write_bytes(b"")
    return path


def _unknown(folder: Path, _digits: Path) -> Path:
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="first", domain="some.vendor"),
        helper.make_node("Transmogrify", ["a"], ["y"], name="second", domain="some.vendor"),
    ]
    return _save_network(folder / "unknown.onnx", nodes)


def _contradictory(folder: Path, _digits: Path) -> Path:
    nodes = [helper.make_node("MatMul", ["x", "z"], ["y"], name="product")]
    return _save_network(folder / "shapes.onnx", nodes, inputs=("x", "z"))


def _without_rank(folder: Path, _digits: Path) -> Path:
    nodes = [helper.make_node("Relu", ["x"], ["y"], name="relu")]
    return _save_network(folder / "rank.onnx", nodes, dims=None)


def _external(folder: Path, digits: Path) -> Path:
    path = folder / "external.onnx"
    model = onnx.load(digits / "digits_f32.onnx")
    onnx.save(model, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    (folder / "w.bin").unlink()
    return path


@pytest.mark.everyday(3)
@pytest.mark.parametrize(
    ("make", "words"),
    [
        pytest.param(_truncated, ["cut.onnx"], id="truncated"),
        pytest.param(_text, ["notes.onnx"], id="text"),
        pytest.param(_empty, ["empty.onnx"], id="empty"),
        pytest.param(_unknown, ["Frobnicate", "first", "Transmogrify", "second"], id="unknown"),
        pytest.param(_contradictory, ["product"], id="contradictory-shapes"),
        pytest.param(_without_rank, ["rank", "--shape x=1"], id="open-rank"),
        pytest.param(_external, ["w.bin"], id="missing-external-weights"),
    ],
)
@pytest.mark.parametrize("command", ["compile", "verify", "bench"])
def test_bad_network(complaint, tmp_path, digits, output, make, words, command):
    path = make(tmp_path, digits)
    arguments = ["-o", output] if command == "compile" else []
    sentence = complaint(command, path, *arguments)
    assert [word for word in words if word not in sentence] == []


@pytest.mark.everyday(3)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(["--cc", "no-such-cc"], ["no-such-cc"], id="missing-compiler"),
        pytest.param(["--cc", "false"], ["false"], id="failing-compiler"),
        pytest.param(["--target", "pdp-11"], ["pdp-11"], id="unknown-target"),
        pytest.param(["--shape", "picture=1,2"], ["picture", "image"], id="shape-of-no-input"),
        pytest.param(["--shape", "image=1,1,9"], ["image"], id="shape-against-the-file"),
        pytest.param(["--module-name", "two words"], ["two words"], id="module-name"),
        pytest.param(["--interface-api", "c"], ["host"], id="c-interface-on-a-host"),
        pytest.param(["--device", "abacus"], ["abacus"], id="unknown-device"),
        pytest.param(["--require-device", "abacus"], ["abacus"], id="unknown-required-device"),
    ],
)
def test_unsupported_requests_are_refused(complaint, digits, output, arguments, words):
    sentence = complaint("compile", digits / "digits_f32.onnx", "-o", output, *arguments)
    assert [word for word in words if word not in sentence] == []


def test_machine_without_a_compiler(complaint, digits, output, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['ziglang'] = None\n")
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(tmp_path)}
    environment.pop("CC", None)
    sentence = complaint("compile", digits / "digits_f32.onnx", "-o", output, env=environment)
    assert "ziglang" in sentence


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("none/net.so", ["none"], id="folder-missing"),
        pytest.param("folder.so", ["folder.so"], id="folder-in-the-way"),
        pytest.param("mine", ["mine", "thesis.txt"], id="folder-of-the-user"),
    ],
)
def test_unwritable_output(complaint, digits, tmp_path, name, words):
    (tmp_path / "folder.so").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    sentence = complaint("compile", digits / "digits_f32.onnx", "-o", tmp_path / name)
    assert [word for word in words if word not in sentence] == []
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_output_to_a_device_file_does_not_replace_it(complaint, digits):
    assert "/dev/null" in complaint("compile", digits / "digits_f32.onnx", "-o", "/dev/null")
    assert not Path("/dev/null").is_file()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_output_without_permission(complaint, digits, output):
    output.parent.chmod(0o555)
    try:
        sentence = complaint("compile", digits / "digits_f32.onnx", "-o", output)
    finally:
        output.parent.chmod(0o755)
    assert str(output) in sentence


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 KiB; skips where this user may not mount one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
    try:
        mounted = subprocess.run(command, check=False, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("may not mount a small file system here")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_full_disk(complaint, digits, small_disk):
    path = small_disk / "net.so"
    path.write_bytes(b"x" * 60_000)
    sentence = complaint("compile", digits / "digits_f32.onnx", "-o", path)
    assert "No space left on device" in sentence  # the linker's error, not only a failure
    assert path.read_bytes() == b"x" * 60_000
    assert list(small_disk.iterdir()) == [path]


def test_full_temporary_disk_is_named(digits, small_disk, output, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(small_disk))
    (small_disk / "filled").write_bytes(b"x" * 60_000)
    command = ["compile", str(digits / "digits_f32.onnx"), "-o", str(output)]
    assert app.run(command) == app.CANNOT
    sentence = capsys.readouterr().err
    assert "No space left on device" in sentence and str(small_disk) in sentence


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "command",
    [
        ["bench", "net.onnx", "--seconds"],
        ["inspect", "net.onnx", "--board", "nrf52", "--clock"],
    ],
    ids=lambda command: " ".join(command[:1] + command[-1:]),
)
def test_non_finite_numbers_are_refused(capsys, command, value):
    assert app.run([*command, value]) == app.CANNOT
    sentence = capsys.readouterr().err
    assert command[-1] in sentence and value in sentence


@pytest.mark.parametrize(
    "last",
    ["collect2: error: ld returned 1 exit status", "clang: error: linker command failed"],
    ids=["gcc", "clang"],
)
def test_linker_error_is_reported(complaint, digits, output, tmp_path, last):
    compiler = tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\necho 'm.c: undefined reference to g\n{last}' >&2; exit 1\n")
    compiler.chmod(0o755)
    sentence = complaint("compile", digits / "digits_f32.onnx", "-o", output, "--cc", compiler)
    assert "undefined reference to g" in sentence and last not in sentence


def test_dim_option_for_a_fixed_shape_network(complaint, digits, output):
    net = digits / "digits_f32.onnx"
    sentence = complaint("compile", net, "-o", output, "--dim", "batch=1..8")
    assert "all of its dimensions are fixed" in sentence


def test_given_and_random_inputs_conflict(complaint, tmp_path):
    path = tmp_path / "net.so"
    path.write_bytes(b"")
    assert "not both" in complaint("run", path, "--random", "--inputs", "in.npz")


def _limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (128, 128))  # less than the size of an array


@pytest.fixture(scope="module")
def library(tmp_path_factory, digits) -> Path:
    """Return the digits network as a library."""
    path = tmp_path_factory.mktemp("library") / "digits.so"
    command = [sys.executable, "-m", "tvmrt", "compile", digits / "digits_f32.onnx", "-o", path]
    subprocess.run(command, check=True, capture_output=True, timeout=600)
    return path


@pytest.fixture
def inputs(tmp_path) -> Path:
    """Return inputs for the digits network."""
    np.savez(tmp_path / "in.npz", image=IMAGE)
    return tmp_path / "in.npz"


def test_outputs_that_do_not_fit_on_the_disk(complaint, library, inputs, tmp_path):
    path = tmp_path / "out" / "answer.npz"
    path.parent.mkdir()
    path.write_text("old")
    sentence = complaint(
        "run", library, "--inputs", inputs, "--outputs", path, preexec_fn=_limit_file_size
    )
    assert "answer.npz" in sentence
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.everyday(3)
@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        pytest.param({"picture": IMAGE}, ["picture", "image"], id="wrong-name"),
        pytest.param({}, ["image"], id="missing"),
        pytest.param({"image": IMAGE, "mask": IMAGE}, ["mask"], id="one-too-many"),
        pytest.param({"image": IMAGE[0]}, ["image", "[1, 8, 8]"], id="wrong-rank"),
        pytest.param({"image": np.zeros((1, 1, 8, 9), np.float32)}, ["9"], id="wrong-shape"),
        pytest.param({"image": IMAGE.astype(np.float64)}, ["float64", "float32"], id="wrong-type"),
    ],
)
def test_wrong_inputs(complaint, library, digits, tmp_path, arrays, words):
    path = tmp_path / "in.npz"
    np.savez(path, **arrays)
    for arguments in (["run", library], ["verify", digits / "digits_f32.onnx"]):
        sentence = complaint(*arguments, "--inputs", path)
        assert [word for word in [*words, "in.npz"] if word not in sentence] == []


def _npz(name: str, member: bytes) -> bytes:
    """Return an archive of one compressed member with a correct checksum."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, member)
    return out.getvalue()


def _npy(head: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(64)


@pytest.mark.parametrize(
    "archive",
    [
        pytest.param(
            _npz("image.npy", _npy(b"{'descr': '<f4', 'shape': (")), id="head-without-end"
        ),
        pytest.param(
            _npz(
                "image.npy", _npy(b"{'descr': '<f4', 'fortran_order': False, 'shape': (1 << 40,)}")
            ),
            id="head-with-arithmetic",
        ),
        pytest.param(
            _npz("image.npy", bytes(300)).replace(b"image.npyc", b"image.npy\xff"),
            id="packed-bytes-damaged",
        ),
    ],
)
def test_inputs_of_a_damaged_archive(complaint, library, tmp_path, archive):
    path = tmp_path / "in.npz"
    path.write_bytes(archive)
    assert "in.npz is not an .npz archive of arrays" in complaint("run", library, "--inputs", path)


def test_inputs_that_are_not_an_archive(complaint, library, tmp_path):
    (tmp_path / "in.npz").write_text("not an archive")
    assert "in.npz" in complaint("run", library, "--inputs", tmp_path / "in.npz")
    assert "none.npz" in complaint("run", library, "--inputs", tmp_path / "none.npz")


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _scribble(data: bytes) -> bytes:
    return b"\x7fELF" + bytes(len(data) - 4)


@pytest.mark.parametrize("damage", [_cut, _scribble, lambda _data: b"", lambda _data: b"text"],
                         ids=["truncated", "zeroed", "empty", "text"])  # fmt: skip
def test_damaged_library(complaint, library, inputs, tmp_path, damage):
    path = tmp_path / "damaged.so"
    path.write_bytes(damage(library.read_bytes()))
    assert "damaged.so" in complaint("run", path, "--inputs", inputs)


def test_library_without_a_network(complaint, inputs, tmp_path):
    (tmp_path / "empty.c").write_text("int nothing;\n")
    path = tmp_path / "empty.so"
    command = ["cc", "-shared", "-fPIC", "-o", path, tmp_path / "empty.c"]
    subprocess.run(command, check=True)
    assert "empty.so contains functions but no network" in complaint(
        "run", path, "--inputs", inputs
    )

"""Reading arrays, and atomic writes that keep the old file on failure."""

from __future__ import annotations

import errno

import numpy as np
import pytest

from tvmrt.cli import files, main


def test_arrays_come_back_by_name(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.int8).reshape(2, 3), "out:b": np.float32(1.5)}
    files.save_arrays(tmp_path / "x.npz", arrays)
    loaded = files.load_arrays(tmp_path / "x.npz")
    assert loaded.keys() == arrays.keys()
    np.testing.assert_array_equal(loaded["a"], arrays["a"])
    assert files.load_inputs(tmp_path / "x.npz").keys() == {"a"}


def _text(path):
    path.write_text("this is not an archive")


def _truncated(path):
    np.savez(path, x=np.zeros(1000))
    path.write_bytes(path.read_bytes()[:500])


def _objects(path):
    np.savez(path, x=np.array([{}, []], dtype=object))


def _single(path):
    np.save(path.open("wb"), np.zeros(3))


@pytest.mark.parametrize("write", [_text, _truncated, _objects, _single])
def test_damaged_archive_is_a_value_error_with_its_name(tmp_path, write):
    path = tmp_path / "bad.npz"
    write(path)
    with pytest.raises(ValueError, match=r"bad\.npz is not an \.npz archive"):
        files.load_arrays(path)


def test_missing_archive_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        files.load_arrays(tmp_path / "none.npz")


class _Unwritable:
    """Array-like object that raises half way through a file."""

    def __array__(self, dtype=None, copy=None):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_interrupted_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "x.npz"
    path.write_text("old")
    with pytest.raises(OSError, match=r"No space left on device.*x\.npz"):
        files.save_arrays(path, {"a": np.zeros(10_000), "b": _Unwritable()})
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_unwritable_place_is_named(tmp_path):
    with pytest.raises(OSError, match="none"):
        files.save_arrays(tmp_path / "none" / "x.npz", {"a": np.zeros(1)})


@pytest.mark.parametrize(
    "command",
    [
        "weights net.onnx --for net.tar -o net.tar",
        "weights net.onnx --for net.tar -o net.onnx",
        "weights net.onnx --for net.tar -o ./link.bin",
        "run net.onnx --inputs in.npz --outputs in.npz",
    ],
)
def test_command_does_not_replace_its_inputs(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("net.onnx", "other.onnx", "net.tar", "in.npz"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link.bin").symlink_to("net.tar")
    before = {path: path.read_text() for path in tmp_path.iterdir()}
    assert main(command.split()) == 2
    output = command.rsplit(maxsplit=1)[1].removeprefix("./")
    assert f"{output} is an input of this command" in capsys.readouterr().err
    assert {path: path.read_text() for path in tmp_path.iterdir()} == before

"""What is compiled is found again, and only where nothing that it depends on has changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt.network.cache import Cache


def _write(path: Path, factor: float, external: bool = False) -> Path:
    """A network that multiplies by a number."""
    about = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4]) for n in ("x", "y")]
    weight = onnx.numpy_helper.from_array(np.full(4, factor, np.float32), "w")
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "times", about[:1], about[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0}
    (path.parent / "w.bin").unlink(missing_ok=True)
    onnx.save(model, path, **(data if external else {}))
    return path


def _libraries(cache: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in cache.glob("*/network.so")}


def _one(net: tvmrt.Network) -> float:
    return float(net(np.ones(4, np.float32))[0])


def test_other_flags_are_another_entry(tmp_path, monkeypatch):
    path, cache = _write(tmp_path / "a.onnx", 2), tmp_path / "cache"
    for flags, entries in (("-O1", 1), ("-O1", 1), ("-O0", 2)):
        monkeypatch.setenv("TVMRT_CFLAGS", flags)
        assert _one(tvmrt.load(path, cache=cache)) == 2
        assert len(_libraries(cache)) == entries


def test_the_second_time_nothing_is_compiled(tmp_path):
    path, cache = _write(tmp_path / "a.onnx", 2), tmp_path / "cache"
    assert _one(tvmrt.load(path, cache=cache)) == 2
    before = _libraries(cache)
    program = (
        f"import sys, numpy, tvmrt\nnet = tvmrt.load({str(path)!r})\n"
        "assert net(numpy.ones(4, numpy.float32))[0] == 2\n"
        "late = 'onnx', 'tvmrt.pipeline', 'tvmrt.ir', 'difflib', 'html', 'tvmrt.network.measure'\n"
        "print(*(name for name in late if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "TVMRT_CACHE": str(cache)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == ""  # neither the compiler nor what only other calls need
    assert len(before) == 1
    assert _libraries(cache) == before


CHANGES = {
    "network": lambda path: (_write(path, 3), {}),
    "weights in another file": lambda path: (_write(path, 3, external=True), {}),
    "options": lambda path: (path, {"executor": "aot"}),
    "compiler": lambda path: (path, {"cc": "cc -g0"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_is_compiled_anew(change, tmp_path):
    external = change.startswith("weights")
    path, cache = _write(tmp_path / "a.onnx", 2, external), tmp_path / "cache"
    assert _one(tvmrt.load(path, cache=cache)) == 2
    before = path.read_bytes(), _libraries(cache)
    path, options = CHANGES[change](path)
    assert (path.read_bytes() == before[0]) == (change != "network")
    assert _one(tvmrt.load(path, cache=cache, **options)) == (2 if options else 3)
    assert _libraries(cache) != before[1]


@pytest.mark.parametrize("file", ["network.so", "facts.json"])
@pytest.mark.parametrize("damage", ["cut", "other", "gone"])
def test_a_damaged_entry_is_compiled_anew(file, damage, tmp_path):
    path, cache = _write(tmp_path / "a.onnx", 2), tmp_path / "cache"
    tvmrt.load(path, cache=cache)
    (entry,) = cache.glob("*/" + file)
    data = entry.read_bytes()
    entry.unlink()  # the library is in use: another file in its place
    if damage != "gone":
        entry.write_bytes(data[: len(data) // 2] if damage == "cut" else b"[1]")
    assert _one(tvmrt.load(path, cache=cache)) == 2
    assert entry.exists()


def test_without_a_cache_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TVMRT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert _one(tvmrt.load(_write(tmp_path / "a.onnx", 2), cache=False)) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.onnx"]


def test_what_was_not_used_for_longest_goes_first(tmp_path):
    cache = Cache(tmp_path, most_bytes=2500)
    for number, key in enumerate("abc"):
        cache.add(key, lambda folder: (folder / "data").write_bytes(bytes(1000)))
        os.utime(tmp_path / key / "used", (number, number))
        cache.find("a")
    assert cache.find("a") is not None
    assert cache.find("b") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c"]


def test_a_failure_leaves_nothing_behind(tmp_path):
    cache = tmp_path / "cache"
    with pytest.raises(tvmrt.error.CompileError):
        tvmrt.load(_write(tmp_path / "a.onnx", 2), cc="false", cache=cache)
    assert list(cache.iterdir()) == []


def test_compiled_files_are_taken_as_they_are(tmp_path):
    path = _write(tmp_path / "a.onnx", 2)
    library = tvmrt.compile(path, executor="aot", module_name="twice")
    library.export_library(tmp_path / "a.so")
    assert _one(tvmrt.load(library)) == 2
    assert _one(tvmrt.load(tmp_path / "a.so")) == 2
    with pytest.raises(ValueError, match="is compiled already; give no options"):
        tvmrt.load(tmp_path / "a.so", executor="graph")
    with pytest.raises(FileNotFoundError, match=r"b\.so"):
        tvmrt.load(tmp_path / "b.so")

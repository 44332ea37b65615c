"""The compile cache: entries are reused only if all of their inputs are unchanged."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt.error import TvmrtWarning
from tvmrt.network import cache as cache_module
from tvmrt.network import loading
from tvmrt.network.cache import MARK, Cache


def _write(path: Path, factor: float, external: bool = False) -> Path:
    """Write a network that multiplies by a number."""
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


def test_second_load_compiles_nothing(tmp_path):
    path, cache = _write(tmp_path / "a.onnx", 2), tmp_path / "cache"
    assert _one(tvmrt.load(path, cache=cache)) == 2
    before = _libraries(cache)
    program = (
        f"import sys, numpy, tvmrt\nnet = tvmrt.load({str(path)!r})\n"
        "assert net(numpy.ones(4, numpy.float32))[0] == 2\n"
        "late = 'onnx', 'tvmrt.compiler.pipeline', 'tvmrt.compiler.ir', 'difflib', 'html'\n"
        "late += ('tvmrt.network.measure',)\n"
        "print(*(name for name in late if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "TVMRT_CACHE": str(cache)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == ""  # neither the compiler nor modules that only other calls need
    assert len(before) == 1
    assert _libraries(cache) == before


CHANGES = {
    "network": lambda path: (_write(path, 3), {}),
    "weights in another file": lambda path: (_write(path, 3, external=True), {}),
    "options": lambda path: (path, {"executor": "aot"}),
    "compiler": lambda path: (path, {"cc": "cc -g0"}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_trigger_recompilation(change, tmp_path):
    external = change.startswith("weights")
    path, cache = _write(tmp_path / "a.onnx", 2, external), tmp_path / "cache"
    assert _one(tvmrt.load(path, cache=cache)) == 2
    before = path.read_bytes(), _libraries(cache)
    path, options = CHANGES[change](path)
    assert (path.read_bytes() == before[0]) == (change != "network")
    assert _one(tvmrt.load(path, cache=cache, **options)) == (2 if options else 3)
    assert _libraries(cache) != before[1]


@pytest.mark.parametrize("file", ["network.so", "facts.json"])
@pytest.mark.parametrize("damage", ["cut", "other", "gone", "bytes"])
def test_damaged_entry_is_recompiled(file, damage, tmp_path):
    path, cache = _write(tmp_path / "a.onnx", 2), tmp_path / "cache"
    tvmrt.load(path, cache=cache)
    (entry,) = cache.glob("*/" + file)
    data = entry.read_bytes()
    changed = bytearray(data)
    changed[len(data) // 2 : len(data) // 2 + 8] = b"\xa5" * 8
    entry.unlink()  # the library is in use: replace it by another file
    if damage != "gone":
        written = {"cut": data[: len(data) // 2], "other": b"[1]", "bytes": bytes(changed)}
        entry.write_bytes(written[damage])
    assert _one(tvmrt.load(path, cache=cache)) == 2
    assert len(entry.read_bytes()) == len(data)


@pytest.mark.parametrize("mark", [b"", b"{", b"[1]", b"null", b'{"key": 1}', b"\xff\xfe", None])
def test_entry_with_a_damaged_mark_is_recompiled(mark, tmp_path):
    path, cache = _write(tmp_path / "a.onnx", 2), tmp_path / "cache"
    tvmrt.load(path, cache=cache)
    (library,) = _libraries(cache)
    text = (library.parent / MARK).read_text()
    changed = text.replace(library.parent.name, "0" * 40).encode() if mark is None else mark
    (library.parent / MARK).write_bytes(changed)
    assert _one(tvmrt.load(path, cache=cache)) == 2
    assert library.parent.name in (library.parent / MARK).read_text()
    assert _noted(lambda: tvmrt.load(path, cache=cache)) == []


@pytest.mark.parametrize("what", ["folders", "libraries", "all but marks", "copied", "linked"])
def test_exchanged_entries_are_noticed(what, tmp_path):
    """Each network has its own result, whatever was renamed or copied in the cache."""
    cache = tmp_path / "cache"
    paths = [_write(tmp_path / f"{factor}.onnx", factor) for factor in (2, 3)]
    folders = []
    for path in paths:
        tvmrt.load(path, cache=cache)
        folders += [each for each in cache.iterdir() if each not in folders]
    first, second = folders
    if what == "copied":
        shutil.rmtree(first)
        shutil.copytree(second, first)
    elif what == "linked":
        shutil.rmtree(first)
        first.symlink_to(second)
    elif what == "folders":
        _exchange(first, second)
    else:
        for name in ["network.so"] if what == "libraries" else ["network.so", "facts.json"]:
            _exchange(first / name, second / name)
    assert [_one(tvmrt.load(path, cache=cache)) for path in paths] == [2, 3]


def _exchange(first: Path, second: Path) -> None:
    aside = first.with_name("aside")
    for source, target in ((first, aside), (second, first), (aside, second)):
        source.rename(target)


def test_without_a_cache_nothing_is_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("TVMRT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert _one(tvmrt.load(_write(tmp_path / "a.onnx", 2), cache=False)) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.onnx"]


def test_least_recently_used_entry_is_evicted_first(tmp_path):
    cache = Cache(tmp_path, max_bytes=2500)
    for number, key in enumerate("abc"):
        cache.add(key, lambda folder: (folder / "data").write_bytes(bytes(1000)))
        os.utime(tmp_path / key / MARK, (number, number))
        cache.find("a")
    assert cache.find("a") is not None
    assert cache.find("b") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "c"]


def test_failure_leaves_no_files(tmp_path):
    cache = tmp_path / "cache"
    with pytest.raises(tvmrt.error.CompileError):
        tvmrt.load(_write(tmp_path / "a.onnx", 2), cc="false", cache=cache)
    assert list(cache.iterdir()) == []


def test_compiled_files_are_loaded_directly(tmp_path):
    path = _write(tmp_path / "a.onnx", 2)
    library = tvmrt.compile(path, executor="aot", module_name="twice")
    library.export_library(tmp_path / "a.so")
    assert _one(tvmrt.load(library)) == 2
    assert _one(tvmrt.load(tmp_path / "a.so")) == 2
    with pytest.raises(ValueError, match="is already compiled; options do not apply"):
        tvmrt.load(tmp_path / "a.so", executor="graph")
    with pytest.raises(FileNotFoundError, match=r"b\.so"):
        tvmrt.load(tmp_path / "b.so")


def _noted(call) -> list[str]:
    """Return the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(each.message) for each in caught if issubclass(each.category, TvmrtWarning)]


@pytest.mark.parametrize("place", ["file", "proc", "no home"])
def test_network_runs_without_a_writable_cache(place, tmp_path, monkeypatch):
    path = _write(tmp_path / "a.onnx", 2)
    monkeypatch.setattr(loading, "_WARNED", set())
    monkeypatch.delenv("TVMRT_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    options = {}
    if place == "no home":
        monkeypatch.setattr(Path, "home", _without_home)
    elif place == "file":
        options["cache"] = path / "cache"
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", "/proc/self/none")
        monkeypatch.setenv("CCACHE_DISABLE", "1")  # ccache would create its own folder there
    said = _noted(lambda: _check_twice(lambda: tvmrt.load(path, **options)))
    assert len(said) == 1
    assert "cache=" in said[0] and "TVMRT_CACHE" in said[0]
    assert said[0].startswith("the compiled network cannot be stored in ")


def _without_home() -> Path:
    raise RuntimeError("Could not determine home directory.")


def _check_twice(load) -> None:
    for _ in "ab":
        assert _one(load()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("options", ["remount,ro", "size=20k", "noexec"])
def test_network_runs_on_an_unwritable_filesystem(options, tmp_path):
    """Read-only, full, and noexec filesystems, each mounted for one process."""
    medium, path = tmp_path / "medium", _write(tmp_path / "a.onnx", 2)
    medium.mkdir()
    mount = f'mount -t tmpfs -o {options} none "$1"'
    if options == "remount,ro":
        mount = f'mount -t tmpfs none "$1" && mount -o {options} "$1"'
    program = (
        f"import numpy, tvmrt\nassert tvmrt.load({str(path)!r}, cache={str(medium)!r})"
        "(numpy.ones(4, numpy.float32))[0] == 2"
    )
    command = [
        "unshare", "-rm", "sh", "-c", f'{mount} && shift && exec "$@"', "sh", medium,
        sys.executable, "-c", program,
    ]  # fmt: skip
    able = shutil.which("unshare") and subprocess.run([*command[:6], medium, "true"], check=False)
    if not able or able.returncode != 0:
        pytest.skip("this system lets its users mount nothing")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "the compiled network cannot be stored" in done.stderr


def test_compiler_failure_on_a_full_disk_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "MIN_FREE_BYTES", 1 << 62)
    with pytest.raises(tvmrt.error.CompileError):
        tvmrt.load(_write(tmp_path / "a.onnx", 2), cc="false", cache=tmp_path / "cache")


def _left(cache: Path, process: int, hours: float, host: str = "") -> Path:
    """Create a folder as a process does that begins to write an entry."""
    folder = cache / f".new-{host or cache_module._host()}-{process}-{hours}"
    folder.mkdir(parents=True)
    (folder / MARK).touch()
    (folder / "network.so").write_bytes(bytes(100))
    when = time.time() - hours * 3600
    for path in (folder / MARK, folder / "network.so", folder):
        os.utime(path, (when, when))
    return folder


def test_files_of_killed_processes_are_removed(tmp_path):
    """Old files of dead processes are removed; files still being written are kept."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process.kill()
    process.communicate()
    dead, cache = process.pid, Cache(tmp_path)
    stay = [(os.getpid(), 99.0), (dead, 0.5), (1, 2.0, "x")]
    go = [(dead, 2.0), (1, 30.0, "x")]
    kept, old = ([_left(tmp_path, *each) for each in some] for some in (stay, go))
    unnamed = tmp_path / ".new-abcdefgh"  # its name has no process
    unnamed.mkdir()
    (unnamed / MARK).touch()
    os.utime(unnamed / MARK, (0, 0))
    cache.add("a", lambda folder: None)
    assert all(path.exists() for path in kept)
    assert not any(path.exists() for path in (*old, unnamed))


@pytest.mark.parametrize("how", ["prune", "clear"])
def test_only_what_has_the_mark_is_removed(how, tmp_path):
    """A cache in a folder of other files deletes none of them, whatever their names are."""
    other = [
        "photos/used", "photos/network.so", f"{'ab' * 20}/network.so", f"{'ab' * 20}/used",
        f"deep/photos/{MARK}", f".new-{cache_module._host()}-1-x/network.so", "network.so", MARK,
    ]  # fmt: skip
    for name in other:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(bytes(5000))
        os.utime(tmp_path / name, (0, 0))
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (outside / MARK).touch()
    (tmp_path / "link").symlink_to(outside)
    cache = Cache(tmp_path, max_bytes=10)
    for key in "ab":
        cache.add(key, lambda folder: (folder / "network.so").write_bytes(bytes(1000)))
    if how == "clear":
        (tmp_path / "b" / "notes").mkdir()  # not written by the cache
        (tmp_path / "b" / "notes" / "mine").touch()
        with pytest.raises(PermissionError, match="b cannot be removed; check the permissions"):
            cache.clear()
        assert (tmp_path / "b" / "notes" / "mine").exists()
    assert all((tmp_path / name).exists() for name in other)
    assert (outside / MARK).exists() and not (tmp_path / "a").exists()


@pytest.mark.slow
def test_folder_of_a_killed_compilation_is_recognised(tmp_path):
    """Use the folder name that a process really writes."""
    program = (
        "import sys, time\nfrom tvmrt.network.cache import Cache\n"
        "Cache(sys.argv[1]).add('a', lambda folder: (print(folder, flush=True), time.sleep(600)))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, tmp_path], stdout=subprocess.PIPE, text=True
    )
    folder = Path(process.stdout.readline().strip())
    os.utime(folder / MARK, (0, 0))
    assert Cache(tmp_path).leftovers() == []  # still being written
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert [left.folder for left in Cache(tmp_path).leftovers()] == [folder]


@pytest.mark.parametrize("what", ["dangling", "loop", "file", "folder", "link"])
def test_what_has_the_name_of_an_entry_is_kept(what, tmp_path, monkeypatch):
    """Something that the cache did not write stays; the network is compiled without the cache."""
    path, cache = _write(tmp_path / "a.onnx", 2), tmp_path / "cache"
    monkeypatch.setattr(loading, "_WARNED", set())
    tvmrt.load(path, cache=cache)
    (library,) = _libraries(cache)
    entry, other = library.parent, tmp_path / "other"
    shutil.rmtree(entry)
    if what == "file":
        entry.write_bytes(b"?")
    elif what == "folder":
        entry.mkdir()
        (entry / "network.so").write_bytes(b"?")
    else:
        if what == "link":
            other.mkdir()
            (other / "mine").write_bytes(b"!")
        entry.symlink_to(entry if what == "loop" else other)
    (said,) = _noted(lambda: _check_twice(lambda: tvmrt.load(path, cache=cache)))
    assert f"{entry.name} is not an entry of the cache; remove it" in said
    assert os.path.lexists(entry) and entry.is_symlink() == (what in ("dangling", "loop", "link"))
    assert what != "link" or (other / "mine").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
@pytest.mark.parametrize(
    ("owner", "mode"), [(4242, 0o755), (4242, 0o777), (4242, 0o700), (0, 0o777), (1717, 0o770)]
)
def test_folder_of_another_user_is_rejected(owner, mode, tmp_path, monkeypatch):
    """An explicit folder is an error; a default one is just not used."""
    path, cache = _write(tmp_path / "a.onnx", 2), tmp_path / "tvmrt"
    assert _one(tvmrt.load(path, cache=cache)) == 2
    cache.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: 1717)
    monkeypatch.setattr(cache_module, "_owner", lambda folder: owner)
    why = f"belongs to user {owner}" if owner == 4242 else "may be written to by other users"
    sentence = rf"the cache .*tvmrt {why}, so .* by cache= or TVMRT_CACHE"
    with pytest.raises(PermissionError, match=sentence):
        tvmrt.load(path, cache=cache)
    monkeypatch.setenv("TVMRT_CACHE", str(cache))
    with pytest.raises(PermissionError, match=sentence):
        tvmrt.load(path)
    monkeypatch.delenv("TVMRT_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(loading, "_WARNED", set())
    before = _libraries(cache)
    (said,) = _noted(lambda: _check_twice(lambda: tvmrt.load(path)))
    assert why in said
    assert _libraries(cache) == before


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702, 0o1777])
def test_folder_that_others_may_write_to_is_refused_unless_it_is_empty(mode, tmp_path):
    path, cache = _write(tmp_path / "a.onnx", 2), tmp_path / "cache"
    cache.mkdir()
    cache.chmod(mode)
    old = os.umask(0)
    try:
        assert _one(tvmrt.load(path, cache=cache)) == 2
    finally:
        os.umask(old)
    assert not any(each.stat().st_mode & 0o022 for each in (cache, *cache.rglob("*")))
    cache.chmod(mode)
    with pytest.raises(PermissionError, match=f"or clear it and run 'chmod go-w {cache}'"):
        tvmrt.load(path, cache=cache)
    (library,) = _libraries(cache)
    cache.chmod(0o755)
    library.parent.chmod(mode)  # so others may have replaced the library and its digest
    before = _libraries(cache)
    assert _one(tvmrt.load(path, cache=cache)) == 2
    assert _libraries(cache) != before


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
def test_system_wide_cache_is_used(tmp_path, monkeypatch):
    """An administrator may have filled a system-wide cache."""
    path, cache = _write(tmp_path / "a.onnx", 2), tmp_path / "tvmrt"
    assert _one(tvmrt.load(path, cache=cache)) == 2
    before = _libraries(cache)
    cache.chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: 1717)
    monkeypatch.setattr(cache_module, "_owner", lambda folder: 0)
    assert _one(tvmrt.load(path, cache=cache)) == 2
    assert _libraries(cache) == before


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
@pytest.mark.parametrize("file", ["", MARK, "mine"])
def test_an_entry_of_another_user_is_not_used(file, tmp_path, monkeypatch):
    cache = Cache(tmp_path)
    entry = cache.add("a", lambda folder: (folder / "mine").touch())
    assert cache.find("a") == entry
    owner = cache_module._owner
    monkeypatch.setattr(
        cache_module, "_owner", lambda path: 77777 if path == entry / file else owner(path)
    )
    assert cache.find("a") is None
    cache.add("a", lambda folder: (folder / "new").touch())
    assert sorted(path.name for path in entry.iterdir()) == ["new", MARK]

"""Test packages of ``tvmc compile``: load, describe, run and time them."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from artefacts import network, stream, toolchain
from artefacts.damage import FAILURES
from artefacts.releases import RELEASES

import tvmrt
from tvmrt.cli.describe import describe
from tvmrt.contrib.graph_executor import GraphModule

PARTS = ("mod.so", "mod.json", "mod.params")


def pack(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


@pytest.fixture(
    scope="module", params=[RELEASES[0], RELEASES[-1]], ids=lambda release: release.name
)
def parts(request, tmp_path_factory) -> dict[str, bytes]:
    """Return operators without a graph, as in the library of a package."""
    folder = tmp_path_factory.mktemp("package")
    library = toolchain.shared_library(
        folder / "mod.so", toolchain.source("c_graph.c"), defines=[f"MINOR={request.param.first}"]
    )
    graph = network.graph_text(request.param).encode()
    data = [library.read_bytes(), graph, stream.params({"w": network.W})]
    return dict(zip(PARTS, data))


def runs(path: Path) -> np.ndarray:
    module = GraphModule(tvmrt.runtime.load_module(path)["default"](tvmrt.cpu(0)))
    module.run(x=network.X)
    return module.get_output(0).numpy()


@pytest.mark.parametrize("mode", ["w", "w:gz"])
@pytest.mark.parametrize("prefix", ["", "./"])
def test_package_runs_with_its_numbers(parts, mode, prefix, tmp_path):
    path = pack(tmp_path / "module.tar", {prefix + name: d for name, d in parts.items()}, mode)
    np.testing.assert_array_equal(runs(path), network.Z)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["module.tar"]


def test_package_of_objects_is_linked(parts, tmp_path):
    code = toolchain.object_file(tmp_path / "lib0.o", toolchain.source("c_graph.c"), ["MINOR=18"])
    inner = pack(tmp_path / "mod.tar", {"lib0.o": code.read_bytes()})
    files = {"mod.tar": inner.read_bytes(), **{name: parts[name] for name in PARTS[1:]}}
    np.testing.assert_array_equal(runs(pack(tmp_path / "module.tar", files)), network.Z)


def test_commands_take_a_package(parts, tmp_path):
    path = pack(tmp_path / "module.tar", parts)
    properties = describe(path)
    assert properties.properties["format"] == "package of tvmc"
    assert [row[0] for row in properties.tables["weights"].rows] == ["w"]
    assert properties.tables["files"].rows == [(name, len(data)) for name, data in parts.items()]
    np.savez(tmp_path / "in.npz", x=network.X)

    def tool(*arguments: object) -> dict:
        command = [sys.executable, "-m", "tvmrt", *map(str, arguments), "--json"]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    assert tool("inspect", path)["executor"] == "graph"
    outputs = tool("run", path, "--inputs", tmp_path / "in.npz")["outputs"]
    np.testing.assert_array_equal(next(iter(outputs.values()))["values"], network.Z)
    timed = tool("bench", path, "--seconds", "0.01")["networks"]
    assert timed[0]["network"] == "module" and timed[0]["timings"][0]["median"] > 0


def sizes_forged(path: Path, name: str, digits: bytes) -> Path:
    """Return the archive with another file size in its header, and a matching checksum."""
    data = bytearray(path.read_bytes())
    with tarfile.open(path) as tar:
        at = tar.getmember(name).offset
    data[at + 124 : at + 136] = digits
    data[at + 148 : at + 156] = b" " * 8
    data[at + 148 : at + 156] = b"%06o\0 " % sum(data[at : at + 512])
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("name", PARTS)
def test_sizes_are_not_believed(parts, name, tmp_path):
    for digits in (b"77777777777\0", b"\x80" + b"\0" * 3 + b"\x7f" + b"\xff" * 7, b"00000000007\0"):
        path = sizes_forged(pack(tmp_path / "module.tar", parts), name, digits)
        for read in (tvmrt.runtime.load_module, describe):
            with pytest.raises(FAILURES):
                read(path)


def test_missing_files_and_links_are_errors(parts, tmp_path):
    path = tmp_path / "module.tar"
    for name in PARTS:
        if name != "mod.json":  # without the graph it is another kind of archive
            pack(path, {n: d for n, d in parts.items() if n != name})
            with pytest.raises(ValueError, match=name):
                tvmrt.runtime.load_module(path)
    pack(path, {**parts, "mod.json": b"{}"})
    with pytest.raises(FAILURES):
        runs(path)
    pack(path, {**parts, "mod.params": b"nothing"})
    with pytest.raises(FAILURES):
        tvmrt.runtime.load_module(path)
    pack(path, {"lib.so": b"", "code.ro": b""})
    with pytest.raises(ValueError, match="virtual machine"):
        tvmrt.runtime.load_module(path)
    # a file outside is not part of the package, and links are not followed
    pack(path, {f"../{n}" if n == "mod.so" else n: d for n, d in parts.items()})
    with pytest.raises(ValueError, match=r"neither mod\.so nor mod\.tar"):
        tvmrt.runtime.load_module(path)
    assert not (tmp_path.parent / "mod.so").exists()
    pack(path, {n: d for n, d in parts.items() if n != "mod.so"})
    with tarfile.open(path, "a") as tar:
        link = tarfile.TarInfo("mod.so")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(ValueError, match="neither"):
        tvmrt.runtime.load_module(path)


def test_package_cut_off(parts, tmp_path):
    path = pack(tmp_path / "module.tar", parts)
    data = path.read_bytes()
    for size in (0, 100, 512, 700, len(data) // 2, len(data) - 12_000):
        path.write_bytes(data[:size])
        with pytest.raises(FAILURES):
            tvmrt.runtime.load_module(path)
        with pytest.raises(FAILURES):
            describe(path)

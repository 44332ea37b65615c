"""The manifest of an artefact: correct, complete, reproducible."""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import re
import socket
import subprocess
import sys
import tarfile
from pathlib import Path

import onnx
import pytest

import tvmrt
from tvmrt.cli import app

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples/digits/digits_f32.onnx"
SYMBOL = "__tvmrt_manifest"


def inspected(path: Path, capsys) -> dict:
    """Return the command's description of a file."""
    assert app.run(["inspect", str(path), "--json"]) == app.DONE
    return json.loads(capsys.readouterr().out)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """Return a network with a licence, and its library for two x86-64 levels."""
    folder = tmp_path_factory.mktemp("manifest")
    model = onnx.load(DIGITS)
    model.metadata_props.add(key="model_license", value="CC-BY-4.0")
    onnx.save(model, folder / "net.onnx")
    compiled = tvmrt.compile(folder / "net.onnx", target="x86-64", levels=["v2", "v3"])
    compiled.export(folder / "net.so")
    return compiled, folder


def test_library_has_a_manifest(library, capsys):
    compiled, folder = library
    found = inspected(folder / "net.so", capsys)["manifest"]
    assert found.pop("checksum", None) is None  # of the text, not of the network
    assert found == compiled.manifest
    assert found["tool"] == f"tvmrt {tvmrt.__version__}"
    assert (found["target"], found["levels"]) == ("x86-64", ["v2", "v3"])
    assert found["options"]["executor"] == "graph"
    assert found["sha256"]["network"] == hashlib.sha256(
        (folder / "net.onnx").read_bytes()
    ).hexdigest()  # fmt: skip
    assert found["licences"] == {"code": "Apache-2.0", "network": "CC-BY-4.0"}
    assert found["bytes"]["inputs"] == 8 * 8 * 4
    assert found["bytes"]["outputs"] == 10 * 4
    assert found["bytes"]["arena"] == compiled.summary.arena_bytes
    assert found["bytes"]["scratch"] == compiled.summary.scratch_bytes
    compiled.export_sources(folder / "sources")
    weights = (folder / "sources/tvmgen_default_weights.bin").read_bytes()
    assert found["bytes"]["weights"] == len(weights)
    assert found["sha256"]["parameters"] == hashlib.sha256(weights).hexdigest()
    in_sources = inspected(folder / "sources/tvmgen_default_manifest.json", capsys)["manifest"]
    assert in_sources == found
    assert app.run(["inspect", str(folder / "net.so")]) == app.DONE
    assert re.search(r"^licences.network +CC-BY-4.0$", capsys.readouterr().out, re.M)


def test_board_archives_have_a_manifest(tmp_path):
    options = {"target": "cortex-m4", "interface_api": "c", "module_name": "digits"}
    compiled = tvmrt.compile(DIGITS, **options)
    compiled.export(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as archive:
        text = archive.extractfile("./metadata.json").read()
    found = json.loads(text)["modules"]["digits"]["manifest"]
    assert found["options"]["interface_api"] == "c"
    assert found["bytes"]["weights"] == compiled.summary.weights_bytes
    # the image does not contain the manifest
    assert not any(SYMBOL in text for text in compiled.sources.files.values())


MAKE = """
import sys
import tvmrt
library = tvmrt.compile(sys.argv[1], target="host")
library.export("net.so")
library.export("net.tar")
library.export("sources")
"""


@pytest.mark.slow
def test_the_same_network_gives_the_same_bytes_anywhere(tmp_path):
    """Compile in another folder, from a copy of the file, later, in another process."""
    made = []
    for number, zone in enumerate(["UTC", "Asia/Tokyo"]):
        folder = tmp_path / f"place{number}"
        (folder / "temporary").mkdir(parents=True)
        (folder / "net.onnx").write_bytes(DIGITS.read_bytes())
        more = {"TMPDIR": str(folder / "temporary"), "TZ": zone, "PYTHONHASHSEED": str(number)}
        command = [sys.executable, "-c", MAKE, str(folder / "net.onnx")]
        subprocess.run(command, check=True, cwd=folder, env={**os.environ, **more})
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        made.append({path.relative_to(folder): path.read_bytes() for path in files})
    assert len(made[0]) > 6
    assert made[0] == made[1]
    words = [str(tmp_path), str(ROOT), str(Path.home()), socket.gethostname(), getpass.getuser()]
    for name, data in made[0].items():
        for word in (each for each in words if len(each) > 4):
            assert word.encode() not in data, (name, word)


def damaged(library, tmp_path, change) -> Path:
    """Return a copy of the library whose manifest has another text of equal length."""
    data = (library[1] / "net.so").read_bytes()
    begin = data.index(b'{"manifest": ')
    text = data[begin : data.index(b"\0", begin)]
    other = change(text)
    assert len(other) == len(text)
    assert other != text
    (tmp_path / "bad.so").write_bytes(data.replace(text, other))
    return tmp_path / "bad.so"


CHANGES = {
    "a letter": lambda text: text.replace(b"Apache", b"Apathe"),
    "a number": lambda text: text.replace(b'"arena": ', b'"arena":9'),
    "no end": lambda text: text[:200] + bytes(len(text) - 200),
    "nothing": lambda text: bytes(len(text)),
    "no checksum": lambda text: text.replace(b"checksum", b"checksun"),
    "other checksum": lambda text: text[:-18] + b"0123456789abcdef" + text[-2:],
    "no text": lambda text: b"\xff" * len(text),
}


@pytest.mark.parametrize("name", CHANGES)
def test_damaged_manifest_is_reported(name, library, tmp_path, capsys):
    path = damaged(library, tmp_path, CHANGES[name])
    sentence = rf"{path}: the manifest {SYMBOL} \(\d+ bytes\) is damaged: .*; copy"
    for _ in range(2):  # the first attempt leaves no files
        with pytest.raises(tvmrt.error.TVMError, match=f"^{sentence}"):
            tvmrt.runtime.load_module(path)
    assert app.run(["inspect", str(path)]) == app.CANNOT
    assert re.search(sentence, capsys.readouterr().err)


def fnv(data: bytes) -> bytes:
    """Compute 64-bit FNV-1a; its authors list the values of "" and "a"."""
    found = 14695981039346656037
    for byte in data:
        found = (found ^ byte) * 1099511628211 % 2**64
    return b"%016x" % found


def test_a_library_of_a_later_abi_is_refused(library, tmp_path):
    assert (fnv(b""), fnv(b"a")) == (b"cbf29ce484222325", b"af63dc4c8601ec8c")

    def change(text: bytes) -> bytes:
        body = text[: text.rindex(b', "checksum"')].replace(b'"abi": 1', b'"abi": 2')
        return body + b', "checksum": "' + fnv(body) + b'"}'

    path = damaged(library, tmp_path, change)
    sentence = (
        f"{path}: the library was compiled by tvmrt .* another ABI than 1, .*; install a newer"
    )
    with pytest.raises(tvmrt.error.TVMError, match=f"^{sentence}"):
        tvmrt.runtime.load_module(path)


def test_weights_that_differ_from_the_manifest_are_reported(library, tmp_path, capsys):
    data = (library[1] / "net.so").read_bytes()
    weights = bytes(library[0].sources.weights)
    assert data.count(weights) == 1
    (tmp_path / "bad.so").write_bytes(data.replace(weights, weights[:-1] + b"\x7e"))
    assert app.run(["inspect", str(tmp_path / "bad.so")]) == app.CANNOT
    report = capsys.readouterr().err
    assert "the weights tvmgen_default_weights (" in report
    assert "do not match the manifest; copy the file again" in report


def test_damaged_manifest_of_sources_is_reported(tmp_path, capsys):
    path = tmp_path / "tvmgen_default_manifest.json"
    for text in ("{", "[]", "{}", '{"manifest": 99}', '{"manifest": "1"}', "null"):
        path.write_text(text)
        assert app.run(["inspect", str(path)]) == app.CANNOT
        assert f"{path}: the manifest is damaged: " in capsys.readouterr().err

"""The archive: its layout, its metadata, and that its C files build and run alone."""

from __future__ import annotations

import json
import subprocess
import tarfile

import pytest
from small_network import small_network

import tvmrt
from tvmrt.libinfo import find_include_path


@pytest.fixture(params=["graph", "aot"])
def archive(request, tmp_path):
    library = tvmrt.compile(small_network(), executor=request.param, module_name="net")
    library.export(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as tar:
        tar.extractall(tmp_path / "net", filter="data")
    return library, tmp_path / "net"


def test_metadata_gives_sizes_of_memory_and_tensors(archive):
    library, folder = archive
    found = json.loads((folder / "metadata.json").read_text())
    assert found["version"] == 7
    module = found["modules"]["net"]
    main = module["memory"]["functions"]["main"][0]
    assert main["workspace_size_bytes"] == library.summary.arena_bytes
    assert main["inputs"] == {"x": {"size": 3 * 9 * 11 * 4, "dtype": "float32"}}
    assert main["outputs"] == {"output": {"size": 20, "dtype": "float32"}}
    assert module["executors"] == [library.options.executor]


def test_every_source_compiles(archive):
    _, folder = archive
    sources = sorted((folder / "codegen/host/src").glob("*.c"))
    assert sources
    includes = [f"-I{f}" for f in find_include_path()] + [f"-I{folder}/codegen/host/include"]
    for source in sources:
        command = ["cc", "-std=c99", "-c", "-O0", *includes, str(source), "-o", "/dev/null"]
        subprocess.run(command, check=True, capture_output=True)


def test_owner_and_names_are_those_of_old_archives(tmp_path):
    tvmrt.compile(small_network(), executor="aot").export(tmp_path / "net.tar")
    with tarfile.open(tmp_path / "net.tar") as tar:
        for member in tar.getmembers():
            assert member.name.startswith("./")
            assert (member.uid, member.gid, member.uname) == (0, 0, "root")

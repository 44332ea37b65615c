"""The installed package: versions, headers, libraries, entry point."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import tvmrt

ROOT = Path(__file__).resolve().parents[3]


def test_version_is_that_of_the_build():
    assert re.fullmatch(r"\d+\.\d+\.\d+\S*", tvmrt.__version__)
    assert (ROOT / "python" / "tvmrt" / "VERSION").read_text().strip() == tvmrt.__version__


@pytest.mark.parametrize("name", ["libtvm_runtime.so", "libtvm_backend.a", "libtvm_firmware.a"])
def test_library_is_found(name):
    (path,) = tvmrt.libinfo.find_lib_path(name)
    assert Path(path).is_file()


def test_missing_library_is_named():
    with pytest.raises(FileNotFoundError, match="libother"):
        tvmrt.libinfo.find_lib_path("libother.so")


@pytest.mark.parametrize(
    "header",
    ["dlpack/dlpack.h", "tvm/runtime/c_backend_api.h", "tvm/runtime/c_runtime_api.h"],
)
def test_headers_are_found(header):
    folder, *_ = tvmrt.libinfo.find_include_path()
    assert (Path(folder) / header).is_file()


def test_runtime_needs_the_c_library_only():
    (path,) = tvmrt.libinfo.find_lib_path()
    listing = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True)
    needed = set(re.findall(r"NEEDED.*\[(.*?)\]", listing.stdout))
    allowed = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "ld-linux-x86-64.so.2"}
    assert needed <= allowed


def test_command_is_declared():
    project = (ROOT / "pyproject.toml").read_text()
    assert 'tvmrt = "tvmrt.cli:main"' in project


def test_changelog_and_citation_name_the_version():
    changes = (ROOT / "CHANGELOG.md").read_text()
    heads = re.findall(r"^## (\S+)(?: \((\d{4}-\d\d-\d\d)\))?$", changes, re.MULTILINE)
    assert heads[0] == ("Unreleased", "")
    assert all(date for _, date in heads[1:])
    version, date = heads[1]
    assert tvmrt.__version__ == version or ".dev" in tvmrt.__version__
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {version}\ndate-released: {date}\n" in citation

"""Test damaged archives through the Python API."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from artefacts import firmware
from artefacts.damage import DAMAGES, FAILURES, damaged, kinds, params_fields, paths, replaced
from artefacts.releases import RELEASES

import tvmrt
from tvmrt.cli.describe import archive as describe_archive


@pytest.fixture
def archive(tmp_path) -> Path:
    return firmware.archive(tmp_path / "network.tar", RELEASES[-1], firmware.Build())


def rewritten(archive: Path, change: dict[str, bytes | None]) -> Path:
    """Return the archive with some files replaced or omitted."""
    with tarfile.open(archive) as tar:
        files = {m.name: tar.extractfile(m).read() for m in tar.getmembers()}
    files.update({f"./{name}": data for name, data in change.items()})
    with tarfile.open(archive, "w") as tar:
        for name, data in files.items():
            if data is not None:
                member = tarfile.TarInfo(name)
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    return archive


def test_archive_cut_off(archive):
    data = archive.read_bytes()
    for size in [0, 1, 100, 511, 512, 700, 5000, len(data) // 2]:
        archive.write_bytes(data[:size])
        with pytest.raises(FAILURES):
            describe_archive.describe(archive)
        with pytest.raises(FAILURES):
            tvmrt.runtime.load_module(archive)


HEADER_FIELDS = {
    "name": (0, 100),
    "size": (124, 12),
    "checksum": (148, 8),
    "type": (156, 1),
    "magic": (257, 8),
}


@pytest.mark.parametrize("field", HEADER_FIELDS)
@pytest.mark.parametrize("kind", DAMAGES)
def test_archive_with_a_damaged_header(archive, field, kind):
    start, size = HEADER_FIELDS[field]
    data = bytearray(archive.read_bytes())
    data[start : start + size] = DAMAGES[kind](bytes(size))
    archive.write_bytes(data)
    with pytest.raises(FAILURES):
        describe_archive.describe(archive)
    with pytest.raises(FAILURES):
        tvmrt.runtime.load_module(archive)


@pytest.mark.parametrize(
    "name", ["../evil.c", "/tmp/tvmrt-compat-evil.c", "a/../../evil.c"], ids=["up", "root", "deep"]
)
def test_archive_that_leads_out_of_its_folder(tmp_path, name):
    path = tmp_path / "inner" / "network.tar"
    path.parent.mkdir()
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo(name)
        member.size = 3
        tar.addfile(member, io.BytesIO(b"int"))
    with pytest.raises(ValueError, match="points outside the archive"):
        tvmrt.runtime.load_module(path)
    assert not list(tmp_path.rglob("evil.c"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_archive_of_links_is_refused(tmp_path, kind):
    path = tmp_path / "network.tar"
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("lib0.c")
        member.type, member.linkname = kind, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(ValueError, match=r"lib0\.c is neither a file nor a folder"):
        tvmrt.runtime.load_module(path)


def test_archive_of_sources_that_do_not_compile(archive):
    rewritten(archive, {"codegen/host/src/default_lib0.c": b"#error no\n"})
    with pytest.raises(OSError, match="cannot link the library"):
        tvmrt.runtime.load_module(archive)


METADATA = firmware.archive_metadata(RELEASES[-1])


@pytest.mark.parametrize(
    "data",
    [None, b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"version": 7, "modules": 3}'],
    ids=["absent", "empty", "cut", "list", "binary", "null", "number"],
)
def test_archive_metadata_that_is_none(archive, data):
    with pytest.raises(ValueError, match="not a Model Library Format archive"):
        describe_archive.describe(rewritten(archive, {"metadata.json": data}))


def test_archive_metadata_with_anything_anywhere(archive):
    """The archive is described, or refused with one sentence."""
    for path in paths(METADATA):
        for value in (None, [], "x", -1, {"a": 1}):
            text = replaced(METADATA, path, value).encode()
            try:
                describe_archive.describe(rewritten(archive, {"metadata.json": text}))
            except ValueError as error:
                assert "not a Model Library Format archive" in str(error), (path, value)


@kinds
def test_archive_params(archive, kind):
    for name, data in damaged(params_fields(), kind):
        try:
            describe_archive.describe(rewritten(archive, {"parameters/default.params": data}))
        except ValueError as error:
            assert str(error), name

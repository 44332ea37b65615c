"""Test Model Library Format archives of every release, linked with libtvm_backend.a only."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import archives
import numpy as np
import pytest
from artefacts import firmware, network, toolchain
from artefacts.firmware import Build
from artefacts.releases import RELEASES, Release

import tvmrt
from tvmrt import libinfo

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
NUMBERS = " ".join(f"{value:g}" for value in ((X + network.W) * 2).ravel())

CASES = [
    pytest.param(release, build, id=f"{release.name}-{build.name}")
    for release in RELEASES
    for build in firmware.BUILDS
    if release.first >= build.since()
]


def unpack(path: Path, folder: Path) -> tuple[list[Path], Path]:
    """Return the sources of an archive and its folder of headers."""
    archives.unpack(path, folder)
    host = folder / "codegen" / "host"
    return sorted((host / "src").glob("*.c")), host / "include"


def link(
    tmp_path: Path, release: Release, build: Build, *more: str, headers: Path | None = None
) -> Path:
    """Unpack, compile and link as an application's project would."""
    archive = firmware.archive(tmp_path / "network.tar", release, build)
    sources, include = unpack(archive, tmp_path / "network")
    defines = [f"NUM_FUNCTIONS={len(firmware.table_names(release, build))}"]
    if build.pools == "external":
        defines.append("EXTERNAL_POOL")
    if build.device:
        defines.append("DEVICE")
    if more:
        defines.append("BOARD_ALLOCATES")
    application = toolchain.source(f"firmware_{build.interface}_main.c")
    flags = ["-std=gnu99", f"-I{include}", "-Wall", "-Werror=implicit-function-declaration"]
    return toolchain.program(
        tmp_path / "application",
        application,
        *map(toolchain.source, more),
        *sources,
        libraries=toolchain.backend_archive(),
        defines=defines,
        flags=flags,
        headers=headers,
    )


def lines(build: Build, release: Release) -> list[str]:
    """Return the output of the application."""
    expected = [NUMBERS]
    if build.device:
        expected.append("AOCOCD" * 2)
    if build.interface == "packed":
        in_table = "in the table" if release.first >= 12 else "not in the table"
        expected.insert(0, in_table)
        if release.first >= 9:
            expected.insert(0, "metadata tvmgen_default x output0")
    return expected


@pytest.mark.parametrize("release, build", CASES)
def test_runs_with_the_backend_library_alone(tmp_path, release, build):
    program = link(tmp_path, release, build)
    assert toolchain.execute([program]).splitlines() == lines(build, release)


@pytest.mark.parametrize("release", [RELEASES[0], RELEASES[-1]], ids=lambda release: release.name)
@pytest.mark.parametrize("interface", ["packed", "c"])
def test_runs_over_the_allocator_of_an_old_board(tmp_path, release, interface):
    build = Build(interface, unpacked=interface == "c")
    program = link(tmp_path, release, build, "firmware_board.c")
    assert toolchain.execute([program]).splitlines() == lines(build, release)


# ---- generated code needs only the headers of the backend ----


@pytest.fixture(scope="module")
def split_headers(tmp_path_factory) -> Path:
    """Return headers in which c_runtime_api.h is replaced by the header for generated code."""
    folder = tmp_path_factory.mktemp("headers") / "include"
    shutil.copytree(libinfo.find_include_path()[0], folder)
    (folder / "tvm" / "runtime" / "c_runtime_api.h").write_text(
        "#include <tvm/runtime/c_backend_api.h>\n"
    )
    return folder


@pytest.mark.parametrize("build", firmware.BUILDS, ids=lambda build: build.name)
def test_old_code_needs_the_backend_header_only(tmp_path, split_headers, build):
    """Old code includes the runtime's header name, but needs only the backend's header."""
    release = RELEASES[-1]
    program = link(tmp_path, release, build, headers=split_headers)
    assert toolchain.execute([program]).splitlines() == lines(build, release)


# ---- the archive on other systems ----


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_archive_loads_into_python(tmp_path, release):
    """Linked to a shared library, the network is one of its functions."""
    path = firmware.archive(tmp_path / "network.tar", release, Build())
    library = tvmrt.runtime.load_module(path)
    x, z = tvmrt.nd.array(X), tvmrt.nd.array(np.zeros_like(X))
    library["tvmgen_default_run"](x, z)
    np.testing.assert_array_equal(z.numpy(), (X + network.W) * 2)


@pytest.mark.parametrize("release", [RELEASES[0], RELEASES[-1]], ids=lambda release: release.name)
def test_archive_is_described(tmp_path, release):
    path = firmware.archive(tmp_path / "network.tar", release, Build("c", unpacked=True))
    output = toolchain.execute([sys.executable, "-m", "tvmrt", "inspect", path])
    assert f"Model Library Format {release.archive_version}" in output
    assert "default_lib0.c" in output

"""C builds find an installed package with pkg-config and CMake."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tvmrt import __version__, libinfo

PREFIX = Path(libinfo.find_include_path()[0]).parent
PROGRAM = r"""
#include <stdio.h>
#include <tvm/runtime/c_runtime_api.h>
int main(void) {
  TVMFunctionHandle found = NULL;
  int rc = TVMFuncGetGlobal("runtime.SystemLib", &found);
  puts(rc == 0 && found != NULL ? "found" : TVMGetLastError());
  return 0;
}
"""
CMAKE = """
cmake_minimum_required(VERSION 3.16)
project(app C)
find_package(tvmrt {version} REQUIRED)
add_executable(app app.c)
target_link_libraries(app PRIVATE tvmrt::runtime)
"""

pytestmark = pytest.mark.skipif(
    not (PREFIX / "lib" / "cmake").is_dir(), reason="tvmrt is not installed, only built"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "app.c").write_text(PROGRAM)
    return tmp_path


def _needs(tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")


def _run(*command: str, **options) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_pkg_config_gives_flags_that_build_and_run(folder):
    _needs("pkg-config")
    env = {**os.environ, "PKG_CONFIG_PATH": str(PREFIX / "lib" / "pkgconfig")}
    assert _run("pkg-config", "--modversion", "tvmrt", env=env).strip() == __version__
    flags = _run("pkg-config", "--cflags", "--libs", "tvmrt", env=env).split()
    _run("cc", "app.c", *flags, "-o", "app", cwd=folder)
    assert _run("./app", cwd=folder) == "found\n"


def test_cmake_finds_the_runtime_and_only_a_version_that_fits(folder):
    _needs("cmake")
    command = ["cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={PREFIX}"]
    (folder / "CMakeLists.txt").write_text(CMAKE.format(version="99.0"))
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    version = __version__.partition(".dev")[0]
    assert f"version: {version}" in done.stderr
    (folder / "CMakeLists.txt").write_text(CMAKE.format(version=version))
    _run(*command, cwd=folder)
    _run("cmake", "--build", "build", cwd=folder)
    assert _run("build/app", cwd=folder) == "found\n"

"""The conda recipe and the port for vcpkg."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
RECIPE = ROOT / "packaging" / "conda" / "recipe.yaml"
PORT = ROOT / "packaging" / "vcpkg" / "ports" / "tvmrt"
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
VARIANT = "{python: ['3.12.*'], c_compiler: [gcc], c_stdlib: [sysroot], c_stdlib_version: ['2.28']}"
# What vcpkg's functions do with one configuration: those of its port vcpkg-tool-meson, in short.
VCPKG = """
function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
endfunction()
function(vcpkg_check_linkage linkage)
endfunction()
function(vcpkg_configure_meson)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "SOURCE_PATH" "OPTIONS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "unknown: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  run(${MESON} setup ${BUILD} ${arg_SOURCE_PATH} --prefix ${CURRENT_PACKAGES_DIR} --libdir lib
      ${arg_OPTIONS})
endfunction()
function(vcpkg_install_meson)
  run(${MESON} install -C ${BUILD})
endfunction()
function(vcpkg_fixup_pkgconfig)
endfunction()
function(vcpkg_install_copyright)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "FILE_LIST")
  configure_file(${arg_FILE_LIST} ${CURRENT_PACKAGES_DIR}/share/tvmrt/copyright COPYONLY)
endfunction()
include(${PORTFILE})
"""
APPLICATION = """
cmake_minimum_required(VERSION 3.16)
project(app C)
find_package(tvmrt CONFIG REQUIRED)
add_executable(app app.c)
target_link_libraries(app PRIVATE tvmrt::runtime)
"""
PROGRAM = """
#include <tvm/runtime/c_runtime_api.h>
int main(void) {
  TVMFunctionHandle found = 0;
  return TVMFuncGetGlobal("runtime.String", &found) != 0 || found == 0;
}
"""


def _listed(name: str) -> list[str]:
    """Return the packages of a list in pyproject.toml, without blanks."""
    return re.findall(r'"([^"]+)"', re.search(rf"^{name} = \[(.*?)\]", PROJECT, re.M | re.S)[1])


def test_versions_are_those_of_the_last_release():
    release = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M)[1]
    assert f'  version: "{release}"\n' in RECIPE.read_text(encoding="utf-8")
    port = json.loads((PORT / "vcpkg.json").read_text(encoding="utf-8"))
    assert (port["name"], port["version"]) == (PORT.name, release)


@pytest.mark.slow
def test_conda_recipe_needs_what_the_project_needs():
    rattler = pytest.importorskip("rattler_build", reason="py-rattler-build is not installed")
    (variant,) = rattler.Stage0Recipe.from_file(RECIPE).render(
        rattler.VariantConfig.from_yaml(VARIANT)
    )
    found = {
        name: {each.replace(" ", "") for each in each_of}
        for name, each_of in variant.recipe.to_dict()["requirements"].items()
    }
    assert found["run"] == {"python", *_listed("dependencies")}
    assert found["host"] == {"python", "pip", *_listed("requires")}
    assert "patchelf" in found["build"]


@pytest.mark.slow
def test_port_of_vcpkg_gives_a_package_that_cmake_finds(tmp_path):
    """CMake runs the port, with functions in place of vcpkg's."""
    meson = shutil.which("meson", path=str(Path(sys.executable).parent)) or pytest.skip("no meson")
    (tmp_path / "vcpkg.cmake").write_text(VCPKG)
    paths = {
        "MESON": meson, "BUILD": tmp_path / "meson", "CURRENT_PACKAGES_DIR": tmp_path / "packages",
        "PORTFILE": PORT / "portfile.cmake",
    }  # fmt: skip
    given = [f"-D{name}={path}" for name, path in paths.items()]
    subprocess.run(["cmake", *given, "-P", tmp_path / "vcpkg.cmake"], check=True)
    assert (tmp_path / "packages/share/tvmrt/copyright").is_file()
    (tmp_path / "CMakeLists.txt").write_text(APPLICATION)
    (tmp_path / "app.c").write_text(PROGRAM)
    configure = ["cmake", "-S", tmp_path, "-B", tmp_path / "app"]
    configure.append(f"-DCMAKE_PREFIX_PATH={tmp_path / 'packages'}")
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    build = ["cmake", "--build", tmp_path / "app"]
    subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([tmp_path / "app" / "app"], check=True)

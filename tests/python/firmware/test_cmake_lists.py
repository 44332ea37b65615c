"""Test the CMakeLists.txt of archives for boards."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from archives import unpack
from firmware_program import DIGITS

import tvmrt
from tvmrt.compiler.codegen.target import get_target
from tvmrt.compiler.export.firmware_cmake import cmake_lists
from tvmrt.compiler.ir import Vendor

PROGRAM = """\
cmake_minimum_required(VERSION 3.13)
project(app C)
add_subdirectory(digits)
add_executable(app main.c)
target_link_libraries(app PRIVATE tvmgen_digits m)
"""
MAIN = """\
#include <tvmgen_digits.h>
int main(void) {
  static float image[64], probabilities[10];
  struct tvmgen_digits_inputs inputs = {image};
  struct tvmgen_digits_outputs outputs = {probabilities};
  return (int)tvmgen_digits_run(&inputs, &outputs);
}
"""
LIBRARY = Vendor("ACME", "ACME's library", "Include", "acme.h", ("Source/*.c",), ("Source/no*.c",))


def _run(*words, cwd=None) -> str:
    for tool in (str(words[0]), "cc"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _archive(folder, target: str):
    library = tvmrt.compile(
        DIGITS / "digits_int8.onnx", target=target, interface_api="c", module_name="digits"
    )
    library.export(folder / "digits.tar")
    return unpack(folder / "digits.tar", folder / "digits")


@pytest.mark.slow
def test_a_program_adds_the_archive_as_a_subdirectory(tmp_path):
    _archive(tmp_path, "cortex-m0plus")
    (tmp_path / "CMakeLists.txt").write_text(PROGRAM)
    (tmp_path / "main.c").write_text(MAIN)
    _run("cmake", "-S", tmp_path, "-B", tmp_path / "build", "-DTVMGEN_DIGITS_TARGET_FLAGS=")
    _run("cmake", "--build", tmp_path / "build")
    _run(tmp_path / "build" / "app")


@pytest.mark.slow
def test_it_makes_the_library_of_the_makefile(tmp_path):
    folder = _archive(tmp_path, "cortex-m4")
    sizes = []
    _run("arm-none-eabi-gcc", "--version")
    _run("make", "-s", "-C", folder)
    _run("cmake", "-S", folder, "-B", tmp_path / "build")
    _run("cmake", "--build", tmp_path / "build")
    for library in (folder, tmp_path / "build"):
        rows = _run("arm-none-eabi-size", library / "libdigits.a").splitlines()[1:]
        sizes.append(sorted(row.split()[:3] for row in rows))
    assert sizes[0] == sizes[1] and len(sizes[0]) > 4


@pytest.mark.slow
def test_sources_of_a_vendor_and_flags_of_files_are_used(tmp_path):
    for part in ("codegen/host/src", "codegen/host/include", "acme/Include", "acme/Source"):
        (tmp_path / part).mkdir(parents=True)
    (tmp_path / "codegen/host/src/net.c").write_text(
        "#include <acme.h>\n#ifndef FAST\n#error\n#endif\nint net(void) { return acme(); }\n"
    )
    (tmp_path / "acme/Include/acme.h").write_text("int acme(void);\n")
    (tmp_path / "acme/Source/acme.c").write_text("#include <acme.h>\nint acme(void) { return 1; }")
    (tmp_path / "acme/Source/not.c").write_text("#error\n")
    flags, vendors = {"net.c": ["-DFAST"]}, {"net.c": LIBRARY}
    text = cmake_lists("net", get_target("native"), flags, vendors)
    (tmp_path / "CMakeLists.txt").write_text(text)
    configure = ["cmake", "-S", tmp_path, "-B", tmp_path / "build", "-DTVMGEN_NET_TARGET_FLAGS="]
    _run("cmake", "--version")
    done = subprocess.run(configure, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "-DACME=PATH" in done.stderr
    _run(*configure, f"-DACME={tmp_path / 'acme'}")
    _run("cmake", "--build", tmp_path / "build")
    assert " T acme" in _run("nm", tmp_path / "build" / "libnet.a")

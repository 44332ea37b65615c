"""The runtime and networks for Windows, built with MinGW and run in Wine."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from windows import C_TESTS, DIGITS, ROOT, compile_network, need

import tvmrt
from tvmrt import toolchains
from tvmrt.compiler import processor
from tvmrt.compiler.codegen.target import WINDOWS_LEVELS
from tvmrt.compiler.export import compiler_flags
from tvmrt.compiler.export import library as export_library

ort = pytest.importorskip("onnxruntime")


@pytest.mark.slow
@pytest.mark.parametrize("name", C_TESTS)
def test_c_tests_pass(built, wine, name):
    wine(str(built / "tests" / "c" / f"test_{name}.exe"))


@pytest.mark.slow
@pytest.mark.parametrize("case", ["graph", "aot", "assembler", "zig"])
def test_network_is_correct_on_the_target(built, wine, case, tmp_path, monkeypatch):
    """Compare the printed digits with onnxruntime on the host, at two ISA levels."""
    if case == "assembler":  # as in networks with a large module tree
        monkeypatch.setattr(export_library, "LARGEST_C_ARRAY", 0)
    executor = "aot" if case == "aot" else "graph"
    levels = ["v2", "v3"] if case == "graph" else ["v2"]
    cc = None
    if case == "zig":
        pytest.importorskip("ziglang")
        cc = " ".join(toolchains.zig("x86_64-w64-mingw32"))
    library = compile_network("digits_f32", tmp_path, executor=executor, levels=levels, cc=cc)
    assert [path.name for path in tmp_path.iterdir()] == [library.name]
    session = ort.InferenceSession(DIGITS / "digits_f32.onnx")
    (wanted,) = session.get_inputs()
    image = np.random.default_rng(5).random(wanted.shape, np.float32)
    image.tofile(tmp_path / "image.bin")
    program = built / "tests" / "c" / "run_network.exe"
    (expected,) = session.run(None, {wanted.name: image})
    for level in levels[: 2 if "avx2" in processor.flags() else 1]:
        arguments = [str(library), f"{wanted.name}={tmp_path / 'image.bin'}"]
        said = wine(str(program), *arguments, level=level)
        printed = re.search(r"output 0: float32 \(1, 10\) (.*) \.\.\.", said)[1].split()
        found = np.array(printed, np.float32)
        np.testing.assert_allclose(found, expected[0, :8], rtol=2e-5, atol=1e-6, err_msg=level)
    if case == "aot":
        refusal = "TVMRT_LEVEL demands v3, which is not there: this library has code for v2, and"
        assert refusal in wine(str(program), *arguments, code=2, level="v3")


@pytest.mark.slow
def test_linux_library_is_rejected(built, wine, tmp_path):
    library = tmp_path / "net.so"
    tvmrt.compile(DIGITS / "digits_f32.onnx").export(library)
    said = wine(str(built / "tests" / "c" / "run_network.exe"), str(library), code=2)
    assert "it is not a Windows library for x86-64; compile it for the target" in said


@pytest.mark.slow
def test_library_imports_only_system_dlls(tmp_path):
    library = compile_network("digits_int8", tmp_path, levels=["v2"])
    tables = subprocess.run(
        ["x86_64-w64-mingw32-objdump", "-p", library], capture_output=True, text=True, check=True
    ).stdout
    assert set(re.findall(r"DLL Name: (\S+)", tables)) == {"KERNEL32.dll", "msvcrt.dll"}
    assert re.search(r"\] __tvm_dev_mblob$", tables, re.MULTILINE)
    assert str(tmp_path) not in library.read_bytes().decode("latin-1")


@pytest.mark.slow
def test_levels_need_no_vector_stack_alignment(tmp_path):
    """GCC does not align vectors on the Windows stack; an aligned move would crash."""
    library = compile_network("digits_int8", tmp_path, levels=["v3", "v4vnni"])
    command = ["x86_64-w64-mingw32-objdump", "-d", "--no-show-raw-insn", library]
    code = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    moves = set(re.findall(r"\s(vmov\w+) .*%[yz]mm\d+,\S*\(%r", code))
    assert moves
    assert not [name for name in moves if re.match(r"vmov(ap[sd]|dqa)", name)]


def test_gcc_attributes_are_hidden_from_other_compilers():
    flags = WINDOWS_LEVELS[1].flags
    assert len(compiler_flags.translate_flags(["clang-14"], flags)) == len(flags) - 1
    assert compiler_flags.translate_flags(["x86_64-w64-mingw32-gcc"], flags) == list(flags)


def test_file_has_the_platform_suffix(tmp_path):
    library = tvmrt.compile(DIGITS / "digits_f32.onnx", target="x86_64-windows")
    with pytest.raises(ValueError, match=r"net.so: a library for x86_64-windows is a .dll file; w"):
        library.export_library(tmp_path / "net.so")


def test_public_headers_compile_in_msvc_mode(tmp_path):
    """In clang-cl mode without a C library, so that only our headers are read."""
    need("clang")
    names = ["c_runtime_api.h", "c_backend_api.h", "metadata.h", "device.h", "module_plugin.h"]
    functions = (
        "#include <stddef.h>\nvoid *memcpy(void *, const void *, size_t);\n"
        "void *memset(void *, int, size_t);\nsize_t strlen(const char *);\n"
        "int strcmp(const char *, const char *);\n"
        "int strncmp(const char *, const char *, size_t);\n"
        "size_t strspn(const char *, const char *);\n"
    )
    (tmp_path / "string.h").write_text(functions)
    source = tmp_path / "all.c"
    source.write_text("".join(f"#include <tvm/runtime/{name}>\n" for name in names))
    command = ["clang", "--target=x86_64-windows-msvc", "-fsyntax-only", "-ffreestanding"]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-fms-compatibility", "-fno-gnu-keywords"]
    subprocess.run(
        [*command, *flags, f"-I{ROOT / 'include'}", "-I.", source], check=True, cwd=tmp_path
    )

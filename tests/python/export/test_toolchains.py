"""The search for C compilers, and what zig needs to behave like the others."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

import tvmrt
from tvmrt import toolchains
from tvmrt.cli import main
from tvmrt.compiler.export.toolchain import run_compiler
from tvmrt.error import CompileError
from tvmrt.network.cache_key import compiler_of
from tvmrt.runtime.link import link_shared

DIGITS = str(Path(__file__).parents[3] / "examples/digits/digits_f32.onnx")


@pytest.fixture
def no_compiler(monkeypatch, tmp_path):
    """A machine without gcc and clang."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.delenv("CXX", raising=False)


def test_zig_is_the_last_choice(monkeypatch, tmp_path, no_compiler):
    monkeypatch.setattr(toolchains, "zig_package", lambda: Path("ziglang"))
    assert toolchains.installed()[1:4] == ["-m", "ziglang", "cc"]
    assert "x86_64-windows-gnu" in toolchains.installed("x86_64-w64-mingw32")
    for name in ("clang", "aarch64-linux-gnu-gcc"):
        (tmp_path / name).touch(mode=0o755)
    assert toolchains.installed() == ["clang"]
    assert toolchains.installed("aarch64-linux-gnu") == ["aarch64-linux-gnu-gcc"]


def test_zig_compiles_for_every_processor_unless_one_is_named():
    assert "-mcpu=baseline" in toolchains.completed(["/opt/zig", "cc"])
    assert "-mcpu=baseline" not in toolchains.completed(["zig", "cc", "-mcpu=native"])
    assert "-mcpu=baseline" not in toolchains.completed(["zig", "cc", "-target", "riscv64-linux"])
    assert toolchains.completed(["ccache", "gcc"], "riscv64-linux-gnu") == ["ccache", "gcc"]
    given = toolchains.completed(["zig", "cc"], "x86_64-w64-mingw32")
    assert given[given.index("-target") + 1] == "x86_64-windows-gnu"
    given = toolchains.completed(["zig", "cc", "-target", "x86_64-linux-musl"], "x86_64-linux-gnu")
    assert given.count("-target") == 1


def test_objects_of_zig_do_not_stay_in_its_cache(monkeypatch, tmp_path):
    for name in ("ZIG_LOCAL_CACHE_DIR", "ZIG_GLOBAL_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    variables = toolchains.environment(["zig", "cc"], tmp_path / "work")
    assert Path(variables["ZIG_LOCAL_CACHE_DIR"]).parent == tmp_path / "work"
    assert "ZIG_GLOBAL_CACHE_DIR" not in variables
    assert toolchains.environment(["gcc"], tmp_path)["TMPDIR"] == str(tmp_path)
    monkeypatch.delenv("HOME")
    variables = toolchains.environment(["zig", "cc"], tmp_path / "work")
    assert Path(variables["ZIG_GLOBAL_CACHE_DIR"]).parent == tmp_path / "work"
    monkeypatch.setenv("ZIG_LOCAL_CACHE_DIR", "mine")
    assert toolchains.environment(["zig", "cc"], tmp_path)["ZIG_LOCAL_CACHE_DIR"] == "mine"


@pytest.mark.parametrize("name", ["ZIG_GLOBAL_CACHE_DIR", "ZIG_LOCAL_CACHE_DIR"])
def test_cache_folder_of_zig_that_cannot_be_written_is_an_error(monkeypatch, tmp_path, name):
    (tmp_path / "file").touch()
    (tmp_path / "a.c").write_text("int a;\n")
    folder = str(tmp_path / "file" / "cache")
    monkeypatch.setenv(name, folder)
    said = f"C compiler zig cannot be run: it cannot write to its cache folder {folder}; set {name}"
    with pytest.raises(CompileError, match=re.escape(said)):
        run_compiler([sys.executable, "-m", "ziglang", "cc", "-c", "a.c"], tmp_path)


def test_tools_of_zig_are_those_of_the_same_zig():
    package = [sys.executable, "-m", "ziglang"]
    assert toolchains.zig_tool([*package, "cc", "-target", "x86"], "ar") == [*package, "ar"]
    assert toolchains.zig_tool(["ccache", "/opt/zig/zig", "cc"], "ar") == [
        "ccache",
        "/opt/zig/zig",
        "ar",
    ]


def test_missing_compiler_names_the_extra(monkeypatch, tmp_path, no_compiler):
    monkeypatch.setattr(toolchains, "zig_package", lambda: None)
    (tmp_path / "net.o").touch()
    with pytest.raises(OSError, match=r"no C compiler: .*pip install 'tvmrt\[cc\]'"):
        link_shared(str(tmp_path / "net.o"))


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (" ", r"--cc is ' '; give a command, or omit it"),
        ("gcc 'a", r"""--cc is "gcc 'a": No closing quotation; correct the quotation"""),
    ],
)
def test_command_that_is_none_is_named(tmp_path, command, error, capsys):
    assert main(["compile", DIGITS, "-o", str(tmp_path / "net.so"), "--cc", command]) == 2
    assert error in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_compiler_is_a_relative_path_with_spaces_or_several_words(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("my cc").write_text('#!/bin/sh\nexec gcc "$@"\n')
    Path("my cc").chmod(0o755)
    for words in ("'./my cc'", "env gcc"):
        command = ["compile", DIGITS, "-o", "net.so", "--cc", words]
        assert main(command) == 0, capsys.readouterr()


@pytest.mark.skipif(sys.platform != "linux", reason="it names the compiler of Linux")
def test_compiler_of_another_system_is_refused_before_it_writes_a_file(tmp_path, capsys):
    file = tmp_path / "net.dll"
    words = ["compile", DIGITS, "-o", str(file), "--target", "x86_64-windows", "--cc", "cc"]
    assert main(words) == 2
    error = "C compiler cc does not compile for x86_64-w64-mingw32; give a cross compiler with --cc"
    assert error in capsys.readouterr().err
    assert not file.exists()


def test_cache_distinguishes_versions_of_zig(monkeypatch, tmp_path, no_compiler):
    package = tmp_path / "ziglang.py"
    monkeypatch.setattr(toolchains, "zig_package", lambda: package)
    package.write_text("version 1")
    first = compiler_of(None)
    package.write_text("version 1.1")
    assert first != compiler_of(None) != ""
    monkeypatch.setattr(toolchains, "zig_package", lambda: None)
    assert compiler_of(None) == ""


def test_compiler_that_writes_nothing_is_named(tmp_path):
    library = tvmrt.compile(DIGITS, cc="true", target="native")
    with pytest.raises(CompileError, match="true reported no error and wrote no library"):
        library.export(tmp_path / "net.so")
    assert not list(tmp_path.iterdir())

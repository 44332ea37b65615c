"""``tvmrt doctor`` on object files."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from click.testing import CliRunner

from tvmrt.cli.doctor import command

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")

NEEDS = "int TVMBackendFreeWorkspace(int, int, void *); int tvmgen_net_conv(void);\n"
SOURCES = {
    "entry": NEEDS
    + "int f(void *p) { return TVMBackendFreeWorkspace(1, 0, p) + tvmgen_net_conv(); }",
    "conv": "int tvmgen_net_conv(void) { return 0; }",
    "again": "int tvmgen_net_conv(void) { return 1; }",
    "weak": "__attribute__((weak)) int tvmgen_net_conv(void) { return 2; }",
    "odd": "int TVMNoSuchFunction(void); int g(void) { return TVMNoSuchFunction(); }",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("objects")
    for name, text in SOURCES.items():
        (folder / f"{name}.c").write_text(text + "\n")
        subprocess.run(["cc", "-c", f"{name}.c", "-o", f"{name}.o"], cwd=folder, check=True)
    long_name = folder / "a_member_with_a_rather_long_name.o"
    shutil.copy(folder / "conv.o", long_name)
    subprocess.run(["ar", "rcs", "libconv.a", long_name.name], cwd=folder, check=True)
    return folder


def run(folder, *names):
    result = CliRunner().invoke(
        command, [*(str(folder / n) for n in names), "--json"], standalone_mode=False
    )
    assert result.exception is None, result.exception
    found = json.loads(result.stdout)["findings"]
    assert result.return_value == (1 if found else 0)
    return {f["symbol"]: f for f in found}


def test_missing_symbols_name_user_and_provider(folder):
    found = run(folder, "entry.o")
    backend = found["TVMBackendFreeWorkspace"]
    assert backend["state"] == "missing" and backend["needed_by"] == ["entry.o"]
    assert "libtvm_backend.a" in backend["supplied_by"]
    assert "libtvm_runtime.so" in backend["supplied_by"]
    assert found["tvmgen_net_conv"]["supplied_by"] == ["the other C files of the network"]


@pytest.mark.parametrize("supplier", ["conv.o", "weak.o", "libconv.a"])
def test_a_defined_symbol_is_not_missing(folder, supplier):
    assert set(run(folder, "entry.o", supplier)) == {"TVMBackendFreeWorkspace"}


def test_duplicate_symbols_name_both_files(folder):
    found = run(folder, "libconv.a", "again.o")["tvmgen_net_conv"]
    assert found["state"] == "doubled"
    assert found["supplied_by"] == ["again.o", "libconv.a(a_member_with_a_rather_long_name.o)"]


def test_weak_and_strong_definitions_do_not_conflict(folder):
    assert "tvmgen_net_conv" not in run(folder, "conv.o", "weak.o")


def test_unknown_symbol_has_no_provider(folder):
    assert run(folder, "odd.o")["TVMNoSuchFunction"]["supplied_by"] == ["nothing that tvmrt knows"]


def test_file_that_is_not_an_object_is_refused(folder):
    result = CliRunner().invoke(command, [str(folder / "entry.c")], standalone_mode=False)
    assert isinstance(result.exception, ValueError)
    assert "ELF" in str(result.exception)

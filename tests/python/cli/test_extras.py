"""Features without optional dependencies, and the error if one is missing."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tvmrt
from tvmrt.optional_dependencies import EXTRAS, with_install_advice

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"
COMMAND = ("click", "rich", "elftools")


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("extras") / "digits.so"
    tvmrt.compile(DIGITS).export_library(path)
    return path


def _without(modules, code: str, *arguments):
    """Return a Python program in which some modules seem not to be installed."""
    hidden = f"import sys; sys.modules.update(dict.fromkeys({tuple(modules)!r}))\n"
    return subprocess.run(
        [sys.executable, "-c", hidden + code, *map(str, arguments)],
        capture_output=True, text=True, timeout=600, check=False,
        env={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip


def run_without(modules, *arguments):
    """Run the command as if some modules were not installed."""
    return _without(modules, "from tvmrt.cli import main; sys.exit(main())", *arguments)


def test_the_package_requires_numpy_and_cffi_alone():
    always = [line for line in importlib.metadata.requires("tvmrt") if "extra ==" not in line]
    assert sorted(re.match(r"[\w-]+", line)[0] for line in always) == ["cffi", "numpy"]


def test_every_extra_named_in_an_error_exists():
    known = set(importlib.metadata.metadata("tvmrt").get_all("Provides-Extra"))
    assert {extra for _, extra in EXTRAS.values()} | {"cli", "all"} <= known


def test_a_library_runs_without_any_extra(library):
    code = (
        "import numpy as np, tvmrt\n"
        "x = np.zeros((1, 1, 8, 8), np.float32)\n"
        "net = tvmrt.load(sys.argv[1]); print(net(x).shape, net)\n"
        "module = tvmrt.runtime.load_module(sys.argv[1]); print(module)\n"
    )
    done = _without(EXTRAS, code, library)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("(1, 10)")


def test_command_without_its_packages_says_what_to_install(library):
    done = run_without(["click"], "inspect", library)
    assert done.returncode == 2
    assert done.stderr == (
        "tvmrt: error: the command line needs the package click: pip install "
        "'tvmrt[compile]', or 'tvmrt[cli]' to run libraries alone\n"
    )


def test_doctor_version_and_help_need_no_extra():
    done = run_without(EXTRAS, "doctor")
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    advice = r"compile +absent +no onnx +pip install 'tvmrt\[compile\]'$"
    assert any(re.match(advice, line) for line in lines)
    assert any(line.startswith("device cpu ") for line in lines)
    assert run_without(EXTRAS, "--version").stdout == f"tvmrt {tvmrt.__version__}\n"
    done = run_without(EXTRAS)
    assert done.returncode == 0
    assert "pip install 'tvmrt[compile]'" in done.stdout


def test_inspect_without_its_reader_says_what_to_install(library):
    done = run_without(["elftools"], "inspect", library)
    assert done.returncode == 2
    assert "a library's file needs the package elftools: pip install 'tvmrt[cli]'" in done.stderr


@pytest.mark.parametrize("command", ["compile", "verify"])
def test_without_onnx_commands_say_what_to_install(command, tmp_path):
    done = run_without(
        ["onnx"], command, DIGITS, *(["-o", tmp_path / "d.so"] * (command == "compile"))
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "needs the package onnx: pip install 'tvmrt[compile]'" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["inspect"], ["run", "--random"], ["bench", "--seconds", "0.01"]],
    ids=lambda arguments: arguments[0],
)
def test_commands_take_libraries_without_the_compilers_packages(arguments, library):
    done = run_without(set(EXTRAS) - set(COMMAND), arguments[0], library, *arguments[1:])
    assert done.returncode == 0, done.stderr


def test_python_error_says_what_to_install():
    code = (
        "import tvmrt\n"
        "for use in (lambda: tvmrt.compile, lambda: tvmrt.custom,\n"
        "            lambda: tvmrt.load(sys.argv[1], cache=False)):\n"
        "    try: use()\n"
        "    except ImportError as error: print(error)\n"
    )
    message = "the compiler needs the package onnx: pip install 'tvmrt[compile]'"
    assert _without(["onnx"], code, DIGITS).stdout.splitlines() == [message] * 3


def test_missing_module_of_another_package_is_reported_unchanged():
    error = ModuleNotFoundError("No module named 'no_such_module'", name="no_such_module")
    assert with_install_advice(error) is error

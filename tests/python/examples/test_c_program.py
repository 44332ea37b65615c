"""Errors of ``examples/c_program`` for unknown options."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tvmrt.libinfo import find_include_path, find_lib_path

SOURCE = Path(__file__).parents[3] / "examples" / "c_program" / "main.c"


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """Build the program with strict warnings, linked with the runtime library."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("cc is not installed")
    path = tmp_path_factory.mktemp("program") / "run_network"
    library = Path(find_lib_path()[0])
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    includes = [f"-I{folder}" for folder in find_include_path()]
    runtime = [str(library), f"-Wl,-rpath,{library.parent}"]
    subprocess.run([compiler, *flags, *includes, str(SOURCE), *runtime, "-o", path], check=True)
    return path


@pytest.mark.parametrize(
    "options",
    [["--repeat", "-1"], ["--repeat", "0"], ["--repeat", "x"], ["--repeat"], ["--frob", "1"]],
    ids=" ".join,
)
def test_c_program_refuses_unknown_options(program, options):
    done = subprocess.run(
        [program, "none.so", *options], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and " ".join(options) in done.stderr
    assert "--repeat N, N from 1" in done.stderr

"""The operator of the guide passes the tests of all operators."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tvmrt.compiler.ir.pointwise import PointwiseOp

ROOT = Path(__file__).parents[3]
EVERYDAY = [
    "tests/python/codegen/test_scalar_headers.py",
    "tests/python/codegen/test_pointwise_limits.py",
    "tests/python/ir/test_operators.py",
]


@pytest.fixture
def plugin(tmp_path, monkeypatch) -> Path:
    """Return the code of the guide as a module that pytest loads before the tests."""
    monkeypatch.syspath_prepend(str(ROOT / "tests/python/docs"))
    from markdown_pages import blocks

    page = ROOT / "docs/how-to/add-an-operator.md"
    code = [b.text for b in blocks(page) if b.language == "python" and b.line < _third(page)]
    assert any("define(" in text for text in code)
    path = tmp_path / "added_operator.py"
    path.write_text("\n".join(code))
    return path


def _third(page: Path) -> int:
    """Return the line of the section on operators with kernels, whose code is incomplete."""
    return page.read_text().splitlines().index("## 3. An operator with a kernel")


@pytest.mark.slow
def test_operator_of_the_guide_passes_the_common_checks(plugin, tmp_path):
    one_type = "(test_limits_are_defined and sanitised-float32-float32)"
    chosen = ["-k", f"squareplus or test_expressions_have_their_header or {one_type}"]
    files = [ROOT / test for test in EVERYDAY]
    path = os.pathsep.join([str(plugin.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "pytest", "-v", "-p", plugin.stem, "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, f"--rootdir={ROOT}", "-c", ROOT / "pyproject.toml", *chosen, *files],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(f"{file.name}::" in done.stdout for file in files), done.stdout


def test_undeclared_attribute_of_an_expression_is_a_float():
    expressions = {"float": "{0} * {slope} + ({t}){0}", "int": "{0} << {bits}"}
    op = PointwiseOp("sloped", expressions, lambda x, slope: x * slope)
    assert [(name, each.kind) for name, each in op.contract.attributes.items()] == [
        ("slope", "float")
    ]

"""A missing tool skips all tests that start it."""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import tools

ROOT = Path(__file__).parents[3]
SCRIPT = (ROOT / "tests/bare_machine.sh").read_text(encoding="utf-8")
# Ways to start a process through a shell, which hide the tool's name.
LINES = ("getoutput", "getstatusoutput", "system", "popen")


@pytest.fixture
def bare(monkeypatch, tmp_path):
    """Return a PATH without a command."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize(
    "tool", ["objdump", "aarch64-linux-gnu-objdump", "c++", "cmake", "qemu-system-arm", "gcc-12"]
)
def test_starting_a_missing_tool_skips(bare, tool):
    for start in (subprocess.run, subprocess.check_output, subprocess.Popen):
        with pytest.raises(pytest.skip.Exception, match=re.escape(f"{tool} is not installed")):
            start([tool, "--version"])


def test_a_path_of_the_environment_that_is_given_counts(tmp_path):
    with pytest.raises(pytest.skip.Exception, match="cmake is not installed"):
        subprocess.run(["cmake"], env={"PATH": str(tmp_path)}, check=False)


def test_a_misspelled_tool_fails(bare):
    misspelled = "objdunp"
    with pytest.raises(FileNotFoundError):
        subprocess.run([misspelled, "--version"], check=False)


def test_a_tool_that_tvmrt_starts_fails(bare):
    code = compile("subprocess.run(['objdump'])", "/site-packages/tvmrt/some.py", "exec")
    with pytest.raises(FileNotFoundError):
        exec(code, {"subprocess": subprocess})


@cache
def calls_of_tests() -> list[tuple[str, ast.Call, ast.AST]]:
    """Return calls in the test files that start processes: location, call, enclosing function."""
    found = []
    for file in sorted((ROOT / "tests").rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if not any(f"{module}." in text for module in ("subprocess", "os")):
            continue
        tree = ast.parse(text)
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
        for scope in functions or [tree]:
            for node in ast.walk(scope):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    found.append((f"{file.relative_to(ROOT)}:{node.lineno}", node, scope))
    return found


def commands_of_tests() -> Iterator[tuple[str, str]]:
    """Return where tests start a process by a list, with the first word of the list."""
    own = tuple(f"tests/{folder}/" for folder in ("bench", "lint", "fuzz", "c"))  # no tests
    for place, call, scope in calls_of_tests():
        if place.startswith(own) or not ast.unparse(call.func).startswith("subprocess."):
            continue
        lists = call.args[:1]
        if lists and isinstance(lists[0], ast.Name):
            lists = [
                node.value
                for node in ast.walk(scope)
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == lists[0].id
            ]
        for each in lists:
            if isinstance(each, ast.List) and each.elts and isinstance(each.elts[0], ast.Constant):
                yield place, str(each.elts[0].value)


def words_of_script(variable: str) -> list[str]:
    """Return the commands that a variable of the script lists."""
    found = re.search(rf'^{variable}="([^"]*)"', SCRIPT, re.MULTILINE)
    assert found is not None
    return found.group(1).split()


def test_every_command_is_on_a_bare_machine_or_known_to_be_optional():
    there = {"cc", "python3", *words_of_script("tools"), *words_of_script("base")}
    assert not [name for name in there if tools.OPTIONAL.fullmatch(name)]
    found = list(commands_of_tests())
    assert len(found) > 50
    unknown = [
        f"{place}: {name}"
        for place, name in found
        if name not in there and not tools.OPTIONAL.fullmatch(name)
    ]
    assert not unknown, "list them in tests/python/support/tools.py"


def test_tests_run_no_shell_commands():
    wrong = []
    for place, call, _ in calls_of_tests():
        shell = any(k.arg == "shell" and ast.unparse(k.value) == "True" for k in call.keywords)
        module, _, function = ast.unparse(call.func).rpartition(".")
        if shell or (module in ("os", "subprocess") and function in LINES):
            wrong.append(place)
    assert not wrong, "start the tool by a list, which is looked for"

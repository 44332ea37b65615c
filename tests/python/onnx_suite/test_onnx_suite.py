"""The onnx package's tests with its own runner; expected failures are listed."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path

import onnx
import operator_table
import pytest
from bodies import BODIES
from differences import differences_of
from onnx.backend.test.case import node

SUITE = Path(__file__).with_name("suite.py")
LIST = SUITE.with_name("not_passing.json")
LISTED_FOR = (1, 23)  # the onnx version of the list
ROWS = {  # types, boards, passing cases and ULPs, as regular expressions
    "Conv": r"bfloat16, float16, float32 \| yes \| (\d+) of \1 \| ",
    "Exp": r"all \| yes \| (\d+) of \1 \| [\d.]+",
    "If": r"all \| yes \| (\d+) of \1 \| ",
    "ReduceSum": r"all \| yes \| (\d+) of \1 \| ",
    "StringSplit": r"all \| no \| (\d+) of \1 \| ",
}

pytestmark = pytest.mark.skipif(
    tuple(map(int, onnx.__version__.split(".")[:2])) != LISTED_FOR,
    reason=f"not_passing.json is of the cases of onnx {'.'.join(map(str, LISTED_FOR))}",
)


def _node_cases():
    """Return the node cases of the listed operators."""
    for module in ("attention", "bernoulli", "dft", "dropout", "resize"):
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    return list(node._NodeTestCases)


def _run(*arguments: str) -> str:
    command = [sys.executable, str(SUITE), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _passing(printed: str, kind: str) -> int:
    line = next(line for line in printed.splitlines() if line.startswith(f"{kind}: "))
    return int(line.split()[1])


@pytest.mark.slow
def test_failures_are_intentional_differences():
    """The difference that a reason names applies to a node of the case's network."""
    models = {f"test_{case.name.removeprefix('test_')}": case.model for case in _node_cases()}
    for name, reason in json.loads(LIST.read_text()).items():
        if reason.startswith("wrong: "):
            rows = [row.name for found in differences_of(models[name]).values() for row in found]
            assert reason.split(": ")[1] in rows, (name, rows)


@pytest.mark.slow
def test_all_cases():
    printed = _run()
    assert _passing(printed, "node") >= 1850
    # those that need the value of an input, such as axes, when they are compiled
    stated = re.search(r"node: (\d+) of those that pass need the value", printed)
    assert stated and int(stated[1]) <= 185, printed
    # Networks that cannot share a library are compiled alone, which takes ten times as long.
    assert "batches run in halves: 0" in printed


@pytest.mark.slow
@pytest.mark.parametrize("number, body", list(enumerate(BODIES)))
def test_node_cases_in_bodies_are_right_or_refused(number, body):
    """Another sixth of the node cases in each kind of body; suite.py --body runs all of them."""
    printed = _run("--body", body, "--part", f"{number}/{len(BODIES)}")
    line = next(line for line in printed.splitlines() if line.startswith("node: "))
    right, ran = int(line.split()[1]), int(line.split()[3])
    assert ran >= 200 and right >= 0.8 * ran, line


@pytest.mark.slow
def test_light_models():
    assert _passing(_run("--kind", "real"), "real") == 9


@pytest.mark.slow
def test_rows_of_the_operator_page_are_measured():
    cases, missing = operator_table.cases_by_operator(), operator_table.not_passing()
    ulps = operator_table.errors()
    schemas = {(schema.domain, schema.name): schema for schema in operator_table.schemas()}
    for name, cells in ROWS.items():
        key = ("", name)
        row = operator_table.row(schemas[key], cases[key], missing, ulps.get(name, ""))
        assert re.fullmatch(rf"\| `{name}` \| [\d, ]+ \| {cells} \|", row), row


@pytest.mark.slow
def test_differences_of_the_judges_are_documented():
    """Run some operators through both judges; the script covers all."""
    script = SUITE.with_name("judge_differences.py")
    command = [sys.executable, str(script), "--only", "NonZero|Shrink|LpNormalization|ReduceMean"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "| LpNormalization | float32 | random | onnxruntime 3 | l1-norm |" in done.stdout

"""``tvmrt explain`` explains every error code of the header."""

from __future__ import annotations

import re
from dataclasses import astuple
from pathlib import Path

import pytest

from tvmrt.cli.error_codes import EXPLANATIONS
from tvmrt.cli.explain import explain
from tvmrt.libinfo import find_include_path

HEADER = Path(find_include_path()[0]) / "tvm/runtime/error_codes.h"
ROWS = re.findall(r"^\s+X\((\w+), (\w+), (\d+)\)", HEADER.read_text(), re.MULTILINE)
CATEGORIES = dict(re.findall(r"kTvmErrorCategory(\w+) = (\d+)", HEADER.read_text()))


@pytest.mark.parametrize(("name", "category", "number"), ROWS, ids=[row[0] for row in ROWS])
def test_every_code_has_cause_and_remedy(name, category, number):
    found, cause, remedy = astuple(explain(name))
    assert found == f"kTvmError{name} (0x{int(CATEGORIES[category]) << 8 | int(number):04x})"
    assert cause.endswith(".") and remedy.endswith(".")


def test_every_explained_code_is_in_the_header():
    assert {row.name for row in EXPLANATIONS} == {row[0] for row in ROWS}


def test_board_specific_error_codes_are_explained():
    assert "board" in explain("0x80000001").error


@pytest.mark.parametrize(
    "code", ["0x0503", "1283", "PlatformNoMemory", "kTvmErrorPlatformNoMemory"]
)
def test_codes_are_accepted_in_every_notation(code):
    assert explain(code).error == "kTvmErrorPlatformNoMemory (0x0503)"


def test_success_and_failure_without_a_code_are_explained():
    assert explain("0").error.startswith("kTvmErrorNoError")
    assert "TVMGetLastError" in explain("-1").remedy


def test_an_unknown_code_is_refused():
    with pytest.raises(ValueError, match="unknown error code"):
        explain("0x4242")

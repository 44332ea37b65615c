"""``tvmrt explain`` knows every error code of the header."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tvmrt.cli.explain import explain
from tvmrt.libinfo import find_include_path

HEADER = Path(find_include_path()[0]) / "tvm/runtime/crt/error_codes.h"
NAMES = re.findall(r"^\s+X\((\w+), \w+, \d+\)", HEADER.read_text(), re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_every_code_has_cause_and_remedy(name):
    found, cause, remedy = explain(name)
    assert found.startswith(f"kTvmError{name} (0x")
    assert cause.endswith(".") and remedy.endswith(".")


@pytest.mark.parametrize(
    "code", ["0x0503", "1283", "PlatformNoMemory", "kTvmErrorPlatformNoMemory"]
)
def test_a_code_may_be_written_in_every_way(code):
    assert explain(code)[0] == "kTvmErrorPlatformNoMemory (0x0503)"


def test_success_and_failure_without_a_code_are_explained():
    assert explain("0")[0].startswith("kTvmErrorNoError")
    assert "TVMGetLastError" in explain("-1")[2]


def test_an_unknown_code_is_refused():
    with pytest.raises(ValueError, match="no error code"):
        explain("0x4242")

"""Test invalid arguments of the command: they are refused before anything runs."""

from __future__ import annotations

import pytest

from tvmrt.cli import app


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("option", ["--tolerance", "--seconds"])
def test_no_finite_number(capsys, option, value):
    assert app.run(["device", "test", "ccompiler", option, value]) == app.CANNOT
    sentence = capsys.readouterr().err
    assert option in sentence and value in sentence

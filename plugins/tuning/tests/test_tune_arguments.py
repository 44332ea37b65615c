"""Test invalid arguments of the command: they are refused before anything runs."""

from __future__ import annotations

import pytest

from tvmrt.cli import app


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_no_finite_number(capsys, value):
    assert app.run(["tune", "net.onnx", "--seconds", value]) == app.CANNOT
    sentence = capsys.readouterr().err
    assert "--seconds" in sentence and value in sentence

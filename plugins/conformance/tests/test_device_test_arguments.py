"""Test invalid arguments of the command: they are refused before anything runs."""

from __future__ import annotations

import pytest

from tvmrt.cli import app
from tvmrt.conformance import run_checks


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("option", ["--tolerance", "--seconds"])
def test_no_finite_number(capsys, option, value):
    assert app.run(["device", "test", "ccompiler", option, value]) == app.CANNOT
    sentence = capsys.readouterr().err
    assert option in sentence and value in sentence


@pytest.mark.everyday(1)
@pytest.mark.parametrize(
    ("device", "words"),
    [("nope", "device nope is not known"), ("./none.so", "none.so"), ("./none.py", "none.py")],
)
def test_a_device_that_cannot_be_opened_is_one_error(capfd, device, words):
    assert app.run(["device", "test", device]) == app.CANNOT
    out, err = capfd.readouterr()
    assert out == "" and words in err and err.count("\n") == 1
    with pytest.raises(ValueError, match=words):
        run_checks(device, ["leaks"])

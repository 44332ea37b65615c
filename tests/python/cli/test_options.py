"""Values of options: NAME=VALUE, sizes, times and fractions."""

from __future__ import annotations

import re

import click
import pytest

from tvmrt.cli import app, options
from tvmrt.compiler import option_values
from tvmrt.units import UNITS

VALUES = {
    "bytes": {
        "0": 0, "65536": 65536, "64k": 65536, "64K": 65536, "64KiB": 65536, "64 kib": 65536,
        "12kb": 12000, "12KB": 12000, "2.3kB": 2300, "1.5MiB": 1572864, "2M": 2 << 20,
        "1GiB": 1 << 30, "12 B": 12, ".5k": 512,
    },
    "seconds": {
        "5": 5, "0.5": 0.5, "1e-3": 0.001, "500ms": 0.5, "250us": 0.00025, "2s": 2, "5min": 300,
        "2h": 7200, "1 d": 86400,
    },
    "fraction": {"0.01": 0.01, "1e-2": 0.01, "1%": 0.01, "0": 0},
    "number": {"7": 7, "-2.5": -2.5, "2e2": 200},
    "count": {"12": 12, "-3": -3},
}  # fmt: skip
MALFORMED = {
    "bytes": ("", "k", "-1", "1.5", "0.3kB1", "1e3", "64KiBs", "nan", "64q", "1%", "."),
    "seconds": ("", "s", "-1", "5m", "1:30", "inf", "1e400", "5KiB"),
    "fraction": ("", "%", "-1%", "1/2", "nan"),
    "number": ("", "inf", "5s", "1 2", "--1"),
    "count": ("", "1.5", "1e3", "4k"),
}


def test_values_have_units():
    found = {name: {text: UNITS[name].parse(text) for text in VALUES[name]} for name in VALUES}
    assert found == VALUES
    assert UNITS["seconds"].parse("2", default="d") == 2 * 86400


@pytest.mark.parametrize("name", UNITS)
def test_other_texts_have_no_unit(name):
    for text in MALFORMED[name]:
        with pytest.raises(ValueError, match=f"^{re.escape(repr(text))} is not .*; write .*[0-9]"):
            UNITS[name].parse(text)


def quantities():
    """Yield command line and unit of every option that takes bytes, seconds or a fraction."""
    context = click.Context(app.group)
    for name in app.group.list_commands(context):
        command = app.group.get_command(context, name)
        subcommands = getattr(command, "commands", {})
        names = subcommands and command.list_commands(context)
        for sub in names or [""]:
            each = command.get_command(context, sub) if sub else command
            for option in each.get_params(click.Context(each)):
                yield [*filter(None, (name, sub))], option


def test_every_option_with_a_unit_accepts_its_forms(capsys):
    flags = set()
    for words, option in quantities():
        flag = option.opts[0]
        if isinstance(option.type, options.Quantity):
            unit = option.type.unit
            flags.add(flag)
            assert app.run([*words, flag, "12 parsecs"]) == 2
            said = capsys.readouterr().err
            assert f"'{flag}'" in said and f"'12 parsecs' is not {unit.kind}" in said, said
            assert unit.forms in said
        elif not getattr(option, "count", False) and not getattr(option, "is_flag", False):
            assert not isinstance(option.type, (click.IntRange, click.FloatRange)), (words, flag)
            names = f"{flag} {option.metavar or ''}".upper()
            assert not re.search(r"\bSECONDS|\bBYTES$|MEMORY$|\bRAM\b", names), (words, names)
    assert {"--ram", "--max-memory", "--seconds", "--clear-older-than", "--max-error"} <= flags


def test_shapes():
    found = option_values.parse_shapes(["x=1,3,224,224", "a=b=2"])
    assert found == {"x": (1, 3, 224, 224), "a=b": (2,)}


def test_shapes_with_symbolic_dimensions():
    texts = ["x=N<=8,3,H=32..640,W", "a=b=N<=2"]
    found = option_values.parse_shapes(texts)
    assert found == {"x": ("N<=8", 3, "H=32..640", "W"), "a=b": ("N<=2",)}


def test_dims():
    found = option_values.parse_dims(["batch=0..8", "seq<=128", "total = past + seq"])
    assert found == {"batch": (0, 8), "seq": (1, 128), "total": " past + seq"}


def test_pools():
    found = option_values.parse_pools(["sram=65536", "dtcm=0", "tcm=12kb", "fast=64KiB@.fast"])
    assert found == {"sram": 65536, "dtcm": 0, "tcm": 12000, "fast": (65536, ".fast")}


@pytest.mark.parametrize(
    ("flag", "texts"),
    [
        ("--dim", ["n", "n=", "n=3", "n<3", "n=1..", "<=4", "n=-1..2"]),
        ("--shape", ["x", "x=", "=1,2", "x=1,,2", "x=1,a-", "x=0", "x=1,-2", "x=1.5"]),
        ("--pool", ["sram", "sram=", "sram=64q", "sram=-1", "sram=1@"]),
        ("--sequence", ["x", "x=-1", "x=many"]),
        ("--place", ["x"]),
        ("--device-option", ["x", "x=1", "x:=1"]),
    ],
)
def test_wrong_value_is_refused_with_option_and_text(flag, texts, capsys):
    for text in texts:
        assert app.run(["compile", "net.onnx", "-o", "net.tar", flag, text]) == 2
        said = capsys.readouterr().err
        assert f"Invalid value for '{flag}': '{text}'" in said, said


def test_names_may_be_joined_by_commas_or_repeated():
    assert option_values.parse_names(["a, b", "c", ""]) == ["a", "b", "c"]

"""Options of tvmrt.compile are defined once, for Python and for the command line."""

from __future__ import annotations

import inspect

import click
import numpy as np
import pytest

import tvmrt
from tvmrt.cli import main
from tvmrt.cli.compile import command
from tvmrt.compiler import option_rules
from tvmrt.compiler.request import Request, rows

BOARD = ("--target", "cortex-m4")
C_INTERFACE = ("--interface-api", "c", "--unpacked-api")

# A command line for each invalid combination, by words of its error.
REFUSED = {
    "the host runtime calls networks by packed functions only": ("--unpacked-api",),
    "interface-api c passes raw pointers": (
        *BOARD, "--interface-api", "c", "--no-unpacked-api",
    ),
    "the graph executor calls operators by packed functions": (
        *BOARD, "--executor", "graph", *C_INTERFACE,
    ),
    "read weights in place, not from a file": (*BOARD, "--params", "file"),
    "a function of tvm-ffi is one call of the whole network": (
        "--abi", "tvm-ffi", "--executor", "graph",
    ),
    "schedule async is for hosts": (*BOARD, "--schedule", "async"),
    "trace-records needs profile or record": (*BOARD, "--trace-records", "3"),
    "profile and record are for networks of the crt runtime": ("--profile",),
    "levels need an operating system that loads the library": (
        "--target", "x86-64", "--runtime", "crt",
    ),
    "profile and record need unpacked-api": (
        *BOARD, "--record", "--no-unpacked-api",
    ),
    "trace-records is 16777217": (
        *BOARD, *C_INTERFACE, "--record", "--trace-records", "16777217",
    ),
    "the graph executor uses a single memory arena": (
        *BOARD, "--executor", "graph", "--pool", "sram=1000",
    ),
    "memory pools need runtime crt": ("--pool", "sram=1000"),
    "ram needs runtime crt with executor aot": ("--ram", "1000"),
    "place needs runtime crt": ("--place", "a=flash"),
    "workspace-io needs runtime crt and interface-api c": ("--workspace-io",),
    "dynamic dimensions on boards need executor aot": (
        *BOARD, "--no-unpacked-api", "--dim", "n=1..4",
    ),
    "record does not support dynamic dimensions": (
        *BOARD, *C_INTERFACE, "--record", "--dim", "n=1..4",
    ),
    "max-error needs mixed-precision, precision bf16, weights or winograd": ("--max-error", "0.1"),
    "max-error is 0.0; it must be a number": ("--weights", "int8", "--max-error", "0"),
    "max-error applies to one of mixed-precision, precision, weights and winograd": (
        "--weights", "int8", "--max-error", "0.1", "--mixed-precision", "bf16",
    ),
    "winograd needs runtime host": ("--winograd", "--target", "cortex-m4"),
    "row-chains needs runtime host": ("--no-row-chains", "--target", "cortex-m4"),
    "max-error of precision bf16 is measured on inputs of the network; give calibration": (
        "--precision", "bf16", "--max-error", "0.1",
    ),
    "precision bf16 needs runtime host": (*BOARD, "--precision", "bf16"),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED, ids=lambda text: text.replace(" ", "-")[:40])
def test_invalid_combinations_are_refused_by_the_command(digits, tmp_path, capsys, sentence):
    out = tmp_path / "out.tar"
    code = main(["compile", str(digits / "digits_f32.onnx"), "-o", str(out), *REFUSED[sentence]])
    assert code == 2
    assert sentence in capsys.readouterr().err
    assert not out.exists()


def test_every_rule_has_its_command_line():
    messages = [rule.sentence.split(" {")[0] for rule in option_rules.RULES]
    for sentence in messages:
        assert any(words in sentence or sentence in words for words in REFUSED), sentence
    assert len(messages) == len(REFUSED)


@pytest.mark.parametrize("name", [name for name, (_, row) in rows().items() if row.flag])
def test_command_has_the_option_with_the_same_default(name):
    default, row = rows()[name]
    (option,) = (p for p in command.params if p.name == name)
    assert row.flag.split("/")[0] in option.opts
    if name == "module_name":  # with several networks, names come from the files
        return
    found = option.get_default(click.Context(command))
    assert (found or None) == (default or None)


def test_signature_and_docstring_name_every_option():
    documented = inspect.getdoc(tvmrt.compile)
    parameters = inspect.signature(tvmrt.compile).parameters
    for name in rows():
        assert name in parameters
        assert f"\n{name}\n    " in documented


def test_options_may_be_given_as_one_object(digits):
    model = digits / "digits_f32.onnx"
    record = Request(executor="aot", module_name="net")
    by_record = tvmrt.compile(model, record)
    by_name = tvmrt.compile(model, executor="aot", module_name="net")
    assert by_record.sources.files == by_name.sources.files


@pytest.mark.parametrize(
    ("call", "words"),
    [
        pytest.param({"exectuor": "aot"}, "did you mean executor", id="misspelt"),
        pytest.param({"qqq": 1}, "choose from executor, ", id="unknown"),
        pytest.param({"request": Request(), "executor": "aot"}, "in one tvmrt.Request", id="both"),
        pytest.param({"request": "aot"}, "pass options by keyword", id="no-record"),
        pytest.param({"devices": "npu"}, r"devices: give a list, \['npu'\]", id="no-list"),
        pytest.param({"dims": "n=1..3"}, "dims: give a dict of names and values", id="no-dict"),
        pytest.param({"winograd": "no"}, "winograd: give True or False, not 'no'", id="no-bool"),
        pytest.param({"max_memory": "1e9"}, "max_memory: give a whole number", id="no-number"),
        pytest.param({"max_memory": 1e9}, "max_memory: give a whole number", id="no-integer"),
        pytest.param({"max_memory": True}, "max_memory: give a whole number", id="no-truth"),
    ],
)
def test_unknown_options_are_refused(digits, call, words):
    with pytest.raises(TypeError, match=words):
        tvmrt.compile(digits / "digits_f32.onnx", **call)


@pytest.mark.parametrize("option", ["max_memory", "ram", "trace_records"])
@pytest.mark.parametrize("value", [0, -5, np.int64(-1)])
def test_numbers_that_are_too_small(digits, option, value):
    with pytest.raises(ValueError, match=f"{option}: give a number of at least 1, not {value}"):
        tvmrt.compile(digits / "digits_f32.onnx", **{option: value})

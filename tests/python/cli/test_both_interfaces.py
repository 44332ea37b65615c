"""Errors in the words of the interface that was called: ``interface_errors.toml`` has them."""

from __future__ import annotations

import ast
import itertools
import os
import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import tvmrt
from tvmrt import option_syntax
from tvmrt.cli import main
from tvmrt.compiler import option_rules
from tvmrt.compiler.request import all_options
from tvmrt.option_syntax import command_line, option

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[3]
TABLE = tomllib.loads(Path(__file__).with_name("interface_errors.toml").read_text())
MISTAKES = TABLE["mistake"]
PREFIX, HINT = "tvmrt: error: ", " (see 'tvmrt compile --help')"


@pytest.fixture
def networks(tmp_path, monkeypatch) -> Path:
    """Save the networks of the table in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name, text in TABLE["networks"].items():
        head = '<ir_version: 8, opset_import: ["" : 17, "com.maker" : 1]>'
        onnx.save(onnx.parser.parse_model(f"{head} {text}"), f"{name}.onnx")
    return tmp_path


def _differs(found: str, expected: str) -> bool:
    start = expected.removesuffix("...")
    return found != expected if start == expected else not found.startswith(start)


def _python_error(mistake: dict[str, str]) -> str:
    given = eval(f"dict({mistake['python']})")
    try:
        tvmrt.compile(f"{mistake['network']}.onnx", **given).export_library("net.so")
    except (TypeError, ValueError, KeyError, OSError, tvmrt.TVMError) as error:
        return str(error)
    return "no error"


@pytest.mark.skipif(not (ROOT / "plugins").is_dir(), reason="sentences list what plug-ins add")
def test_errors_of_python_calls(networks):
    found = [_python_error(mistake) for mistake in MISTAKES]
    pairs = zip(found, MISTAKES)
    assert [text for text, each in pairs if _differs(text, each["python_error"])] == []
    assert [text for text in found if re.search(r"(?<![\w-])--?[a-z]", text)] == []
    assert len(MISTAKES) >= 80


@pytest.mark.skipif(not (ROOT / "plugins").is_dir(), reason="sentences list what plug-ins add")
def test_errors_of_commands(networks, capsys):
    differing = {}
    for mistake in MISTAKES:
        options = shlex.split(mistake["command"])
        out = "net.tar" if {"--target", "--board"} & set(options) else "net.so"
        code = main(["compile", f"{mistake['network']}.onnx", "-o", out, *options])
        found = capsys.readouterr().err.strip().split("\n")[-1]
        found = found.removeprefix(PREFIX).removesuffix(HINT)
        if code != 2 or _differs(found, mistake["command_error"]):
            differing[mistake["command"]] = found
    assert differing == {}
    keyword = re.compile(rf"\b({'|'.join(all_options())})=")
    assert [m for m in MISTAKES if keyword.search(m["command_error"])] == []


def test_every_rule_of_options_has_a_mistake():
    errors = [mistake["python_error"] for mistake in MISTAKES]
    for rule in option_rules.RULES:
        words = map(re.escape, re.split(r"\{[^}]*\}", rule.sentence))
        pattern = re.compile(".+".join(words))
        assert any(map(pattern.fullmatch, errors)), rule.sentence


WRONG = (
    5, -1, True, 3.5, "", "x", b"x", [1], [None], (), {1: 2}, {"x": "8"}, {"x": None}, {"x": 1.5},
    {"x": (8, 1, 2)}, np.float32(2.5), np.int64(-3), np.array([1, 2]), Path("none"), object(),
)  # fmt: skip


def test_values_of_wrong_types(networks):
    """A value of a wrong type is refused with a sentence by tvmrt's own code."""
    for name, value in itertools.product(all_options(), WRONG):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                tvmrt.compile("fixed.onnx", **{"target": "native", name: value})
            except (TypeError, ValueError, KeyError, OSError, tvmrt.TVMError) as error:
                file = str(_innermost(error))
                assert "tvmrt" in file or "plugins" in file or isinstance(error, OSError), error
                assert not re.search(r"ambiguous|object (is|has)|unhashable|argument", str(error))


def _innermost(error: BaseException) -> str:
    """Return the file that raised an error."""
    trace = error.__traceback__
    assert trace is not None
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename


def test_numbers_of_numpy_are_taken(networks):
    given = tvmrt.compile(
        "batch.onnx", target="native", dims={"batch": (np.int64(1), np.int32(4))},
        max_memory=np.int64(1 << 20), winograd=np.bool_(False),
    )  # fmt: skip
    plain = tvmrt.compile(
        "batch.onnx", target="native", dims={"batch": (1, 4)}, max_memory=1 << 20, winograd=False
    )
    assert given.sources.files == plain.sources.files


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "python", "command"),
    [
        ("ram", 12000, "ram=12000", "--ram 12000"),
        ("cc", "gcc -O1", 'cc="gcc -O1"', "--cc 'gcc -O1'"),
        ("winograd", False, "winograd=False", "--no-winograd"),
        ("device_fallback", True, "device_fallback=True", "--device-fallback"),
        ("devices", ["npu", "dsp"], 'devices=["npu", "dsp"]', "--device npu,dsp"),
        ("dims", {"n": (1, 8)}, 'dims={"n": (1, 8)}', "--dim n=1..8"),
        ("dims", {"n": "2*m"}, 'dims={"n": "2*m"}', "--dim 'n=2*m'"),
        ("shapes", {"x": (1, "N<=8")}, 'shapes={"x": (1, "N<=8")}', "--shape 'x=1,N<=8'"),
        ("sequences", {"x": None}, 'sequences={"x": None}', "--sequence x=none"),
        ("pools", {"a": (9, ".s")}, 'pools={"a": (9, ".s")}', "--pool a=9@.s"),
        ("place", {"a": "b", "c": "d"}, 'place={"a": "b", "c": "d"}', "--place a=b --place c=d"),
        ("device_options", {"n": {"k": 2}}, 'device_options={"n": {"k": 2}}',
         "--device-option n:k=2"),
    ],
)  # fmt: skip
def test_spelling_of_an_option(name, value, python, command):
    assert option(name, value) == python
    assert eval(f"dict({python})") == {name: value}
    with command_line():
        assert option(name, value) == command


def _messages(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield the strings, besides docstrings, of files with the pattern."""
    own = [*ROOT.glob("python/tvmrt/**/*.py"), *ROOT.glob("plugins/*/python/**/*.py")]
    for file in own:
        text = file.read_text()
        tree = ast.parse(text if pattern.search(text) else "")
        skipped = {
            id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)
        } | {
            id(part) for node in ast.walk(tree) if _renders(node) for part in ast.walk(node)
        }  # fmt: skip
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in skipped:
                yield str(file.relative_to(ROOT)), str(node.value)


def _renders(node: Any) -> bool:
    """Return whether a call has a text for each interface or describes an option."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
        "choose", "option", "grouped", "Option", "_option",
    )  # fmt: skip


# Code that the command alone runs, and texts of other programs and of generated files.
COMMAND_ONLY = re.compile(
    r"python/tvmrt/(cli|connection)|plugins/(rpc|report|cycles|conformance)/"
    r"|command\.py|schemas\.py|skeleton\.py|firmware_build\.py|option_docs\.py"
)


def test_no_message_spells_an_option_itself():
    flags = {flag for row in all_options().values() for flag in (row.flag or "").split("/") if flag}
    spelt = re.compile(rf"(?<![\w`-])({'|'.join(sorted(flags, key=len, reverse=True))})\b(?!-)")
    hyphened = "|".join(name.replace("_", "-") for name in all_options() if "_" in name)
    pattern = re.compile(rf"{spelt.pattern}|(?<![\w-])({hyphened})\b (?!{{)")
    found = [
        f"{file}: {text.strip()}"
        for file, text in _messages(pattern)
        if " " in text.strip() and not COMMAND_ONLY.search(file)
        if pattern.search(text)
    ]
    assert found == []
    assert os.path.isfile(option_syntax.__file__)

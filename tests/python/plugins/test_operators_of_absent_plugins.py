"""ONNX operators that plug-ins import: without the plug-in, the error names both."""

from __future__ import annotations

import pytest
from installed_plugins import install
from onnx import parser

import tvmrt
from tvmrt import plugin
from tvmrt.error import UnsupportedError

NETWORK = '<ir_version: 8, opset_import: ["" : 17, "toys" : 1]> g (float[2] x) => (float[2] y) '


@pytest.fixture
def left_out(monkeypatch):
    rows = {("", "Wind"): "none", ("toys", "Spin"): "none"}
    mine = plugin.Plugin("mine", "for tests", operators=rows)
    install(monkeypatch, mine)
    monkeypatch.setenv(plugin.VARIABLE, "-mine")


@pytest.mark.parametrize("called", ["Wind", "toys::Spin"])
def test_operator_of_an_absent_plugin_is_named(called, left_out):
    node = called.replace("::", ".")
    said = f"unknown operator {called}, version .*; the plug-in mine has {called}, but"
    with pytest.raises(UnsupportedError, match=f"{said} {plugin.VARIABLE} leaves it out"):
        tvmrt.compile(parser.parse_model(NETWORK + f"{{ y = {node}(x) }}"))


def test_unknown_operator_is_named(left_out):
    with pytest.raises(UnsupportedError, match=r"unknown operator Tilt, version 17\)$"):
        tvmrt.compile(parser.parse_model(NETWORK + "{ y = Tilt(x) }"))


def test_operator_with_string_operands_is_named(left_out):
    network = NETWORK.replace("float[2]", "string[2]") + "{ y = Wind(x) }"
    with pytest.raises(UnsupportedError, match=r"unknown operator Wind, .* plug-in mine has Wind"):
        tvmrt.compile(parser.parse_model(network))

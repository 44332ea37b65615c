"""Region texts for devices match the schema of ``tvmrt schema regions``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from unary import chain

import tvmrt
from tvmrt.cli import main
from tvmrt.compiler.devices.region_json import region_text
from tvmrt.compiler.ir import IR_VERSION

jsonschema = pytest.importorskip("jsonschema")
ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits_int8.onnx"


@pytest.fixture
def validator(capsys):
    assert main(["schema", "regions"]) == 0
    schema = json.loads(capsys.readouterr().out)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


class Reader(tvmrt.devices.Device):
    """Device that takes everything and records the region texts."""

    name = "reader"

    def absent(self):
        return None

    def supports(self, node):
        return None

    def evaluate(self, region):
        text, _ = region_text([region], self.name, 3, {"timeout_ms": 5})
        self.found = json.loads(text)


@pytest.fixture
def reader():
    device = Reader()
    tvmrt.devices.register(device)
    yield device
    tvmrt.devices.unregister("reader")


def test_region_json_matches_the_schema(validator, reader):
    """Use a quantised network, whose nodes have attributes of all kinds and constants."""
    tvmrt.compile(DIGITS, devices=["reader"])
    validator.validate(reader.found)
    (region,) = reader.found["regions"]
    assert region["ir_version"] == IR_VERSION
    assert any("offset" in row for row in region["tensors"])


def test_dynamic_sizes_match_the_schema(validator, reader):
    tvmrt.compile(chain("Relu", "Exp", extents="N,3"), devices=["reader"], dims={"N": (1, 8)})
    validator.validate(reader.found)
    (region,) = reader.found["regions"]
    assert region["sizes"] == [[1, 8]]
    assert region["tensors"][0]["extents"] == ["1 d0 *", "3"]


def test_invalid_region_json_violates_the_schema(validator, reader):
    tvmrt.compile(chain("Relu"), devices=["reader"])
    expected = reader.found
    region = expected["regions"][0]
    node = region["nodes"][0]
    wrong = [
        {**expected, "version": 2},
        {**expected, "regions": [{k: v for k, v in region.items() if k != "ir_version"}]},
        {**expected, "regions": [{**region, "nodes": [{**node, "inputs": [-2]}]}]},
        {**expected, "regions": [{**region, "nodes": [{**node, "attrs": {"a": None}}]}]},
        {**expected, "regions": [{**region, "tensors": [{**region["tensors"][0], "offset": 64}]}]},
    ]
    assert validator.is_valid(expected)
    assert not [text for text in wrong if validator.is_valid(text)]


def test_example_of_the_page_matches_the_schema(validator):
    page = (ROOT / "docs/reference/devices.md").read_text(encoding="utf-8")
    (shown,) = (part for part in page.split("```json")[1:] if '"tvmrt-regions"' in part)
    validator.validate(json.loads(shown.partition("```")[0]))

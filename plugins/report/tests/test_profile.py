"""Test ``tvmrt bench --profile``."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import example_devices
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from unary import chain, plugin

import tvmrt
from tvmrt.cli import main

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"
LAYERS = ["conv1", "conv2", "depthwise", "pointwise", "pool", "dense", "softmax"]


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_operators_of_the_host_and_of_a_device_are_timed(executor, capsys):
    example_devices.load("tpu")
    options = ["--seconds", "0.01", "--device", "tpu", "--executor", executor, "--json"]
    assert main(["bench", str(DIGITS), *options, "--profile"]) == 0
    (network,) = json.loads(capsys.readouterr().out)["networks"]
    assert {row["device"] for row in network["operators"]} == {"cpu", "tpu"}
    assert all(row["seconds"] > 0 for row in network["operators"])
    nodes = {node for row in network["operators"] for node in row["nodes"]}
    assert {"conv1", "relu1", "dense", "softmax"} <= nodes


@pytest.mark.slow
@pytest.mark.parametrize("is_constant", [True, False])
def test_only_the_gathered_rows_of_a_table_are_moved(is_constant, tmp_path, capsys):
    """Else a gather would seem to read far above the bandwidth of the memory."""
    table = numpy_helper.from_array(np.ones((1000, 64), np.float32), "table")
    inputs = [
        helper.make_tensor_value_info("ids", TensorProto.INT64, [3]),
        helper.make_tensor_value_info("table", TensorProto.FLOAT, [1000, 64]),
    ]
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "ids"], ["y"], "rows")], "g",
        inputs[:1] if is_constant else inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 64])],
        [table] if is_constant else [],
    )  # fmt: skip
    opset = [helper.make_opsetid("", 17)]
    path = tmp_path / "gather.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    assert main(["bench", str(path), "--profile", "--seconds", "0.01", "--json"]) == 0
    (network,) = json.loads(capsys.readouterr().out)["networks"]
    (row,) = [row for row in network["operators"] if row["name"] == "rows"]
    assert row["moved_bytes"] == 3 * 8 + 2 * 3 * 64 * 4


def test_report_has_the_times_of_the_ahead_of_time_executor():
    report = tvmrt.load(DIGITS, executor="aot").report()
    assert [operator["name"] for operator in report.data["operators"]] == LAYERS
    assert all(operator["seconds"] > 0 for operator in report.data["operators"])


def test_events_of_a_device_are_in_the_report(tmp_path, monkeypatch):
    monkeypatch.setenv("CHIP", "a1")
    monkeypatch.setenv("CHIPS_LOG", str(tmp_path / "log"))
    tvmrt.load_device_plugin(plugin(tmp_path / "chips", "chips_device.c", "chips"))
    network = tvmrt.load(chain("Neg"), devices=["chips"], cache=False)
    network(np.ones((2, 3), np.float32))
    (region,) = network.report().data["operators"]
    assert region["region"] == "tvmgen_default_chips_main_0"
    assert [event["name"] for event in region["events"]] == ["load", "multiply"]
    del network
    gc.collect()
    tvmrt.get_global_func("tvmrt.device.unregister")("chips")

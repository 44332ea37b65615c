"""Test ``tvmrt bench --profile``: the table, and a trace in the documented format of Perfetto and
Chrome."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import example_devices
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.cli import main

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"
LAYERS = ["conv1", "conv2", "depthwise", "pointwise", "pool", "dense", "softmax"]
PHASES = {"X": {"name", "cat", "ts", "dur", "pid", "tid"}, "M": {"name", "pid", "tid", "args"}}


@pytest.fixture(scope="module", params=["graph", "aot"])
def profiled(request, tmp_path_factory):
    """Return the events of runs on the host and a simulated device, by phase."""
    example_devices.load("tpu")
    path = tmp_path_factory.mktemp("profile") / "trace.json"
    options = ["--seconds", "0.01", "--device", "tpu", "--executor", request.param]
    assert main(["bench", str(DIGITS), *options, "--profile", "--trace", str(path)]) == 0
    found = defaultdict(list)
    for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"]:
        assert set(event) >= PHASES[event["ph"]]
        found[event["ph"]].append(event)
    return found


def test_trace_has_a_line_for_each_device_and_one_for_the_runs(profiled):
    names = {e["tid"]: e["args"]["name"] for e in profiled["M"] if e["name"] == "thread_name"}
    assert sorted(names.values()) == ["calling thread", "device tpu", "runs"]
    processes = {e["args"]["name"] for e in profiled["M"] if e["name"] == "process_name"}
    assert processes == {DIGITS.stem}
    for event in profiled["X"]:
        line = {"run": "runs", "cpu": "calling thread", "tpu": "device tpu"}[event["cat"]]
        assert names[event["tid"]] == line


def test_operator_events_are_sequential_within_their_run(profiled):
    runs = [e for e in profiled["X"] if e["cat"] == "run"]
    assert len(runs) >= 3
    assert [run["name"] for run in runs] == [f"run {i}" for i in range(len(runs))]
    inside = 0
    for run in runs:
        end = run["ts"]
        for event in profiled["X"]:
            if event["cat"] != "run" and run["ts"] <= event["ts"] < run["ts"] + run["dur"]:
                assert event["ts"] >= end - 1e-6
                end = event["ts"] + event["dur"]
                inside += 1
        assert end <= run["ts"] + run["dur"]
    assert inside == len(profiled["X"]) - len(runs)


def test_nodes_of_the_network_are_reported(profiled):
    nodes = {n for e in profiled["X"] for n in e.get("args", {}).get("nodes", [])}
    assert {"conv1", "relu1", "dense", "softmax"} <= nodes


def test_a_trace_needs_a_profile_of_one_network(tmp_path, capsys):
    for options in (["--profile", str(DIGITS)], []):
        assert main(["bench", str(DIGITS), *options, "--trace", str(tmp_path / "t.json")]) == 2
        assert "--trace writes the runs of --profile of one MODEL" in capsys.readouterr().err


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

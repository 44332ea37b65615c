"""Measurements of ``tvmrt bench``, without a network."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.cli import bench, main


def test_bench_calls_both_sides_equally_often_in_rotating_order():
    calls: list[str] = []
    sides = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    times = bench.interleave(sides, seconds=0.0)
    assert {name: len(t) for name, t in times.items()} == dict.fromkeys("abc", 5)
    assert calls[:9] == list("abc") + list("aabbcc")
    assert calls[9:15] == list("bbccaa")


def test_speedup_is_onnxruntime_time_over_tvmrt_time(monkeypatch):
    now = 0.0

    def takes(seconds):
        def call():
            nonlocal now
            now += seconds

        return call

    monkeypatch.setattr(bench, "time", SimpleNamespace(perf_counter=lambda: now))
    times = bench.interleave({"tvmrt": takes(1e-4), "rival": takes(4e-4)}, seconds=0.1)
    assert len(times["tvmrt"]) == 100  # two calls of each side per round
    ours, baseline = bench._timings(times)
    assert (ours.runtime, ours.speed) == ("tvmrt", 1.0)
    assert baseline.speed == pytest.approx(4.0)
    assert baseline.speed_of_fastest == pytest.approx(4.0)
    assert baseline.median == pytest.approx(4e-4)


def test_summary_has_geometric_mean_and_minimum():
    def result(name: str, speed: float) -> bench.Result:
        ours = bench.Timing("tvmrt", 1.0, 1.0, 1.0, 1.0)
        return bench.Result(name, [ours, bench.Timing("r", speed, speed, speed, speed)], 5, 0.1)

    summary = bench._as_dict([result("a", 0.5), result("b", 8.0)], threads=1)
    assert summary["speed"]["r"]["geometric_mean"] == pytest.approx(2.0)
    assert summary["speed"]["r"]["least"] == 0.5


@pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
def test_bench_reports_memory_of_compiled_network(tmp_path, capsys):
    """The weights count as pages of the library's file."""
    weights = np.random.default_rng(1).standard_normal((1000, 1500)).astype(np.float32)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, (1, 1000))],
        [value("y", TensorProto.FLOAT, (1, 1500))],
        [numpy_helper.from_array(weights, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    tvmrt.compile(model).export_library(tmp_path / "net.so")
    result = bench._measure_compiled(
        tmp_path / "net.so", (), None, 0.01, 1, {"remote_machine": None}
    )
    assert 0.95 * weights.nbytes < result.resident.file_bytes < weights.nbytes + 4e6
    assert result.resident.own_bytes < 4e6
    bench._print([result], 1)
    assert "net used" in (report := capsys.readouterr().out)
    assert " private" in report


def test_compiled_networks_and_other_machines_are_not_profiled(tmp_path, capsys):
    library = tmp_path / "net.so"
    library.write_bytes(b"")
    assert main(["bench", str(library), "--profile"]) == 2
    assert "'tvmrt run --profile' times a compiled library" in capsys.readouterr().err

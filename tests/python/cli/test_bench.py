"""Measurements of ``tvmrt bench``, without a network."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

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


def test_compiled_networks_and_other_machines_are_not_profiled(tmp_path, capsys):
    library = tmp_path / "net.so"
    library.write_bytes(b"")
    assert main(["bench", str(library), "--profile"]) == 2
    assert "'tvmrt run --profile' times a compiled library" in capsys.readouterr().err

"""How ``tvmrt bench`` measures, apart from what it measures."""

from __future__ import annotations

import time

import pytest

from tvmrt.cli import bench


def _busy(seconds: float):
    def call() -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass

    return call


def test_rounds_call_every_side_equally_often_in_a_rotating_order():
    calls: list[str] = []
    sides = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    times = bench.interleave(sides, seconds=0.0)
    assert {name: len(t) for name, t in times.items()} == dict.fromkeys("abc", 5)
    assert calls[:9] == list("abc") + list("aabbcc")
    assert calls[9:15] == list("bbccaa")


def test_speed_is_the_rivals_time_over_ours():
    times = bench.interleave({"tvmrt": _busy(1e-4), "rival": _busy(4e-4)}, seconds=0.1)
    ours, rival = bench._timings(times)
    assert (ours.runtime, ours.speed) == ("tvmrt", 1.0)
    assert rival.speed == pytest.approx(4.0, rel=0.2)
    assert rival.speed_of_fastest == pytest.approx(4.0, rel=0.2)
    assert rival.median == pytest.approx(4e-4, rel=0.2)


def test_summary_is_the_geometric_mean_and_the_least():
    def result(name: str, speed: float) -> bench.Result:
        ours = bench.Timing("tvmrt", 1.0, 1.0, 1.0, 1.0)
        return bench.Result(name, [ours, bench.Timing("r", speed, speed, speed, speed)], 5, 0.1)

    summary = bench._as_dict([result("a", 0.5), result("b", 8.0)], threads=1)
    assert summary["speed"]["r"]["geometric_mean"] == pytest.approx(2.0)
    assert summary["speed"]["r"]["least"] == 0.5

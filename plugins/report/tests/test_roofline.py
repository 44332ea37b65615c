"""Test the fraction of the machine's peak that operators reach."""

from __future__ import annotations

import pytest

from tvmrt.compiler import processor
from tvmrt.plugins.report import operator_times
from tvmrt.plugins.report.roofline import SIZES, add_rooflines, bandwidths


def test_roofline_fraction_uses_the_longer_lower_bound():
    rows = [
        {"precision": "float32", "macs": 500, "moved_bytes": 10, "seconds": 4.0},
        {"precision": "float32", "macs": 10, "moved_bytes": 400, "seconds": 8.0},
        {"precision": "int8", "macs": 600, "moved_bytes": 0, "seconds": 1.0},  # above the peak
        {"precision": "float32", "macs": 5, "moved_bytes": 5},  # not timed
    ]
    peaks, moved = add_rooflines(rows, {"float32": 500.0, "int8": 1000.0}, {1000: 100.0})
    assert peaks == {"float32": 500.0, "int8": 1200.0}  # peaks that the fractions refer to
    assert moved == {1000: 100.0}
    assert [row.get("roofline") for row in rows] == [0.5, 0.5, 1.0, None]
    assert [row.get("bound") for row in rows] == ["arithmetic", "memory", "arithmetic", None]


def test_data_in_a_cache_has_the_roof_of_the_cache():
    moved = [(80, 1.0), (100, 0.5), (1000, 5.0), (1001, 10.01), (5000, 10.0)]
    rows = [
        {"precision": "float32", "macs": 0, "moved_bytes": size, "seconds": time}
        for size, time in moved
    ]
    _, roofs = add_rooflines(rows, {}, {100: 160.0, 1000: 400.0, 2000: 100.0})
    # 100 bytes take half a second; larger data is faster than measured there; 5000 fit nowhere
    assert roofs == {100: 500.0, 1000: 500.0, 2000: 500.0}
    assert [row["roofline"] for row in rows] == pytest.approx([0.16, 0.4, 0.4, 0.2, 1.0])


@pytest.mark.parametrize("threads", [1, 2])
def test_bandwidths_are_measured_for_every_size(threads):
    found = bandwidths(threads)
    assert sorted(found) == sorted(SIZES)
    assert all(1e8 < each < 1e14 for each in found.values())


@pytest.mark.skipif("amx_int8" not in processor.flags(), reason="no matrices of bytes here")
def test_int8_peak_is_measured_with_the_kernel_instructions(monkeypatch):
    def peak() -> float:  # other processes may use the same units
        return max(operator_times.peaks(["int8"])["int8"] for _ in range(3))

    by_vectors = peak()  # TVMRT_TARGET is native in these tests
    monkeypatch.delenv("TVMRT_TARGET")
    assert peak() > 1.2 * by_vectors  # about four times it on an idle machine

"""A scheduler chooses at run time between the device of a region and the CPU."""

from __future__ import annotations

import numpy as np
from unary import built, chain, executor, plugin

import tvmrt


def test_scheduler_chooses_by_the_values_of_each_run(tmp_path, monkeypatch):
    tvmrt.load_device_plugin(str(built(tmp_path, "judged")))
    tvmrt.load_device_plugin(str(plugin(tmp_path, "scheduler_by_value.c", "scheduler")))
    options = {"devices": ["judged"], "device_fallback": True, "executor": "graph"}
    tvmrt.compile(chain("Neg", "Abs"), **options).export_library(tmp_path / "net.so")
    net = executor(tmp_path / "net.so")
    net.set_scheduler("by_value")
    for i, first in enumerate((3, -3, 30, -1)):
        log = tmp_path / f"log{i}"
        log.touch()
        monkeypatch.setenv("UNARY_LOG", str(log))
        x = np.array([[first, 2, -3], [4, -5, 6]], np.float32)
        net.run(x=x)
        np.testing.assert_array_equal(net.get_output(0).numpy(), np.abs(x))
        assert ("begins" in log.read_text()) == (first > 0)
    # the CPU was chosen: nothing failed, so there is no warning
    assert [entry["runs"] for entry in tvmrt.device_fallbacks(net)] == [0]

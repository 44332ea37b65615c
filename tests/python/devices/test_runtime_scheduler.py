"""A scheduler chooses at run time between the devices that can compute a region."""

from __future__ import annotations

import numpy as np
import pytest
from unary import built, chain, executor, plugin

import tvmrt

# the first input element, the device chosen for -x then |x|, and the value added there
JUDGED = {"judged": (3, 0), "twin": (30, 1000), "cpu": (-3, 0)}


def network(folder, *, fallback: bool):
    options = {"devices": ["judged"], "device_fallback": fallback, "executor": "graph"}
    path = folder / f"net{fallback}.so"
    tvmrt.compile(chain("Neg", "Abs"), **options).export_library(path)
    made = executor(path)
    made.set_scheduler("by_value")
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("choosing")
    tvmrt.load_device_plugin(str(built(made / "plugins", "judged")))
    twin = plugin(made / "plugins", "choosing_device.c", "twin")
    tvmrt.load_device_plugin(str(twin))
    return made


def test_scheduler_chooses_by_the_values_of_each_run(folder):
    net = network(folder, fallback=True)
    for device in ("judged", "twin", "cpu", "twin", "judged"):
        first, added = JUDGED[device]
        x = np.array([[first, 2, -3], [4, -5, 6]], np.float32)
        net.run(x=x)
        np.testing.assert_array_equal(net.get_output(0).numpy(), np.abs(x) + added)
        chosen = [step["chosen"] for step in net.get_trace()["steps"] if "chosen" in step]
        assert chosen == ([] if device == "judged" else [device])
    # the CPU was chosen: nothing failed, so there is no warning
    assert [entry["runs"] for entry in tvmrt.device_fallbacks(net)] == [0]


def test_cpu_without_generated_code_is_refused(folder):
    net = network(folder, fallback=False)
    with pytest.raises(ValueError, match="has no code for the CPU: compile the network w"):
        net.run(x=np.full((2, 3), -1, np.float32))
    net.run(x=np.full((2, 3), 1, np.float32))
    np.testing.assert_array_equal(net.get_output(0).numpy(), np.ones((2, 3)))

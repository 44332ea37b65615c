"""A device that cannot start or fails: the CPU computes instead, with one warning that says why."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from unary import HERE, built, chain

import tvmrt

X = np.array([[-1, 2, -3], [4, -5, 6]], np.float32)

# prints the outcome of two runs by each executor
RUN = """
import json, sys
import numpy as np
sys.path.insert(0, sys.argv[1])
from unary import executor
import tvmrt
x = np.array(json.loads(sys.argv[2]), np.float32)
found = {}
for kind in ("graph", "aot"):
    network = executor(sys.argv[3] + kind + ".so", kind)
    if kind == "graph":
        network.set_scheduler("sync")
    for _ in range(2):
        network.run(x=x)
    found[kind] = {
        "y": network.get_output(0).numpy().tolist(),
        "fallbacks": tvmrt.device_fallbacks(network),
    }
print(json.dumps(found))
"""

CASES = {
    "works": ((), {}, None),
    "absent": (None, {}, "which is not registered"),
    "driver": ((), {"UNARY_INIT": "1"}, "init failed: the driver is missing"),
    "run": (
        (),
        {"UNARY_RUN": "1"},
        "region 'tvmgen_default_unary_main_0' failed: configured to",
    ),
    "interface": (("ABI=99",), {}, "was built for version 99"),
    "library": (("ABSENT",), {}, "undefined symbol: function_of_an_absent_library"),
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fallback")
    built(folder / "plugins", "unary")
    tvmrt.load_device_plugin(str(folder / "plugins" / "libtvmrt_device_unary.so"))
    for kind in ("graph", "aot"):
        options = {"devices": ["unary"], "device_fallback": True, "executor": kind}
        library = tvmrt.compile(chain("Neg", "Relu"), **options)
        library.export_library(folder / f"{kind}.so")
    return folder


@pytest.mark.parametrize(("macros", "environment", "reason"), CASES.values(), ids=CASES)
def test_fallback(libraries, tmp_path, macros, environment, reason):
    tmp_path.joinpath("plugins").mkdir()
    if macros is not None:
        built(tmp_path / "plugins", "unary", *macros, flags=("-Wl,-z,lazy",))
    environment = {**os.environ, "TVMRT_DEVICE_PATH": str(tmp_path / "plugins"), **environment}
    done = subprocess.run(
        [sys.executable, "-c", RUN, HERE, json.dumps(X.tolist()), f"{libraries}/"],
        capture_output=True, text=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for kind in ("graph", "aot"):
        np.testing.assert_array_equal(found[kind]["y"], np.maximum(-X, 0))
        (row,) = found[kind]["fallbacks"]
        assert (row["device"], row["runs"]) == ("unary", 2 if reason else 0)
        assert (reason or "") in row["reason"]
        assert bool(row["reason"]) == bool(reason)
    warnings = [line for line in done.stderr.splitlines() if "tvmrt: warning" in line]
    assert len(warnings) == (2 if reason else 0), done.stderr  # one per library
    assert all("the CPU computes region" in line and reason in line for line in warnings)

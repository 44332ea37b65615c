"""Schedulers from Python: exceptions of devices in Python, and forked processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import simulated

import tvmrt
from tvmrt.runtime import register_func


def test_exception_of_a_python_device_reaches_the_caller():
    def fail(_symbol, *_tensors):
        raise ValueError("the belt is off")

    for name in ("left", "third"):
        simulated.add_device(name, 0)
    register_func("device.right.run", fail, override=True)
    executor = simulated.executor(simulated.STAGES)
    for _ in range(2):
        executor.run_async()
        failed = r"device 'right': run of region 'two' failed: .*belt is off"
        with pytest.raises(tvmrt.TVMError, match=failed):
            executor.wait(timeout_ms=60000)
    for name in ("left", "right", "third"):
        simulated.remove_device(name)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_child_starts_new_threads():
    """In a separate process, since fork warns about existing threads."""
    code = """
import os, sys
sys.path.insert(0, sys.argv[1])
import numpy as np, simulated

for name in ("left", "right", "join"):
    simulated.add_device(name, 0.001)
executor = simulated.executor(simulated.BRANCHES)
executor.set_input("x", np.ones(simulated.SHAPE, np.float32))
for _ in range(2):
    executor.run()
    assert executor.get_output(0).numpy()[0] == 5
    child = os.fork()
    if child == 0:
        executor.run()
        os._exit(int(executor.get_output(0).numpy()[0] != 5))
    assert os.waitpid(child, 0)[1] == 0
"""
    folder = Path(simulated.__file__).parent
    subprocess.run([sys.executable, "-c", code, folder], check=True, timeout=600)

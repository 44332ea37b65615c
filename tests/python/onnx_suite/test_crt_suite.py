"""The onnx package's node tests on the crt runtime, on this machine and on a board in QEMU."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import builds_here
import onnx
import pytest

SUITE = Path(__file__).with_name("crt_suite.py")
LISTED_FOR = (1, 23)  # the onnx version of the list
FEWEST = 1500  # cases that pass

pytestmark = pytest.mark.skipif(
    tuple(map(int, onnx.__version__.split(".")[:2])) != LISTED_FOR,
    reason=f"not_on_crt.json is of the cases of onnx {'.'.join(map(str, LISTED_FOR))}",
)


@pytest.mark.slow
@pytest.mark.parametrize("build", ["crt+host+aot+c+-O0+gcc", "crt+cortex-m4+aot+c+-O2+gcc"])
def test_all_node_cases(build):
    builds_here.skip_without_tools(build)
    done = subprocess.run(
        [sys.executable, str(SUITE), build], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    # failures are in the host suite's list, with reasons: otherwise the exit code is 1
    last = re.search(r"(\d+) of (\d+) pass", done.stdout)
    assert last, done.stdout[-1000:]
    assert int(last[1]) >= FEWEST

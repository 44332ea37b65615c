"""Test that a registered importer has priority over the plug-in's, in either registration order."""

from __future__ import annotations

import subprocess
import sys

ENTERED_FIRST = """
from tvmrt.compiler.frontend.onnx.registry import find, onnx_op

def mine(ctx):
    return ctx.required(0)

onnx_op("Gelu", domain="com.microsoft")(mine)
assert find("com.microsoft", "BiasGelu") not in (None, mine)
assert find("com.microsoft", "Gelu") is mine
onnx_op("QuickGelu", domain="com.microsoft")(mine)
assert find("com.microsoft", "QuickGelu") is mine
"""


def test_registered_importers_stay():
    command = [sys.executable, "-c", ENTERED_FIRST]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

"""Test the stubs of tvm-ffi's C interface that libraries use if tvm-ffi is not loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_symbols_behave_as_in_tvm_ffi():
    script = Path(__file__).with_name("tvm_ffi_stubs.py")
    command = [sys.executable, str(script)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    parts = "version_and_registry errors errors_across_both_sides values_and_types once streams"
    assert done.stdout.split() == [*parts.split(), "tensors"]

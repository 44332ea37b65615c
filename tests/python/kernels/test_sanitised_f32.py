"""The float kernels' tests under the address sanitiser, on arrays without room around them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import kernel_build as kb
import pytest

HERE = Path(__file__).resolve().parent
FILES = ("conv", "depthwise", "matmul", "pool", "conv_transpose", "norm")


def sanitiser_library() -> str | None:
    """Path of gcc's address sanitiser, which python must load first; None if there is none."""
    if not kb.has_compiler("gcc"):
        return None
    found = subprocess.run(
        ["gcc", "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    ).stdout.strip()
    return found if Path(found).is_absolute() else None


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_no_access_outside_the_arrays(name: str) -> None:
    library = sanitiser_library()
    if library is None:
        pytest.skip("gcc has no address sanitiser here")
    environment = {
        **os.environ,
        "LD_PRELOAD": library,
        "ASAN_OPTIONS": "detect_leaks=0",
        "TVMRT_TEST_CFLAGS": "-fsanitize=address",
    }
    arguments = [
        "-q",
        "-x",
        "-p",
        "no:cacheprovider",
        "-k",
        "sanitised",
        str(HERE / f"test_{name}_f32.py"),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]

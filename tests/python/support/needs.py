"""Requirements of tests on the machine."""

from __future__ import annotations

import pytest

from tvmrt.compiler import processor


def one_of(*flags: str, why: str) -> None:
    """Skip the test on x86 processors without any of these instructions."""
    if processor.machine() == "x86_64" and not processor.flags() & set(flags):
        pytest.skip(f"needs a processor with {' or '.join(flags)}: {why}")

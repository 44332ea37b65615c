"""A network's weights are in memory once, on the device dnnl, too."""

from __future__ import annotations

import sys

import pytest
from device_here import have
from memory_growth import check_large

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is told by /proc")


@pytest.mark.slow
def test_a_network_of_62_megabytes(tmp_path):
    have("dnnl")
    check_large(tmp_path, "dnnl")

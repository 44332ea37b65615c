"""A network's weights are in memory once, whether its device reads them in place or keeps a copy.
With ``-s`` the slow tests print the memory of a network of 62 MB on a device."""

from __future__ import annotations

import sys

import pytest
from memory_growth import check_large, grown
from unary import plugin

import tvmrt

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")


def loaded(folder, name, *macros):
    path = plugin(folder, "weights_device.c", name, f"NAME={name}", *macros)
    tvmrt.load_device_plugin(str(path))
    return name


@pytest.mark.slow
@pytest.mark.parametrize("fallback", [False, True], ids=["", "fallback"])
@pytest.mark.parametrize("macros", [(), ("KEEPS",)], ids=["in-place", "own-copy"])
def test_weights_are_loaded_once(tmp_path, macros, fallback):
    name = f"weights{len(macros)}{int(fallback)}"
    weights = 2000 * 1500 * 4
    growth = grown(tmp_path, loaded(tmp_path, name, *macros), 2000, 1500, fallback)
    assert growth < weights + 4e6, f"{growth / 1e6:.1f} MB for weights of {weights / 1e6:.0f} MB"


@pytest.mark.slow
def test_a_network_of_62_megabytes(tmp_path):
    check_large(tmp_path, loaded(tmp_path, "large"))

"""Test networks with dynamic sizes on the device opencl, whose kernels contain their sizes."""

from __future__ import annotations

from any_size_case import check_left_to_the_cpu


def test_nodes_of_open_extents_stay_on_the_cpu():
    check_left_to_the_cpu("opencl", "is known only at run time")

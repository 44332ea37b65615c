"""Test networks with dynamic sizes on the device dnnl."""

from __future__ import annotations

import pytest
from any_size_case import EXECUTORS, check_on_device


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", ["convolutions", "encoder"])
def test_whole_networks_at_all_sizes(name, executor, tmp_path):
    check_on_device("dnnl", name, executor, tmp_path)

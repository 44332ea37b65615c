"""Region texts that a C device gets."""

from __future__ import annotations

import json

import pytest

from tvmrt.error import TVMError
from tvmrt.runtime import get_global_func


def test_a_symbol_has_one_region():
    tensors = [{"name": f"t{i}", "dtype": "float32", "shape": [4]} for i in range(2)]
    node = {"op": "relu", "name": "r", "inputs": [0], "outputs": [1], "attrs": {}}
    region = {"symbol": "r", "tensors": tensors, "nodes": [node], "inputs": [0], "outputs": [1]}
    text = {"format": "tvmrt-regions", "version": 1, "device": "any", "regions": [region] * 2}
    with pytest.raises((ValueError, TVMError), match="two regions 'r'"):
        get_global_func("tvmrt.device.load_regions")(json.dumps(text), bytearray())

"""Compiling a damaged model gives a library or a documented exception.

TVMRT_FUZZ_EXAMPLES sets another number of examples, which are then random.
"""

from __future__ import annotations

import os
import random

import pytest
from damage import damaged_bytes, damaged_model
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from varied_networks import varied_networks

import tvmrt

DOCUMENTED = (OSError, ValueError, KeyError, TypeError, tvmrt.TVMError)

EXAMPLES = os.environ.get("TVMRT_FUZZ_EXAMPLES")
bounded = settings(
    max_examples=int(EXAMPLES or 100),
    derandomize=EXAMPLES is None,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
seeds = st.integers(0, 2**32 - 1)
pytestmark = pytest.mark.filterwarnings("ignore")

NETWORKS = varied_networks()


@pytest.mark.parametrize("name", NETWORKS)
def test_whole_network_compiles(name):
    assert tvmrt.compile(NETWORKS[name]).sources


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", NETWORKS)
@bounded
@given(seed=seeds)
def test_contradictory_model_gives_a_documented_error(name, seed):
    try:
        tvmrt.compile(damaged_model(NETWORKS[name], random.Random(seed)))
    except DOCUMENTED as problem:
        assert str(problem)


@pytest.mark.everyday(3)
@pytest.mark.parametrize("name", NETWORKS)
@bounded
@given(seed=seeds)
def test_damaged_file_gives_a_documented_error(tmp_path, name, seed):
    path = tmp_path / "net.onnx"
    path.write_bytes(damaged_bytes(NETWORKS[name].SerializeToString(), random.Random(seed)))
    try:
        tvmrt.compile(path)
    except DOCUMENTED as problem:
        assert str(problem)

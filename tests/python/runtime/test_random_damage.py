"""Damaged params and libraries load partly or raise a documented exception.

Libraries are damaged in their module tree only, since the system's loader checks the other parts.
TVMRT_FUZZ_EXAMPLES sets the number of examples, which then differ in each run.
"""

from __future__ import annotations

import os
import random

import libraries
import numpy as np
import pytest
from damage import damaged_bytes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tvmrt

DOCUMENTED = (OSError, ValueError, KeyError, TypeError, tvmrt.TVMError)

EXAMPLES = os.environ.get("TVMRT_FUZZ_EXAMPLES")
bounded = settings(
    max_examples=int(EXAMPLES or 300),
    derandomize=EXAMPLES is None,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
seeds = st.integers(0, 2**32 - 1)

PARAMS = tvmrt.save_param_dict({"w": libraries.WEIGHT, "b": np.zeros(3, np.int8)})


@bounded
@given(seed=seeds)
def test_damaged_params_give_a_documented_error(seed):
    try:
        tvmrt.load_param_dict(damaged_bytes(PARAMS, random.Random(seed)))
    except DOCUMENTED as problem:
        assert str(problem)


class Library:
    """A valid library and the position of its module tree, with a short repr."""

    def __init__(self, content: bytes, blob: bytes) -> None:
        assert content.count(blob) == 1
        self.content = content
        self.blob = blob

    def damaged(self, seed: int) -> bytes:
        """Return the library with damage in the tree, of equal size."""
        damaged = damaged_bytes(self.blob, random.Random(seed))[: len(self.blob)]
        return self.content.replace(self.blob, damaged.ljust(len(self.blob), b"\0"))


@pytest.fixture
def library(request) -> Library:
    name, blob = request.param
    return Library(request.getfixturevalue(name).read_bytes(), blob())


@pytest.mark.parametrize(
    "library",
    [("graph_library", libraries.graph_blob), ("aot_library", libraries.aot_blob)],
    ids=["graph", "aot"],
    indirect=True,
)
@bounded
@given(seed=seeds)
def test_damaged_library_gives_a_documented_error(library, tmp_path, seed):
    path = tmp_path / f"{seed}.so"  # the system maps a file name once
    path.write_bytes(library.damaged(seed))
    try:
        factory = tvmrt.runtime.load_module(path)
        if factory.implements_function("default"):
            factory["default"](tvmrt.cpu())
    except DOCUMENTED as problem:
        assert str(problem)
    finally:
        path.unlink()

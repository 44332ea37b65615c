"""Load libraries at a given ISA level and check their results."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

import tvmrt
from tvmrt.runtime.executor import AotModule


def load(path: Path, copy: Path):
    """Load a new mapping of the library; the level is selected when a library is loaded."""
    shutil.copy(path, copy)
    return tvmrt.runtime.load_module(copy)


def load_at(path: Path, level: str, monkeypatch, copy: Path):
    monkeypatch.setenv("TVMRT_LEVEL", level)
    return load(path, copy)


def check(module, network) -> None:
    """Check a network, given as its model, its feeds and its bitwise expected outputs."""
    runner = AotModule(module["default"](tvmrt.cpu(0)))
    runner.run(**network[1])
    for i, wanted in enumerate(network[2]):
        np.testing.assert_array_equal(runner.get_output(i).numpy(), wanted)

"""Compile time grows linearly with the number of nodes."""

import cProfile
import pstats
import time

import pytest
from many_nodes import SHAPES

import tvmrt


def calls(model) -> int:
    """Return the Python calls of a whole compilation, which do not depend on the machine's load."""
    profile = cProfile.Profile()
    profile.runcall(tvmrt.compile, model, target="host")
    return pstats.Stats(profile).total_calls


@pytest.mark.everyday(1)
@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_nodes_are_about_four_times_the_work(shape):
    calls(SHAPES[shape](20))  # modules and tables that are loaded once
    few, many = (calls(SHAPES[shape](n)) for n in (150, 600))
    assert many < 5.2 * few


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_thousands_of_nodes_take_seconds(shape):
    ratios = []
    for _ in range(5):  # other processes may disturb one measurement
        seconds = []
        for count in (500, 2500):
            model = SHAPES[shape](count)
            begin = time.process_time()
            tvmrt.compile(model, target="host")
            seconds.append(time.process_time() - begin)
        ratios.append(seconds[1] / seconds[0])
        if ratios[-1] < 15:
            break
    assert min(ratios) < 15

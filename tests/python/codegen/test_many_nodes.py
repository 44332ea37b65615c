"""Compile time grows linearly with the number of nodes."""

import time

import pytest
from many_nodes import SHAPES, compile_calls

import tvmrt


@pytest.mark.everyday(1)
@pytest.mark.parametrize("shape", SHAPES)
def test_four_times_the_nodes_are_about_four_times_the_work(shape):
    compile_calls(SHAPES[shape](20), target="host")  # modules and tables that are loaded once
    few, many = (compile_calls(SHAPES[shape](n), target="host") for n in (150, 600))
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

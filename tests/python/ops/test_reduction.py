"""Reductions and their forms in all opsets, ArgMax and ArgMin, cumulative sums."""

from __future__ import annotations

import numpy as np
import pytest
from harness import Batch, case

RNG = np.random.default_rng(13)
REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
    "ReduceSum ReduceSumSquare"
).split()


def f32(*shape, low=-2.0, high=2.0):
    return RNG.uniform(low, high, shape).astype(np.float32)


def i64(*numbers):
    return np.array(numbers, np.int64)


def data_for(op, *shape):
    """Return data with positive sums for logarithms, and products near 1."""
    if op == "ReduceLogSum":
        return f32(*shape, low=0.1)
    return f32(*shape, low=0.8, high=1.25) if op == "ReduceProd" else f32(*shape)


AXES = {"last": (-1,), "first": (0,), "middle": (1,), "outer": (0, 2), "inner": (2, 3)}


def reduce_cases():
    for op in REDUCTIONS:
        for name, axes in AXES.items():
            x = data_for(op, 3, 5, 7, 33)
            for keep in (0, 1):
                yield case(f"{name}-keep{keep}", op, [x, i64(*axes)], [1], rtol=1e-5, keepdims=keep)
        yield case("all", op, [data_for(op, 3, 40)], rtol=1e-5)
        yield case("empty-axes", op, [data_for(op, 3, 40), i64()], [1], rtol=1e-5)
        yield case("long", op, [data_for(op, 2, 1000), i64(1)], [1], rtol=2e-5)
        wide = [data_for(op, 6, 300), i64(0)]
        yield case("wide", op, wide, [1], rtol=1e-5)
        if op in ("ReduceSum", "ReduceMean", "ReduceSumSquare", "ReduceL2"):  # multithreaded
            for dtype in (np.float32, np.float64):
                x = data_for(op, 4099, 300).astype(dtype)
                many = f"many-{np.dtype(dtype).name}"
                yield case(many, op, [x[:, :20], i64(0)], [1], rtol=1e-5, atol=1e-3)
            yield case("many-wide", op, [x.astype(np.float32), i64(0)], [1], rtol=1e-5, atol=1e-3)
        yield case("f64", op, [data_for(op, 3, 9).astype(np.float64), i64(1)], [1], rtol=1e-9)


REDUCE = Batch(20, reduce_cases())


def noop_cases():
    for op in ("ReduceSum", "ReduceMax", "ReduceMean", "ReduceProd", "ReduceMin"):
        x = data_for(op, 3, 4)
        yield case("nothing", op, [x], rtol=0, noop_with_empty_axes=1, wanted=[x])
        yield case("none", op, [x, i64()], [1], rtol=0, noop_with_empty_axes=1, wanted=[x])
    for dtype in (np.int32, np.int64):
        x = RNG.integers(-9, 9, (4, 5)).astype(dtype)
        for op in (
            "ReduceSum",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceL1",
            "ReduceSumSquare",
        ):
            yield case(np.dtype(dtype).name, op, [x, i64(1)], [1], rtol=0)
    for dtype in (np.int8, np.uint8):
        x = RNG.integers(0, 100, (4, 5)).astype(dtype)
        for op in ("ReduceMax", "ReduceMin"):
            yield case(np.dtype(dtype).name, op, [x, i64(1)], [1], rtol=0)
    x = RNG.random((4, 5)) < 0.4
    yield case("bool", "ReduceMax", [x, i64(1)], [1])
    yield case("bool", "ReduceMin", [x, i64(0)], [1])
    huge = np.array([[1000, 1000.5, -1000], [-np.inf, -np.inf, -np.inf]], np.float32)
    yield case("huge", "ReduceLogSumExp", [huge, i64(1)], [1], rtol=1e-5)
    yield case(
        "no-elements",
        "ReduceSum",
        [f32(2, 0, 4), i64(1)],
        [1],
        wanted=[np.zeros((2, 1, 4), np.float32)],
    )


FORMS = Batch(20, noop_cases())

OLD = Batch(
    11,
    [
        case("attribute", op, [data_for(op, 3, 4, 5)], rtol=1e-5, axes=[0, -1], keepdims=keep)
        for op in REDUCTIONS
        for keep in (0, 1)
    ],
)


def arg_cases():
    for op in ("ArgMax", "ArgMin"):
        for axis in (0, 1, 2, -1):
            for last in (0, 1):
                ties = RNG.integers(0, 9, (4, 6, 70)).astype(np.float32)
                yield case(f"axis{axis}-last{last}", op, [ties], axis=axis, select_last_index=last)
        yield case("flat", op, [f32(3, 200)], axis=1, keepdims=0)
        yield case("front", op, [f32(7, 40)], axis=0, keepdims=0)
        yield case("short", op, [f32(50, 3)], axis=1, keepdims=0)
        for dtype in (np.int8, np.uint8, np.int32, np.float64):
            x = RNG.integers(0, 99, (5, 77)).astype(dtype)
            yield case(np.dtype(dtype).name, op, [x], axis=1)
            yield case(f"{np.dtype(dtype).name}-front", op, [x], axis=0)


ARG = Batch(13, arg_cases())


def running_cases():
    for axis in (0, 1, -1):
        for exclusive in (0, 1):
            for reverse in (0, 1):
                yield case(
                    f"axis{axis}-exclusive{exclusive}-reverse{reverse}",
                    "CumSum",
                    [f32(4, 5, 6), np.array(axis)],
                    [1],
                    rtol=1e-5,
                    exclusive=exclusive,
                    reverse=reverse,
                )
    for dtype in (np.int32, np.int64, np.float64):
        x = RNG.integers(-9, 9, 20).astype(dtype)
        yield case(np.dtype(dtype).name, "CumSum", [x, np.array(0)], [1], rtol=1e-12)
    yield case("one", "CumSum", [f32(1), np.array(0)], [1], exclusive=1)


RUNNING = Batch(14, running_cases())

PRODUCT = Batch(
    26,
    [
        case(
            f"axis{axis}-exclusive{exclusive}-reverse{reverse}",
            "CumProd",
            [f32(4, 5), np.array(axis)],
            [1],
            rtol=1e-5,
            exclusive=exclusive,
            reverse=reverse,
        )
        for axis in (0, 1)
        for exclusive in (0, 1)
        for reverse in (0, 1)
    ],
    evaluator="reference",
)


@pytest.mark.slow
@pytest.mark.parametrize("part", [*REDUCE])
def test_reduce(part):
    part.check()


@pytest.mark.parametrize("part", [*FORMS, *OLD])
def test_reduce_forms(part):
    part.check()


@pytest.mark.parametrize("part", [*ARG])
def test_arg_reduce(part):
    part.check()


@pytest.mark.parametrize("part", [*RUNNING, *PRODUCT])
def test_running(part):
    part.check()

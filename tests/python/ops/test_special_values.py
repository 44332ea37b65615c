"""NaN and infinities in operators that reduce, select or move elements.

A minimum or maximum with NaN among its elements is NaN. ArgMax, ArgMin and Hardmax select NaN
first, and TopK sorts it as the largest, as in numpy. onnxruntime is not consistent here.
"""

from __future__ import annotations

import numpy as np
import pytest
from harness import Batch, case

from tvmrt.compiler.ir import get_op

RNG = np.random.default_rng(29)
NAN, INF = np.nan, np.inf
ODD = {"nan": (NAN,), "inf": (INF,), "minus-inf": (-INF,), "both-infs": (INF, -INF)}


def f32(*shape):
    return RNG.uniform(-2, 2, shape).astype(np.float32)


def with_odd(values, *shape):
    """Return numbers with ``values`` at positions that no vector width divides."""
    x = f32(*shape)
    x.reshape(-1)[[(3 + 7 * k) % x.size for k in range(len(values))]] = values
    return x


def rows_with_nan(n):
    """Return rows with NaN first, in the middle, last, twice, everywhere and not at all."""
    x = f32(6, n)
    x[1, 0] = x[2, n // 2] = x[3, -1] = x[4, 1] = x[4, n - 2] = x[5] = NAN
    return x


# lengths of a scalar reduction, of one in lanes with and without a tail, few and many columns
SHAPES = {"short": (9, 1), "lanes": (64, 1), "long": (130, 1), "columns": (5, 0), "wide": (300, 0)}


def extreme_cases():
    for op, fold in (("ReduceMax", np.max), ("ReduceMin", np.min)):
        for dtype in (np.float32, np.float64):
            for name, (n, axis) in SHAPES.items():
                x = rows_with_nan(n).astype(dtype)
                id = f"{name}-{np.dtype(dtype).name}"
                wanted = [fold(x, axis=axis, keepdims=True)]
                yield case(id, op, [x, np.array([axis])], [1], rtol=0, wanted=wanted)
    for op, pick in (("ArgMax", np.argmax), ("ArgMin", np.argmin)):
        for last in (0, 1):
            for name, (n, axis) in SHAPES.items():
                x = rows_with_nan(n)
                place = pick(np.flip(x, axis), axis) if last else pick(x, axis)
                place = x.shape[axis] - 1 - place if last else place
                keywords = {"axis": axis, "keepdims": 0, "select_last_index": last}
                yield case(f"{name}-last{last}", op, [x], wanted=[place], **keywords)
    for axis in (0, 1):
        x = rows_with_nan(9)
        yield case(f"axis{axis}", "Hardmax", [x], axis=axis, wanted=[hot(x, axis)])


def hot(x, axis):
    """Return ones at the extremes."""
    ones = np.zeros_like(x)
    np.put_along_axis(ones, np.expand_dims(np.argmax(x, axis), axis), 1, axis)
    return ones


def top_cases():
    x = rows_with_nan(12)
    x[4, 5], x[4, 7] = INF, -INF
    for largest in (0, 1):
        order = [sorted(range(12), key=lambda i, row=row: rank(row[i], largest)) for row in x]
        places = np.array(order)[:, :5]
        wanted = [np.take_along_axis(x, places, 1), places]
        keywords = {"largest": largest, "outputs": 2, "wanted": wanted}
        yield case(f"largest{largest}", "TopK", [x, np.array([5])], [1], **keywords)


def rank(number, largest):
    """Return the sort key of TopK's stable order."""
    missing, sign = bool(np.isnan(number)), -1 if largest else 1
    return sign * missing, 0.0 if missing else sign * float(number)


def pooled(x, kernel, stride=1):
    windows = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), (2, 3))
    return windows[:, :, ::stride, ::stride].max((-1, -2))


def pool_cases():
    for channels in (1, 3, 16, 70, 130):
        x = f32(1, channels, 7, 11)  # wide enough for several pixels at a time
        x[0, :, 2, 2], x[0, 0, 4, 4], x[0, -1, 5, 5] = NAN, INF, -INF
        x[0, -1, 6, 6] = INF
        name = f"channels{channels}"
        for kernel, stride in ((3, 1), (2, 2)):
            sizes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2}
            yield case(
                f"{name}-{kernel}",
                "MaxPool",
                [x],
                rtol=0,
                wanted=[pooled(x, kernel, stride)],
                **sizes,
            )
        whole = x.max((2, 3), keepdims=True)
        yield case(name, "GlobalMaxPool", [x], rtol=0, wanted=[whole])
    x = f32(1, 2, 4, 4)
    x[0, 0, 1, 1] = NAN
    whole = x.max((2, 3), keepdims=True)
    region = np.array([[0, 0, 0, 3, 3]], np.float32)
    yield case("nan", "MaxRoiPool", [x, region], pooled_shape=[1, 1], rtol=0, wanted=[whole])


def place_cases():
    """NaN as an index means -1; infinities are out of range, as any index far away."""
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            grid = np.full((1, 2, 2, 2), 0.25, np.float32)
            grid[0, 0, 0], grid[0, 1, 1, 1] = NAN, NAN
            keywords = {"mode": mode, "padding_mode": padding}
            yield case(f"{mode}-{padding}", "GridSample", [f32(1, 2, 4, 4), grid], **keywords)
        grid = np.array([INF, -INF, 1e30, -1e30], np.float32).reshape(1, 2, 1, 2)
        x = f32(1, 1, 4, 4)
        corners = np.array([x[0, 0, 0, -1], x[0, 0, 0, -1]]).reshape(1, 1, 2, 1)
        for padding, wanted in (("zeros", np.zeros((1, 1, 2, 1), np.float32)), ("border", corners)):
            keywords = {"mode": mode, "padding_mode": padding, "wanted": [wanted]}
            yield case(f"{mode}-{padding}-far", "GridSample", [x, grid], **keywords)


def flow_cases():
    """Return cases on which onnxruntime and the definition agree."""
    for name, odd in ODD.items():
        rows, image = with_odd(odd, 3, 20), with_odd(odd, 1, 8, 5, 5)
        for op in ("ReduceSum ReduceMean ReduceProd ReduceL1 ReduceL2 ReduceSumSquare").split():
            yield case(name, op, [rows, np.array([1])], [1])
        yield case(name, "ReduceLogSumExp", [rows, np.array([1])], [1])
        for op in ("Softmax", "LogSoftmax"):
            for axis in (0, 1):
                yield case(f"{name}-axis{axis}", op, [rows], axis=axis)
        for p in (1, 2, 3):
            yield case(f"{name}-p{p}", "LpPool", [image], kernel_shape=[3, 3], p=p)
        yield case(name, "AveragePool", [image], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        yield case(name, "GlobalAveragePool", [image])
        yield case(name, "LayerNormalization", [rows, f32(20)])
        yield case(name, "InstanceNormalization", [image, f32(8), f32(8)])
        yield case(name, "CumSum", [rows, np.array(1)], [1])
        yield case(name, "Clip", [rows, np.float32(-1), np.float32(1)], [1, 2])
        yield case(name, "Where", [rows > 0, rows, -rows])
        for mode in ("linear", "nearest", "cubic"):
            for scale in (2, 0.6):
                scales = np.array([1, 1, scale, scale], np.float32)
                yield case(
                    f"{name}-{mode}-{scale}", "Resize", [image, None, scales], [2], mode=mode
                )


def unique_cases(dtype, shapes, constants=()):
    """numpy.unique: NaN as an element equals NaN, a slice of several axes with NaN equals none.

    Float16 slices are compared in float32: numpy sorts NaN as the smallest number there, against
    its own documentation.
    """
    for shape in shapes:
        for axis in (None, *range(len(shape))):
            x = RNG.integers(0, 3, shape).astype(dtype)
            x[RNG.random(shape) < 0.35] = NAN
            for same_order in (1, 0):
                wanted = unique_parts(x, axis, same_order)
                name = "x".join(map(str, shape))
                id = f"{np.dtype(dtype).name}-{name}-axis{axis}-sorted{same_order}-{len(constants)}"
                attrs = {"sorted": same_order, **({} if axis is None else {"axis": axis})}
                keywords = {"outputs": 4, "wanted": wanted, "rtol": 0, "atol": 0}
                yield case(id, "Unique", [x], constants, **keywords, **attrs)


def unique_parts(x, axis, same_order):
    """Return values, first indices, inverse indices, counts; sorted or by occurrence."""
    _, first, inverse, counts = np.unique(x.astype("f4"), True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not same_order:
        order = np.argsort(first)
        first, inverse, counts = first[order], np.argsort(order)[inverse], counts[order]
    return [np.take(x, first, axis), first, inverse, counts]


PICKED = Batch(20, [*extreme_cases(), *top_cases()])
POOLED = Batch(20, pool_cases())
PLACED = Batch(20, place_cases())
FLOWING = Batch(20, flow_cases())
DIFFERENT = Batch(20, unique_cases(np.float32, [(9,), (6, 2)]))
DIFFERENT_ALL = Batch(
    20,
    [
        each
        for dtype in (np.float16, np.float32, np.float64)
        for constants in ((), (0,))
        for each in unique_cases(dtype, [(9,), (6, 2), (2, 3, 5)], constants)
    ],
)


@pytest.mark.slow
@pytest.mark.parametrize("part", [*PICKED, *POOLED])
def test_min_and_max_propagate_nan(part):
    part.check()


@pytest.mark.parametrize("part", [*PLACED])
def test_nan_as_an_index(part):
    part.check()


@pytest.mark.slow
@pytest.mark.parametrize("part", [*FLOWING])
def test_flow_as_in_onnxruntime(part):
    part.check()


@pytest.mark.parametrize("part", [*DIFFERENT])
def test_nan_among_different_elements(part):
    part.check()


@pytest.mark.slow
@pytest.mark.parametrize("part", [*DIFFERENT_ALL])
def test_nan_among_different_elements_of_every_type(part):
    part.check()


def test_operator_unique_keeps_every_nan():
    """Regions and saved libraries of older versions contain this operator."""
    x = np.array([3, NAN, 1, NAN, 1], np.float32)
    attrs = {"axis": 0, "sorted": True}
    kept, merged = (get_op(op).evaluate([x], attrs) for op in ("unique", "unique_equal_nan"))
    assert (kept[3], merged[3]) == (4, 3)
    assert kept[1].tolist() == [1, 2, 0, 3, 0] and merged[1].tolist() == [1, 2, 0, 2, 0]

"""Kernels add in the order that the card of their operator names (``--reproducible``).

Each case computes a result in that order by numpy, one rounding at a time, and the same sum in
another order: the kernel has the bits of the first, and the second has others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np
import pytest
from onnx import helper, parser
from onnx_graph import model

import tvmrt
from tvmrt.compiler.ir import OPS
from tvmrt.compiler.ir.traits import SumOrder

F32, F64 = np.float32, np.float64
ZERO = F32(0)
RNG = np.random.default_rng(3)


def normal(*shape):
    return RNG.standard_normal(shape).astype(F32)


def fused(a, b, c):
    """Return a * b + c in one rounding: the product of two floats is exact as a double."""
    return (np.asarray(a, F64) * np.asarray(b, F64) + np.asarray(c, F64)).astype(F32)


def added(terms: Iterable, total=ZERO):
    for term in terms:
        total = F32(total + term)
    return total


def products(pairs: Iterable[tuple], total=ZERO):
    for a, b in pairs:
        total = fused(a, b, total)
    return total


def tree(parts):
    while len(parts) > 1:
        parts = parts[: len(parts) // 2] + parts[len(parts) // 2 :]
    return parts[0]


def lanes(row, count):
    """Return the sum in ``count`` partial sums, element i in sum i modulo count."""
    padded = np.concatenate([row, np.zeros(-len(row) % count, F32)]).reshape(-1, count)
    return tree(np.add.accumulate(padded, 0, F32)[-1])


def conv(x, w, bias, reverse):
    """Return the first pixel of each channel."""
    places = list(itertools.product(*(range(k) for k in w.shape[2:])))[:: -1 if reverse else 1]
    return [products(((x[0, c, i, j], w[o, c, i, j]) for i, j in places
                      for c in range(w.shape[1])), bias[o]) for o in range(len(w))]  # fmt: skip


def transposed(x, w, order):
    """Return the pixel (1, 1) for 2x2 weights and strides of 1."""
    return [products((x[0, c, 1 - i, 1 - j], w[c, o, i, j]) for i, j in order
                     for c in range(len(w))) for o in range(w.shape[1])]  # fmt: skip


def blocks(row, numbers):
    """Return the product of a row and widened weights."""
    sums = np.zeros(16, F32)
    for i in range(0, len(row), 16):
        some = fused(numbers[i : i + 16], row[i : i + 16], sums[: len(row) - i])
        sums[: len(some)] = some
    return tree(sums)


def softmax_sum(e):
    """Return the sum of a row, in four vectors of 16 partial sums."""
    sums = np.zeros((4, 16), F32)
    for i, vector in enumerate(np.concatenate([e, np.zeros(-len(e) % 16, F32)]).reshape(-1, 16)):
        sums[i % 4] += vector
    first, second, third, fourth = np.roll(sums, -(len(e) // 16 % 4), 0)
    return tree((first + second) + (third + fourth))


def moments(row):
    """Return mean and variance of a row of layer_norm."""
    whole = len(row) // 64 * 64
    blocks = np.zeros((4, 16), F32)
    for block in row[:whole].reshape(-1, 4, 16):
        blocks += block
    total = added(row[whole:], tree((blocks[0] + blocks[1]) + (blocks[2] + blocks[3])))
    mean, whole, sums = F32(total / F32(len(row))), len(row) // 32 * 32, np.zeros((2, 16), F32)
    for block in (row - mean)[:whole].reshape(-1, 2, 16):
        sums = fused(block, block, sums)
    squares = ((row - mean) * (row - mean))[whole:]
    return mean, F32(added(squares, tree(sums[0] + sums[1])) / F32(len(row)))


def run(op, arrays, constants=(), **attributes):
    names = [f"c{i}" for i in range(len(constants))]
    node = helper.make_node(op, ["x", *names], ["y"], **attributes)
    made = model([node], {"x": arrays}, ["y"], dict(zip(names, constants)), opset=17)
    network = tvmrt.load(made, reproducible=True, cache=False)
    return np.asarray(network({"x": arrays})["y"])


X, ROWS = normal(1, 6, 7, 9), normal(5, 150)
KERNEL, BIAS, DENSE = normal(5, 6, 3, 3), normal(5), normal(150, 28)
UP = normal(6, 3, 2, 2)
ASCENDING = list(itertools.product(range(2), range(2)))


def dense(row, order=slice(None)):
    return [products(zip(row[order], column[order])) for column in DENSE.T]


LOW = np.minimum(normal(5, 150) - F32(3), 0)
LOW[:, 7] = 0


def normalised(row):
    mean, variance = moments(row)
    return (row - mean) * F32(F32(1) / np.sqrt(F32(variance + F32(1e-5))))


def window(i, j, order=1):
    return X[0, :, i : i + 3, j : j + 3].reshape(6, 9)[:, ::order]


def exponentials(x):
    """Return e ** x as the kernel computes it: 2 ** n times a polynomial of the rest."""
    n = fused(x, F32(1.44269504088896341), F32(12582912)) - F32(12582912)
    rest = fused(n, F32(2.12194440e-4), fused(n, F32(-0.693359375), x))
    p = F32(1.9875691500e-4)
    for factor in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
                   5.0000001201e-1, 1, 1):  # fmt: skip
        p = fused(p, rest, F32(factor))
    return np.ldexp(p, n.astype(int))


def shares(total, x=LOW):
    """Return the softmax of rows whose largest elements are 0."""
    return [e * F32(F32(1) / total(e)) for e in exponentials(x)]


def weights_in_blocks():
    """Return ROWS times weights of 8 bits, and those weights."""
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    both = np.concatenate([ROWS, np.eye(150, dtype=F32)])
    made = model([node], {"x": both}, ["y"], {"w": DENSE}, opset=17)
    y = tvmrt.load(made, reproducible=True, cache=False, weights="int8")({"x": both})["y"]
    return np.asarray(y)[:5], np.asarray(y)[5:]


CASES = {
    "conv": lambda: (
        run("Conv", X, [KERNEL, BIAS])[0, :, 0, 0],
        conv(X, KERNEL, BIAS, False), conv(X, KERNEL, BIAS, True),
    ),
    "conv_transpose": lambda: (
        run("ConvTranspose", X, [UP])[0, :, 1, 1],
        transposed(X, UP, ASCENDING[::-1]), transposed(X, UP, ASCENDING),
    ),
    "matmul": lambda: (
        run("MatMul", ROWS, [DENSE]), [dense(row) for row in ROWS],
        [dense(row, slice(None, None, -1)) for row in ROWS],
    ),
    "avg_pool": lambda: (
        run("AveragePool", X, kernel_shape=[3, 3])[0, :, 2, 3],
        [F32(added([added(r) for r in w.reshape(3, 3)]) / F32(9)) for w in window(2, 3)],
        [F32(added(w) / F32(9)) for w in window(2, 3)],
    ),
    "lp_pool": lambda: (
        run("LpPool", X, kernel_shape=[3, 3], p=2)[0, :, 2, 4],
        [np.sqrt(added([products(zip(r, r)) for r in w.reshape(3, 3)])) for w in window(2, 4)],
        [np.sqrt(products(zip(w, w))) for w in window(2, 4)],
    ),
    "softmax": lambda: (
        run("Softmax", LOW, axis=1), shares(softmax_sum), shares(added),
    ),
    "matmul_blocks": lambda: (
        (y := weights_in_blocks())[0], [[blocks(r, c) for c in y[1].T] for r in ROWS],
        [[products(zip(r, c)) for c in y[1].T] for r in ROWS],
    ),
    "layer_norm": lambda: (
        run("LayerNormalization", ROWS, [np.ones(150, F32)]), [normalised(row) for row in ROWS],
        [normalised(row[::-1])[::-1] for row in ROWS],
    ),
    "reduce_sum": lambda: (
        run("ReduceSum", ROWS, [np.array([1])], keepdims=0), [lanes(r, 32) for r in ROWS],
        [lanes(r, 16) for r in ROWS],
    ),
    "reduce_mean": lambda: (
        run("ReduceMean", X, axes=[2, 3], keepdims=0)[0],
        [F32(added(c) / F32(63)) for c in X[0].reshape(6, 63)],
        [F32(lanes(c, 32) / F32(63)) for c in X[0].reshape(6, 63)],
    ),
    "reduce_sum_square": lambda: (
        run("ReduceSumSquare", ROWS, axes=[1], keepdims=0), [lanes(r * r, 32) for r in ROWS],
        [products(zip(r, r)) for r in ROWS],
    ),
    "cumulative_sum": lambda: (
        run("CumSum", ROWS, [np.int64(1)]), np.add.accumulate(ROWS, 1, F32),
        np.add.accumulate(ROWS.astype(F64), 1).astype(F32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("operator", CASES)
def test_kernel_adds_in_the_order_of_the_card(operator):
    found, right, other = map(np.asarray, CASES[operator]())
    np.testing.assert_array_equal(found, right)
    assert (other != right).any(), "the bits of this sum do not depend on its order"


def folded(row):
    """Return the sum of contiguous elements."""
    return lanes(row, 32) if len(row) >= 64 else added(row)


@pytest.mark.parametrize("length", (2, 3, 8, 9, 17, 63, 64, 65))
@pytest.mark.parametrize("rows", (1, 20))
def test_rows_of_any_length_and_number(rows, length):
    """Kernels compute few rows, and short ones, by other loops."""
    x, low, weights = normal(rows, length), np.minimum(normal(rows, length), 0), normal(length, 3)
    low[:, length // 2] = 0
    sums, squares = ([folded(row) for row in each] for each in (x, x * x))
    cases = (
        (run("Softmax", low, axis=1), shares(softmax_sum, low)),
        (run("ReduceSum", x, [np.array([1])], keepdims=0), sums),
        (run("ReduceMean", x, axes=[1], keepdims=0), sums / F32(length)),
        (run("ReduceSumSquare", x, axes=[1], keepdims=0), squares),
        (run("LayerNormalization", x, [np.ones(length, F32)]), [normalised(row) for row in x]),
        (run("MatMul", x, [weights]), [[products(zip(r, c)) for c in weights.T] for r in x]),
    )
    for found, right in cases:
        np.testing.assert_array_equal(found, right)


# Shape of x and of y with the batch {b}, the network, and the axes of the batch in both.
OF_A_BATCH = {
    "sums over time": ("100,{b},1", "B,C", "y = ReduceSum<keepdims=0>(x, first)", 1, 0),
    "sums over time and channels": (
        "100,{b},70", "B", "y = ReduceSum<keepdims=0>(x, outer)", 1, 0),
    "sums of swapped axes": (
        "100,{b},1", "B", "t = Transpose<perm=[1,0,2]>(x) y = ReduceSum<keepdims=0>(t, inner)",
        1, 0),
    "shares over time": ("100,{b}", "T,B", "y = Softmax<axis=0>(x)", 1, 1),
    "logarithms of few shares": ("{b},7", "B,C", "y = LogSoftmax<axis=1>(x)", 0, 0),
    "norms over time": ("100,{b}", "B", "y = ReduceL2<axes=[0],keepdims=0>(x)", 1, 0),
    "means of pictures": ("{b},1,9,9", "B,C", "y = ReduceMean<axes=[2,3],keepdims=0>(x)", 0, 0),
}  # fmt: skip
AXES = "<int64[1] first = {0}, int64[2] outer = {0, 2}, int64[2] inner = {1, 2}>"


@pytest.mark.parametrize("name", OF_A_BATCH)
def test_a_row_of_a_batch_has_the_bits_of_the_row_alone(name):
    """Also where the batch is open, so that other axes may be neighbours in memory."""
    shape, result, text, at, result_at = OF_A_BATCH[name]

    def outputs(batch, inputs):
        shapes = f"(float[{shape.format(b=batch)}] x) => (float[{result}] y)"
        text_of_graph = f'<ir_version: 9, opset_import: ["" : 17]> g {shapes} {AXES} {{ {text} }}'
        network = tvmrt.load(parser.parse_model(text_of_graph), reproducible=True, cache=False)
        return [np.asarray(network(each)) for each in inputs]

    x = normal(*(int(n) for n in shape.format(b=8).split(",")))
    rows = [np.take(x, [i], at) for i in range(8)]
    (whole,) = outputs(8, [x])
    of_any, *open_rows = outputs("N", [x, *rows])
    np.testing.assert_array_equal(of_any, whole)
    for alone in (outputs(1, rows), open_rows):
        np.testing.assert_array_equal(np.concatenate(alone, result_at), whole)


@pytest.mark.parametrize("length", (9, 63, 64, 65))
def test_sums_of_open_length(length):
    x = normal(4, length)
    y = run("ReduceSum", x, [np.array([1])], keepdims=0)
    text = ('<ir_version: 9, opset_import: ["" : 17]> g (float[4,N] x) => (float[4] y)'
            "<int64[1] last = {1}> { y = ReduceSum<keepdims=0>(x, last) }")  # fmt: skip
    network = tvmrt.load(parser.parse_model(text), reproducible=True, cache=False)
    np.testing.assert_array_equal(network(x), y)


def test_softmax_of_another_axis_adds_one_term_after_another():
    found = run("Softmax", np.ascontiguousarray(LOW[:, :16].T), axis=0).T
    np.testing.assert_array_equal(found, shares(added, LOW[:, :16]))


def test_every_order_on_a_card_has_a_case():
    assert {name for name, op in OPS.items() if op.sum_order} == {*CASES}
    assert {OPS[name].sum_order for name in CASES} == {*SumOrder}

"""Traits are facts about operators: checked on random numbers, for every operator."""

from __future__ import annotations

from functools import cache

import numpy as np
from contract_samples import TABLED, sample

from tvmrt.compiler.ir import OPS, Node, Op, TensorType, Trait, Value, Weights, get_op, integer_form
from tvmrt.compiler.ir.computed_sizes.element_ranges import interval
from tvmrt.compiler.ir.dtype import dtype_of

RUNS = 4


@cache
def applications(name: str) -> list[tuple[list, dict, list]]:
    """Return random operands, the attributes and the results of an operator, if it has numpy."""
    rng, found, right = np.random.default_rng(0), [], sample(name)
    for _ in range(RUNS):
        low, high = (0, 2) if OPS[name].has(Trait.MOVES_ELEMENTS) else (-9, 9)  # also indices
        arrays = [
            d
            if d is not None or t is None
            else rng.integers(low, high, t.shape).astype(t.dtype.numpy)
            for t, d in zip(right.types, right.data)
        ]
        with np.errstate(all="ignore"):
            results = OPS[name].evaluate(arrays, right.attrs)
        found += [] if results is None else [(arrays, right.attrs, results)]
    return found


def again(op: Op, arrays: list, attrs: dict) -> np.ndarray:
    with np.errstate(all="ignore"):
        return op.evaluate(arrays, attrs)[0]


def differs(a: np.ndarray, b: np.ndarray) -> bool:
    return not np.array_equal(a, b)


def check_traits(op: Op, arrays: list, attrs: dict, y: np.ndarray) -> None:
    x = arrays[0]
    if op.has(Trait.MOVES_ELEMENTS, Trait.EXTREMUM):
        assert np.isin(y, x).all()
    if op.has(Trait.REARRANGES):
        assert sorted(y.ravel()) == sorted(x.ravel())
    if op.has(Trait.MEAN) and y.size:
        assert x.min() - 1 <= y.min() and y.max() <= x.max() + 1
    if op.has(Trait.COMMUTATIVE):
        assert not differs(y, again(op, arrays[::-1], attrs))
    if op.has(Trait.LOWER_LIMIT):
        assert not differs(y, np.maximum(x, arrays[1] if arrays[1:] else 0))
    if op.has(Trait.UPPER_LIMIT):
        assert not differs(y, np.minimum(x, arrays[1]))
    if op.swapped:
        assert not differs(y, again(get_op(op.swapped), arrays[::-1], attrs))
        assert differs(y, again(get_op(op.negated), arrays, attrs))
        assert not differs(y, ~again(get_op(op.negated), arrays, attrs))
    if op.result_range is not None:
        low, high = op.result_range
        assert low <= y.min() and y.max() <= high


def test_declared_traits_are_true():
    for name in TABLED:
        for arrays, attrs, (y, *_) in applications(name):
            check_traits(OPS[name], arrays, attrs, y)


def test_no_commutative_operator_is_forgotten():
    for name in TABLED:
        op, found = OPS[name], applications(name)
        if not op.has(Trait.ELEMENTWISE) or not found or found[0][1]:
            continue
        if len(found[0][0]) != 2 or found[0][0][0].dtype != found[0][0][1].dtype:
            continue
        swapped = [again(op, arrays[::-1], attrs) for arrays, attrs, _ in found]
        equal = not any(differs(y, s) for (_, _, (y, *_)), s in zip(found, swapped))
        assert equal == op.has(Trait.COMMUTATIVE), name


def test_results_are_in_their_interval():
    """Also those of the logarithm of softmax, which are negative."""
    softmax = [([a], {**at, "log": True}) for (a,), at, _ in applications("softmax")]
    rows = [("softmax", *row) for row in softmax]
    rows += [(name, *row[:2]) for name in TABLED for row in applications(name)]
    for name, arrays, attrs in rows:
        types = [TensorType(a.shape, dtype_of(a)) for a in arrays if a is not None]
        values = [Value(f"x{i}", each) for i, each in enumerate(types)]
        known = {v: (a.min(), a.max()) for v, a in zip(values, arrays) if a.size}
        with np.errstate(all="ignore"):
            results = OPS[name].evaluate(arrays, attrs)
        if len(values) < len(arrays) or len(known) < len(arrays) or len(results) != 1:
            continue
        node = Node(name, values, attrs, name)
        node.set_outputs([Value("y", TensorType(results[0].shape, dtype_of(results[0])))])
        low, high = interval(node.output, known)
        y = results[0].astype(np.float64)
        y = y[np.isfinite(y)]
        assert low - 1e-5 <= y.min(initial=low) and y.max(initial=high) <= high + 1e-5, name


def test_weights_of_an_output_channel_change_only_that_channel():
    for name in TABLED:
        if OPS[name].weights is not None:
            check_weights(name, OPS[name], OPS[name].weights)


def check_weights(name: str, op: Op, weights: Weights) -> None:
    right = sample(name)
    (y, *_) = op.infer(right.types, right.attrs, right.data)
    x, w = right.types[0].shape, right.types[weights.operand].shape
    groups = right.attrs.get("groups", 1)
    of_outputs, of_inputs = (1, groups) if weights.input_axis == 1 else (groups, 1)
    assert w[weights.output_axis] * of_outputs == y.shape[op.channel_axis]
    assert w[weights.input_axis] * of_inputs == x[op.channel_axis]
    for arrays, attrs, (before, *_) in applications(name):
        changed = list(arrays)
        changed[weights.operand] = arrays[weights.operand].copy()
        np.moveaxis(changed[weights.operand], weights.output_axis, 0)[1] += 1
        after = np.moveaxis(again(op, changed, attrs), op.channel_axis, 0)
        channels = np.moveaxis(before, op.channel_axis, 0)
        assert [differs(a, b) for a, b in zip(channels, after)].count(True) <= 1
        assert differs(channels[1], after[1])


def test_integer_forms_are_of_the_family_of_their_float_operator():
    families = {Trait.CONVOLUTION, Trait.MATRIX_PRODUCT, Trait.POOL, Trait.MEAN, Trait.EXTREMUM}
    families |= {Trait.ELEMENTWISE, Trait.CHANNELS_INNERMOST}
    for op in [OPS[name] for name in TABLED if OPS[name].integer_of]:
        plain = get_op(op.integer_of)
        assert op.traits & families == plain.traits & families
        assert op.channel_axis == plain.channel_axis
        assert op.weights in (None, plain.weights)
        assert integer_form(plain) is not None
    matmul = get_op("matmul")
    assert integer_form(matmul, weights=True).name == "qmatmul"
    assert integer_form(matmul, weights=False).name == "qmatmul_computed"
    assert integer_form(get_op("conv"), weights=False) is None
    assert integer_form(get_op("sqrt")) is None

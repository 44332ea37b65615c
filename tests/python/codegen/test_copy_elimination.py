"""Copies that are eliminated because their producers write to the destination: images cut into
windows, heads, slices of a larger tensor."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator
from onnx_graph import model

import tvmrt
from tvmrt.compiler.codegen.zero_copy_concat import translate_access
from tvmrt.compiler.ir import Strided
from tvmrt.compiler.ir.strided import dense

# shape of a tensor and its view, the axis order of a copy, and the view of the result
TURNED = {
    "windows": ((1, 36, 5), (1, 3, 2, 3, 2, 5), (0, 1, 3, 2, 4, 5), (9, 4, 5)),
    "one row of windows": ((1, 12, 5), (1, 2, 2, 3, 5), (0, 2, 1, 3, 4), (2, 6, 5)),
    "windows of images": ((2, 16, 3), (2, 2, 2, 2, 2, 3), (0, 1, 3, 2, 4, 5), (8, 4, 3)),
    "heads": ((1, 6, 8), (1, 6, 2, 4), (0, 2, 1, 3), (2, 6, 4)),
    "shuffled channels": ((1, 6, 4), (1, 3, 2, 4), (0, 2, 1, 3), (1, 6, 4)),
    "pixels to depth": ((1, 3, 4, 6), (1, 3, 2, 2, 3, 2), (0, 3, 5, 1, 2, 4), (1, 12, 2, 3)),
}


@st.composite
def copies(draw):
    """Return an access to all of a dense tensor, the tensor, and the destination of a copy."""
    parts = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    cuts = [0, *sorted(draw(st.sets(st.integers(1, len(parts)), max_size=2)) | {len(parts)})]
    shape = tuple(prod(parts[a:b]) for a, b in itertools.pairwise(cuts))
    source, order = dense(parts), draw(st.permutations(range(len(parts))))
    capacity = [n + draw(st.integers(0, 2)) for n in parts] if draw(st.booleans()) else parts
    target = dense(capacity, order, draw(st.integers(0, 3)))
    turn = draw(st.permutations(range(len(shape))))
    at = dense(shape).transpose(turn)
    starts = [draw(st.integers(0, n - 1)) for n in at.shape]
    sizes = [draw(st.integers(1, n - start)) for n, start in zip(at.shape, starts)]
    at = at.slice(starts, [1] * len(starts), sizes) if draw(st.booleans()) else at
    return at, source, Strided(tuple(parts), target.strides, target.offset)


def addresses(at: Strided) -> np.ndarray:
    return at.offset + sum(i * s for i, s in zip(np.indices(at.shape), at.strides))


@settings(max_examples=400)
@given(copies())
def test_access_addresses_match_the_copy(copy):
    at, source, target = copy
    moved = translate_access(at, source, target)
    if at == source:
        assert moved is not None
    if moved is not None:
        place = np.empty(prod(source.shape), int)
        place[addresses(source).ravel()] = addresses(target).ravel()
        np.testing.assert_array_equal(addresses(moved), place[addresses(at)])


@pytest.fixture(scope="module")
def turned(tmp_path_factory):
    """Return the results of one library for all cases, and those of the reference evaluator."""
    rng, nodes, given_ = np.random.default_rng(5), [], {}
    for i, (shape, seen, perm, then) in enumerate(TURNED.values()):
        given_[f"x{i}"] = rng.standard_normal(shape).astype(np.float32)
        given_[f"s{i}"], given_[f"t{i}"] = np.int64(seen), np.int64(then)
        given_[f"w{i}"] = rng.standard_normal((then[-1], 7)).astype(np.float32)
        nodes += [
            helper.make_node("Relu", [f"x{i}"], [f"r{i}"]),
            helper.make_node("Reshape", [f"r{i}", f"s{i}"], [f"a{i}"]),
            helper.make_node("Transpose", [f"a{i}"], [f"b{i}"], perm=perm),
            helper.make_node("Reshape", [f"b{i}", f"t{i}"], [f"c{i}"]),
            helper.make_node("MatMul", [f"c{i}", f"w{i}"], [f"y{i}"]),
        ]
    constants = {k: v for k, v in given_.items() if k[0] != "x"}
    inputs = {k: v for k, v in given_.items() if k[0] == "x"}
    outputs = [f"y{i}" for i in range(len(TURNED))]
    net = model(nodes, inputs, outputs, constants)
    path = tmp_path_factory.mktemp("turned") / "net.so"
    tvmrt.compile(net, executor="aot", target="native").export_library(path)
    factory = tvmrt.runtime.load_module(path)
    executor = tvmrt.runtime.executor.AotModule(factory["default"](tvmrt.cpu(0)))
    executor.set_input(**inputs)
    executor.run()
    found = [executor.get_output(i).numpy() for i in range(len(TURNED))]
    return found, ReferenceEvaluator(net).run(outputs, inputs)


@pytest.mark.parametrize("case", range(len(TURNED)), ids=list(TURNED))
def test_matmul_reads_transposed_rows(turned, case):
    found, expected = (results[case] for results in turned)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_epilogue_reads_its_operand_in_place(tmp_path):
    """A convolution adds, per pixel, values that a normalisation reads as one row. That copy is
    kept: otherwise the convolution's function would read the row."""
    rng = np.random.default_rng(6)
    constants = {
        "rows": np.int64([2, 1, -1]), "image": np.int64([2, 8, 6, 6]),
        "one": np.float32([1.5]), "half": np.float32([0.5]),
        "w": rng.standard_normal((8, 8, 1, 1)).astype(np.float32),
        "v": rng.standard_normal((8, 8, 1, 1)).astype(np.float32),
        "by": rng.standard_normal((8, 1, 1)).astype(np.float32),
    }  # fmt: skip
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 3, 1, 2]),
        helper.make_node("Tanh", ["t"], ["a"]),
        helper.make_node("Reshape", ["a", "rows"], ["r"]),
        helper.make_node("InstanceNormalization", ["r", "one", "half"], ["n"]),
        helper.make_node("Reshape", ["n", "image"], ["m"]),
        helper.make_node("Conv", ["m", "w"], ["c"]),
        helper.make_node("Add", ["c", "a"], ["residual"]),
        helper.make_node("Conv", ["m", "v"], ["d"]),
        helper.make_node("Mul", ["d", "by"], ["e"]),
        helper.make_node("Max", ["e", "a"], ["by_row"]),
    ]
    inputs = {"x": rng.standard_normal((2, 6, 6, 8)).astype(np.float32)}
    net = model(nodes, inputs, ["residual", "by_row"], constants)
    path = tmp_path / "net.so"
    tvmrt.compile(net, executor="aot", target="native").export_library(path)
    factory = tvmrt.runtime.load_module(path)
    executor = tvmrt.runtime.executor.AotModule(factory["default"](tvmrt.cpu(0)))
    executor.set_input(**inputs)
    executor.run()
    for i, expected in enumerate(ReferenceEvaluator(net).run(None, inputs)):
        np.testing.assert_allclose(executor.get_output(i).numpy(), expected, rtol=1e-5, atol=1e-5)

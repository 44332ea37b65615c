"""The build matrix of the fuzzer: axes, filters, and the commands that reproduce findings."""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "fuzz"))

import batch
import builds
import builds_here
import references
import tflite_generator
from batch import Run
from onnx import TensorProto, helper

EVERY = list(builds.every_build())


def test_every_matrix_axis_has_choices():
    axes = [set(column) for column in zip(*(each.parts for each in EVERY))]
    assert axes[0] == {"host", "crt"}
    assert {"host", "native", "v3", "cortex-m4", "cortex-m55", "riscv32"} <= axes[1]
    assert axes[2:] == [{"graph", "aot"}, {"packed", "c"}, set(builds.LEVELS), {"gcc", "clang"}]
    # graph executors and the host runtime lack the C interface, boards lack the host runtime
    assert not [
        e for e in EVERY if e.interface == "c" and (e.executor, e.runtime) != ("aot", "crt")
    ]
    assert not [each for each in EVERY if each.kind == "board" and each.runtime != "crt"]


@pytest.mark.parametrize(
    ("words", "holds"),
    [
        (["crt"], lambda b: b.runtime == "crt"),
        (["host"], lambda b: b.runtime == "host"),
        (["crt+host"], lambda b: b.runtime == "crt" and b.target == "host"),
        (["cortex-m4", "riscv32+-O2"], lambda b: b.target == "cortex-m4"
         or (b.target, b.level) == ("riscv32", "-O2")),
    ],
    ids=["crt", "host", "crt-on-a-host", "two-words"],
)  # fmt: skip
def test_a_filter_selects_the_builds_that_have_its_parts(words, holds):
    assert set(builds.selected(words)) == {each for each in EVERY if holds(each)}


def test_build_text_selects_only_that_build():
    for each in EVERY:
        assert builds.selected([str(each)]) == [each]


def test_unknown_filter_word_is_an_error():
    with pytest.raises(ValueError, match="no build has cortex-m9"):
        builds.selected(["crt", "cortex-m9"])


def test_boards_get_at_least_a_fifth_of_the_draws():
    source = random.Random(1)
    kinds = Counter(each.kind for _ in range(500) for each in builds.drawn(source, EVERY, 2))
    assert min(kinds.values()) >= 200
    pairs = [builds.drawn(random.Random(seed), EVERY, 2) for seed in (3, 3)]
    assert pairs[0] == pairs[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["crt+native+aot+c+-O2+gcc", "crt+host+graph+packed+-O0+clang", "host+v2+aot+packed+-O2+gcc",
     "crt+cortex-m4+aot+packed+-O2+gcc", "crt+riscv32+graph+packed+-Os+gcc"],
)  # fmt: skip
def test_wrong_result_is_found_in_each_kind_of_build(text, tmp_path):
    """The compiled network has a different weight than the reference."""
    builds_here.skip_without_tools(text)
    (build,) = builds.selected([text])
    x = np.random.default_rng(1).standard_normal((1, 3, 9, 9)).astype(np.float32)
    member = batch.compile_member("right", _matmul(1.0), build, 0, runs=[Run({"x": x[0, 0]})])
    other = batch.compile_member("wrong", _matmul(1.01), build, 1, runs=[Run({"x": x[0, 0]})])
    other.model = _matmul(1.0)
    found = batch.run_batch(tmp_path, [member, other], build)
    assert [each.kind for each in found] == ["", "wrong"], found
    assert found[0].compared == 27


def _matmul(factor: float) -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[9, 9] x) => (float[9, 3] y)'
        "<float[9, 3] w> { y = MatMul(x, w) }"
    )
    weights = np.linspace(-1, 1, 27, dtype=np.float32).reshape(9, 3) * np.float32(factor)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


def test_a_program_takes_networks_of_many_outputs(tmp_path):
    (build,) = builds.selected(["crt+host+aot+c+-O0+gcc"])
    types = [("x", TensorProto.FLOAT, [3]), *((f"y{i}", TensorProto.FLOAT, [3]) for i in range(70))]
    x, *outputs = [helper.make_tensor_value_info(*each) for each in types]
    nodes = [
        helper.make_node("Add", ["x", f"y{i - 1}" if i else "x"], [f"y{i}"]) for i in range(70)
    ]
    graph = helper.make_graph(nodes, "sums", [x], outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    feeds = {"x": np.arange(3, dtype=np.float32)}
    member = batch.compile_member("sums", model, build, 0, runs=[Run(feeds)])
    (found,) = batch.run_batch(tmp_path, [member], build)
    assert (found.kind, found.compared) == ("", 210)
    np.testing.assert_array_equal(found.outputs[0][69], feeds["x"] * 71)


def test_nearest_resize_by_sizes_follows_the_standard():
    """onnxruntime picks a neighbouring element if the ratio of sizes is rounded."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 18]> g (float[1, 1, 1, 22] x) => (float[1, 1, 1, 25] y)'
        '<int64[4] s = {1, 1, 1, 25}> { y = Resize<mode = "nearest", nearest_mode = "floor", '
        'coordinate_transformation_mode = "asymmetric">(x, , , s) }'
    )
    x = np.arange(22, dtype=np.float32).reshape(1, 1, 1, 22)
    (found,) = references.right_outputs(model, {"x": x})
    np.testing.assert_array_equal(found.ravel(), [k * 22 // 25 for k in range(25)])


@pytest.mark.slow
def test_a_seed_gives_one_tflite_network():
    pytest.importorskip("ai_edge_litert")
    first, again = (tflite_generator.grown(11)[0] for _ in range(2))
    assert first == again
    kinds = {tflite_generator.TfliteGrowing(seed).dtype for seed in range(60)}
    assert kinds == set(tflite_generator.DTYPES)

"""Loops with their own counter, as exporters write ``while i < n``, as in EmbeddingBag.

The reference is onnxruntime without optimisations, at each size.
"""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from dynamic_networks import Draft
from onnx import TensorProto, helper
from test_tensors_built_from_sizes import session_of

import tvmrt

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
ROWS, WIDTH = 20, 4


def graph_of(d: Draft, results: dict, inputs: dict | None = None) -> onnx.GraphProto:
    def infos(kinds: dict) -> list:
        return [helper.make_tensor_value_info(n, kind, s) for n, (kind, s) in kinds.items()]

    return helper.make_graph(d.nodes, "inner", infos(inputs or {}), infos(results), d.weights)


def choice(d: Draft, condition: str, yes: Draft, no: Draft) -> str:
    """Return an If over the last results of two graphs."""
    names = [each.nodes[-1].output[0] for each in (yes, no)]
    graphs = [graph_of(each, {name: (FLOAT, None)}) for each, name in zip((yes, no), names)]
    return d.node("If", [condition], then_branch=graphs[0], else_branch=graphs[1])


def folded(d: Draft, op: str, end: str) -> None:
    part = d.node("Slice", ["rows", "start", end])
    axes = [d.constant([0], np.int64)] if op == "ReduceSum" else []
    d.node(op, [part, *axes], **({} if axes else {"axes": [0]}))


def of_one_bag(d: Draft, mode: str) -> str:
    """Return [1, WIDTH] of a bag as torch.export writes it; the last bag has nodes of its own."""
    if mode == "sum":
        folded(d, "ReduceSum", "end")
        return d.nodes[-1].output[0]
    last, other = Draft(prefix="last_"), Draft(prefix="other_")
    folded(last, "ReduceMax" if mode == "max" else "ReduceSum", "count" if mode == "max" else "end")
    if mode == "mean":
        total = last.nodes[-1].output[0]
        rows = last.node("Cast", [last.node("Sub", ["count", "start"])], to=FLOAT)
        last.node("Div", [total, rows])
    folded(other, "ReduceMax" if mode == "max" else "ReduceMean", "end")
    final = d.node("Sub", ["bags", d.constant(1, np.int64)])
    return choice(d, d.node("Equal", ["i", final]), last, other)


def bags(mode: str) -> onnx.ModelProto:
    """Return the sums, means or maxima of the table rows of each bag."""
    body, empty, full = (Draft(prefix=prefix) for prefix in ("body_", "empty_", "full_"))
    empty.node("Expand", [empty.constant([0], np.float32), empty.constant([1, WIDTH], np.int64)])
    of_one_bag(full, mode)
    place = body.node("Reshape", ["i", body.constant([-1], np.int64)])
    one, two = (body.constant([n], np.int64) for n in (1, 2))
    after, second = body.node("Add", [place, one]), body.node("Add", [place, two])
    for name, ends in (("start", (place, after)), ("end", (after, second))):
        body.nodes.append(helper.make_node("Slice", ["ends", *ends], [name]))
    row = choice(body, body.node("Equal", ["start", "end"]), empty, full)
    longer = body.node("SequenceInsert", ["list", row])
    following = body.node("Add", ["i", body.node("CastLike", [one_of(body), "i"])])
    more = body.node("Less", [following, "bags"])
    loop = graph_of(body, {more: (BOOL, []), following: (INT64, [])})
    loop.input.extend(helper.make_tensor_value_info(n, INT64, []) for n in ("round", "went", "i"))
    loop.input[1].type.tensor_type.elem_type = BOOL
    sequence = helper.make_tensor_sequence_value_info
    loop.input.append(sequence("list", FLOAT, None))
    loop.output.append(sequence(longer, FLOAT, None))
    d = Draft()
    table = d.constant(np.random.default_rng(1).normal(size=(ROWS, WIDTH)), np.float32)
    d.nodes += [
        helper.make_node("Gather", [table, "words"], ["rows"]),
        helper.make_node("Shape", ["words"], ["count"]),
        helper.make_node("Size", ["offsets"], ["bags"]),
        helper.make_node("Concat", ["offsets", "count"], ["ends"], axis=0),
    ]
    zero = d.constant(0, np.int64)
    lists = [d.node("SequenceEmpty", [], dtype=FLOAT), d.node("Less", [zero, "bags"])]
    found = d.node("Loop", ["", lists[1], zero, lists[0]], 2, body=loop)
    y = d.node("ConcatFromSequence", [found[1]], axis=0)
    return d.model({"words": (INT64, ["words"]), "offsets": (INT64, ["bags"])}, {y: FLOAT})


def one_of(d: Draft) -> str:
    return d.node("Constant", [], value=helper.make_tensor("one", INT64, [], [1]))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bags(mode):
    model = bags(mode)
    session = session_of(model)
    net = tvmrt.load(model, dims={"words": (1, 16), "bags": (1, 6)}, cache=False)
    for count, offsets in [(8, [0, 2, 3]), (1, [0]), (16, [0, 0, 5, 5, 9, 15]), (7, [0, 3, 3])]:
        words = np.random.default_rng(count).integers(0, ROWS, count)
        feed = {"words": words, "offsets": np.array(offsets)}
        (expected,) = session.run(None, feed)
        (found,) = net(feed).values()
        assert found.shape == expected.shape == (len(offsets), WIDTH)
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)


@pytest.mark.parametrize(("first", "step", "op"), [(1, 2, "Less"), (2, 3, "LessOrEqual")])
def test_loops_that_count_up_to_a_size(first, step, op):
    """``while i < n`` without a trip count, which collects the rows that it reads."""
    d, body = Draft(), Draft(prefix="body_")
    row = body.node("Gather", ["x", "i"], axis=0)
    following = body.node("Add", ["i", body.constant(step, np.int64)])
    more = body.node(op, [following, "last"])
    inputs = {"round": (INT64, []), "went": (BOOL, []), "i": (INT64, [])}
    results = {more: (BOOL, []), following: (INT64, []), row: (FLOAT, [3])}
    count = d.node("Squeeze", [d.extent("x", 0)])
    d.nodes.append(helper.make_node("Sub", [count, d.constant(1, np.int64)], ["last"]))
    start = d.constant(first, np.int64)
    loop = graph_of(body, results, inputs)
    found = d.node("Loop", ["", d.node(op, [start, "last"]), start], 2, body=loop)
    model = d.model({"x": (FLOAT, ["n", 3])}, {found[1]: FLOAT})
    session = session_of(model)
    net = tvmrt.load(model, dims={"n": (4, 16)}, cache=False)
    for n in (4, 5, 9, 16):
        feed = {"x": np.random.default_rng(n).normal(size=(n, 3)).astype(np.float32)}
        (expected,) = session.run(None, feed)
        (found,) = net(feed).values()
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)

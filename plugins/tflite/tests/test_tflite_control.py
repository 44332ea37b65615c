"""Compare subgraph calls, variables and recurrent layers with LiteRT."""

from __future__ import annotations

import numpy as np
import pytest
from every_tensor import check_every_tensor
from tflite_case import Net, assert_like, litert_runs, ours

from tvmrt.compiler.ir import limits
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend import import_model

pytest.importorskip("ai_edge_litert")

rng = np.random.default_rng(3)


def _branch(net: Net, name: str) -> int:
    """Add a graph with one operator on two vectors; return its index."""
    graph = Net(net)
    x, y = graph.input((4,), "float32"), graph.output((4,), "float32")
    graph.op(name, [x, x] if name == "ADD" else [x], [y])
    return len(net.model.subgraphs) - 1


def test_only_the_selected_branch_runs(tmp_path):
    net = Net()
    condition, x = net.input((1,), "bool"), net.input((4,), "float32")
    y = net.output((4,), "float32")
    net.op(
        "IF",
        [condition, x],
        [y],
        options="IfOptions",
        thenSubgraphIndex=_branch(net, "NEG"),
        elseSubgraphIndex=_branch(net, "ADD"),
    )
    values = np.arange(4, dtype=np.float32)
    for truth, right in ((True, -values), (False, values + values)):
        (got,) = ours(net.data(), [np.array([truth]), values], tmp_path)
        np.testing.assert_array_equal(got, right)


def _counting(limit: int) -> Net:
    """Double x ``limit`` times."""
    net = Net()
    x, count = net.input((4,), "float32"), net.const(np.array([0], np.int32))
    outs = [net.output((1,), "int32"), net.output((4,), "float32")]
    condition = Net(net)
    i = condition.input((1,), "int32")
    condition.input((4,), "float32")
    condition.op(
        "LESS", [i, condition.const(np.array([limit], np.int32))], [condition.output((1,), "bool")]
    )
    body = Net(net)
    i, v = body.input((1,), "int32"), body.input((4,), "float32")
    body.op(
        "ADD",
        [i, body.const(np.array([1], np.int32))],
        [body.output((1,), "int32")],
        options="AddOptions",
    )
    body.op("ADD", [v, v], [body.output((4,), "float32")], options="AddOptions")
    net.op(
        "WHILE", [count, x], outs, options="WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2
    )
    return net


def test_loop_with_a_constant_trip_count_is_unrolled(tmp_path):
    assert check_every_tensor(_counting(5).data(), tmp_path) == ["WHILE", "WHILE"]


def test_loop_with_a_run_time_trip_count(tmp_path):
    """Double x until its largest element is at least 50; i counts the iterations."""
    net = _counting(5)
    condition = net.model.subgraphs[1]
    inside = Net.__new__(Net)
    inside.schema, inside.model, inside.graph = net.schema, net.model, condition
    condition.operators.clear()
    largest = inside.tensor((1,), "float32")
    inside.op("REDUCE_MAX", [1, inside.const(np.array([0], np.int32))], [largest],
              options="ReducerOptions", keepDims=True)  # fmt: skip
    inside.op("LESS", [largest, inside.const(np.array([50], np.float32))], condition.outputs)
    for x in ([3, 1, 2, 0], [60, 0, 0, 0], [0.3, 0, 0, 0]):
        feeds = [np.array(x, np.float32)]
        assert_like(ours(net.data(), feeds, tmp_path), litert_runs(net.data(), [feeds])[0])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda op: setattr(op, "bodySubgraphIndex", 7), "it calls graph 7, but the file has 3"),
        (lambda op: setattr(op, "bodySubgraphIndex", 0), "calls itself"),
    ],
)
def test_call_of_unknown_graph_is_an_error(change, sentence):
    net = _counting(5)
    change(net.graph.operators[0].builtinOptions)
    with pytest.raises(ValueError, match=sentence):
        import_model(net.data())


def test_recursive_graphs_and_endless_loops_are_errors(monkeypatch):
    monkeypatch.setattr(limits, "MIN_UNROLLED_NODES", 50)
    net = _counting(5)
    with pytest.raises(UnsupportedError, match="more than"):
        import_model(_counting(1 << 30).data())
    body = Net.__new__(Net)
    body.schema, body.model, body.graph = net.schema, net.model, net.model.subgraphs[2]
    outputs = list(body.graph.outputs)
    body.graph.operators.clear()
    body.op(
        "WHILE",
        body.graph.inputs,
        outputs,
        options="WhileOptions",
        condSubgraphIndex=1,
        bodySubgraphIndex=2,
    )
    with pytest.raises(ValueError, match="calls itself"):
        import_model(net.data())


def _with_variable(net: Net) -> None:
    """Compute y = x + v; a separate graph sets v once."""
    x, y = net.input((3,), "float32"), net.output((3,), "float32")
    name = {"options": "VarHandleOptions", "container": "", "sharedName": "v"}
    handle, read = net.tensor((), "resource"), net.tensor((3,), "float32")
    init = Net(net)
    place = init.tensor((), "resource")
    init.op("VAR_HANDLE", [], [place], **name)
    init.op("ASSIGN_VARIABLE", [place, init.const(np.array([1, 2, 3], np.float32))], [])
    net.op("CALL_ONCE", [], [], options="CallOnceOptions", initSubgraphIndex=1)
    net.op("VAR_HANDLE", [], [handle], **name)
    net.op("READ_VARIABLE", [handle], [read])
    net.op("ADD", [x, read], [y], options="AddOptions")


def test_a_variable_that_is_set_once_is_a_constant(tmp_path):
    net = Net()
    _with_variable(net)
    (got,) = ours(net.data(), [np.array([5, 5, 5], np.float32)], tmp_path)
    assert got.tolist() == [6, 7, 8]


def _lstm(net: Net, cifg=False, peephole=False, norm=False, projection=0, **options) -> None:
    batch, steps, depth, units = 2, 4, 3, 5
    out = projection or units

    def weights(*shape: int) -> int:
        return net.const(rng.standard_normal(shape).astype(np.float32) * 0.5)

    def state(width: int) -> int:
        index = net.tensor((batch, width), "float32")
        net.graph.tensors[index].isVariable = True
        return index

    x = net.input((batch, steps, depth), "float32")
    gates = [i for i in range(4) if i or not cifg]
    w = [weights(units, depth) if i in gates else -1 for i in range(4)]
    r = [weights(units, out) if i in gates else -1 for i in range(4)]
    peepholes = [weights(units) if peephole and (i or not cifg) else -1 for i in (0, 1, 3)]
    bias = [weights(units) if i in gates else -1 for i in range(4)]
    projections = [weights(out, units), weights(out)] if projection else [-1, -1]
    norms = [weights(units) if norm and i in gates else -1 for i in range(4)]
    inputs = [x, *w, *r, *peepholes, *bias, *projections, state(out), state(units), *norms]
    net.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        [net.output((batch, steps, out), "float32")],
        3,
        "UnidirectionalSequenceLSTMOptions",
        fusedActivationFunction=4,
        **options,
    )


@pytest.mark.slow
def test_recurrent_layers_of_floats(tmp_path):
    net = Net()
    _lstm(net)
    _lstm(net, cifg=True, peephole=True)
    _lstm(net, norm=True)
    _lstm(net, projection=4, cellClip=0.4, projClip=0.2)
    assert len(check_every_tensor(net.data(), tmp_path)) == 4


def int8_lstm(net: Net, cifg: bool, cell: int, **options) -> None:
    batch, steps, depth, units = 2, 3, 7, 9
    x = net.input((batch, steps, depth), "int8", scale=0.021, zero=4)

    def weights(gate: int, *shape: int) -> int:
        if cifg and not gate:
            return -1
        return net.const(rng.integers(-127, 128, shape).astype(np.int8), scale=0.006 + gate / 999)

    w, r = ([weights(gate, units, k) for gate in range(4)] for k in (depth, units))
    bias = [
        -1 if cifg and not g else net.const(rng.integers(-3000, 3000, units).astype(np.int32), 1.0)
        for g in range(4)
    ]
    h = net.tensor((batch, units), "int8", scale=0.0079, zero=-3)
    c = net.tensor((batch, units), "int16", scale=2.0**cell)
    for state in (h, c):
        net.graph.tensors[state].isVariable = True
    between = [net.tensor((), "int16", scale=2.0**-12) for _ in range(4)]
    between.append(net.tensor((), "int8", scale=0.0079, zero=-3))
    inputs = [x, *w, *r, -1, -1, -1, *bias, -1, -1, h, c, -1, -1, -1, -1]
    y = net.output((batch, steps, units), "int8", scale=0.0079, zero=-3)
    net.op(
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        inputs,
        [y],
        3,
        "UnidirectionalSequenceLSTMOptions",
        fusedActivationFunction=4,
        **options,
    )
    net.graph.operators[-1].intermediates = between


@pytest.mark.slow
def test_recurrent_layers_of_int8(tmp_path):
    net = Net()
    int8_lstm(net, cifg=True, cell=-11)
    int8_lstm(net, cifg=False, cell=-15, cellClip=0.6)
    assert len(check_every_tensor(net.data(), tmp_path)) == 2


def test_branches_that_contain_the_next_one_twice_are_refused_at_once():
    net = Net()
    graph = net
    for level in range(1, 21):
        condition, x = graph.input((1,), "bool"), graph.input((4,), "float32")
        y = graph.output((4,), "float32")
        fields = {"thenSubgraphIndex": level, "elseSubgraphIndex": level}
        graph.op("IF", [condition, condition, x], [y], options="IfOptions", **fields)
        graph = Net(net)
    graph.input((1,), "bool")
    graph.op("NEG", [graph.input((4,), "float32")], [graph.output((4,), "float32")])
    with pytest.raises(UnsupportedError, match="expand to more than 4096 operators"):
        import_model(net.data())

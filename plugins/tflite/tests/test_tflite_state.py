"""Compare state that networks keep between runs with LiteRT, and on boards."""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from firmware_call import PATTERN, Memory, build_shared, pointers
from test_tflite_control import int8_lstm
from tflite_case import Net, assert_like, feeds_for, litert_runs, ours

import tvmrt
from tvmrt.cli.session import Session
from tvmrt.error import UnsupportedError
from tvmrt.network.network import Network
from tvmrt.plugins.tflite.frontend import sequence_loop

pytest.importorskip("ai_edge_litert")

rng = np.random.default_rng(8)


def _weights(net: Net, shape: tuple[int, ...], dtype: str = "float32") -> int:
    if dtype == "float32":
        return net.const(rng.standard_normal(shape).astype(np.float32) * 0.5)
    return net.const(rng.integers(-127, 128, shape).astype(np.int8), scale=0.004)


def _variable(net: Net, shape: tuple[int, ...], dtype: str = "float32", **quantization) -> int:
    index = net.tensor(shape, dtype, **quantization)
    net.graph.tensors[index].isVariable = True
    return index


def _svdf(net: Net, x: int, dtype: str, rank: int, memory: int, units: int, **options) -> None:
    batch, depth = net.graph.tensors[x].shape
    filters, table = units * rank, {"options": "SVDFOptions", "rank": rank, **options}
    state = (batch, filters * memory)
    if dtype == "int8":
        over_time = rng.integers(-300, 300, (filters, memory)).astype(np.int16)
        bias = rng.integers(-900, 900, units).astype(np.int32)
        inputs = [x, _weights(net, (filters, depth), dtype), net.const(over_time, 0.0005),
                  net.const(bias, 1.0), _variable(net, state, "int16", scale=0.0007)]  # fmt: skip
        y = net.output((batch, units), "int8", scale=0.03, zero=-7)
    else:
        bias = _weights(net, (units,)) if rank == 2 else -1
        inputs = [x, _weights(net, (filters, depth), dtype),
                  _weights(net, (filters, memory), dtype), bias, _variable(net, state)]  # fmt: skip
        y = net.output((batch, units), "float32")
    net.op("SVDF", inputs, [y], 4, **table)


def _cell(net: Net, kind: str, depth: int, units: int, projection: bool) -> tuple[list, list]:
    """Return the operands of one LSTM direction except x and the states, and the states."""
    out = 3 if projection else units
    w = [_weights(net, (units, depth), kind) for _ in range(4)]
    r = [_weights(net, (units, out), kind) for _ in range(4)]
    bias = [_weights(net, (units,)) for _ in range(4)]
    last = [_weights(net, (out, units), kind), -1] if projection else [-1, -1]
    states = [_variable(net, (2, out)), _variable(net, (2, units))]
    return [*w, *r, -1, -1, -1, *bias, *last], states


def _lstm(net: Net, x: int, kind: str, projection: bool = False, **options) -> None:
    weights, states = _cell(net, kind, 5, 4, projection)
    y = net.output((2, 2, 3 if projection else 4), "float32")
    table = "UnidirectionalSequenceLSTMOptions"
    inputs = [x, *weights, *states, -1, -1, -1, -1]
    name = "UNIDIRECTIONAL_SEQUENCE_LSTM"
    net.op(name, inputs, [y], 3, table, fusedActivationFunction=4, **options)


def _both_ways(net: Net, x: int, kind: str, merge: bool = False) -> None:
    forward, one = _cell(net, kind, 5, 4, False)
    backward, other = _cell(net, kind, 5, 4, False)
    widths = [8] if merge else [4, 4]
    ys = [net.output((2, 2, width), "float32") for width in widths]
    fields = {"timeMajor": False, "mergeOutputs": merge, "fusedActivationFunction": 4}
    inputs = [x, *forward, *backward, *one, *other, *[-1] * 9]
    table = "BidirectionalSequenceLSTMOptions"
    net.op("BIDIRECTIONAL_SEQUENCE_LSTM", inputs, ys, 1, table, **fields)


def _rnn(net: Net, name: str, x: int, kind: str, options: str, **fields) -> None:
    both = name.startswith("BI")
    inputs = [x]
    for _ in range(1 + both):
        inputs += [_weights(net, (4, 5), kind), _weights(net, (4, 4), kind), _weights(net, (4,))]
        inputs.append(_variable(net, (2, 4)))
    shape = (2, 4) if name == "RNN" else (2, 2, 4)
    ys = [net.output(shape, "float32") for _ in range(1 + both)]
    inputs += [-1, -1, -1] if both else []
    net.op(name, inputs, ys, 1, options, fusedActivationFunction=1, **fields)


def _recurrent(net: Net) -> None:
    step, sequence = net.input((2, 5), "float32"), net.input((2, 2, 5), "float32")
    bytes_ = net.input((1, 6), "int8", scale=0.04, zero=3)
    _svdf(net, step, "float32", 2, 4, 3, fusedActivationFunction=1)
    _svdf(net, step, "float32", 1, 1, 3)
    _svdf(net, bytes_, "int8", 1, 5, 4, fusedActivationFunction=1)
    _svdf(net, bytes_, "int8", 2, 3, 2, fusedActivationFunction=1)
    _lstm(net, sequence, "float32")
    _lstm(net, sequence, "int8", projection=True, cellClip=0.7)
    _both_ways(net, sequence, "float32")
    _both_ways(net, sequence, "int8")
    _rnn(net, "RNN", step, "int8", "RNNOptions")
    _rnn(net, "UNIDIRECTIONAL_SEQUENCE_RNN", sequence, "float32", "SequenceRNNOptions")
    _rnn(net, "BIDIRECTIONAL_SEQUENCE_RNN", sequence, "float32", "BidirectionalSequenceRNNOptions")
    _svdf(net, step, "int8_weights", 2, 3, 2)
    _svdf(net, step, "int8_weights", 1, 4, 2, asymmetricQuantizeInputs=True)


def _variables(net: Net) -> None:
    """Make a run counter that starts at 5, a sum over the runs, and a sum that only one branch
    updates."""
    x, flag = net.input((3,), "float32"), net.input((), "bool")

    def handle(of: Net, name: str) -> int:
        place = of.tensor((), "resource")
        of.op("VAR_HANDLE", [], [place], options="VarHandleOptions", container="", sharedName=name)
        return place

    init = Net(net)
    for name, first in (("count", [5]), ("sum", [1, 2, 3]), ("some", [0, 0, 0])):
        init.op("ASSIGN_VARIABLE", [handle(init, name), init.const(np.float32(first))], [])
    net.op("CALL_ONCE", [], [], options="CallOnceOptions", initSubgraphIndex=1)
    one = net.const(np.ones(1, np.float32))
    for name, shape, added in (("count", (1,), one), ("sum", (3,), x)):
        place, before = handle(net, name), net.tensor(shape, "float32")
        after = net.output(shape, "float32")
        net.op("READ_VARIABLE", [place], [before])
        net.op("ADD", [before, added], [after], options="AddOptions")
        net.op("ASSIGN_VARIABLE", [place, after], [])
        net.graph.outputs.append(before)
    branches = []
    for sets in (True, False):
        branch = Net(net)
        given = branch.input((3,), "float32")
        if sets:
            branch.op("ASSIGN_VARIABLE", [handle(branch, "some"), given], [])
        branch.op("NEG", [given], [branch.output((3,), "float32")])
        branches.append(len(net.model.subgraphs) - 1)
    net.op("IF", [flag, x], [net.output((3,), "float32")], options="IfOptions",
           thenSubgraphIndex=branches[0], elseSubgraphIndex=branches[1])  # fmt: skip
    last = net.output((3,), "float32")
    net.op("READ_VARIABLE", [handle(net, "some")], [last])


def _run(session: Session, feeds: list[np.ndarray]) -> list[np.ndarray]:
    return list(session.run({i.name: a for i, a in zip(session.inputs, feeds)}).values())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "executor"), [(_recurrent, "aot"), (_variables, "aot"), (_variables, "graph")]
)
def test_state_persists_between_runs(make, executor, tmp_path):
    net = Net()
    make(net)
    data, path = net.data(), tmp_path / "net.so"
    runs = [feeds_for(data, seed) for seed in range(4)]
    right = litert_runs(data, runs)
    tvmrt.compile(data, executor=executor).export_library(str(path))
    session, other = Session(path, 1), Session(path, 1)
    for feeds, wanted in zip(runs, right):
        assert_like(_run(session, feeds), wanted, 2e-5)
    assert_like(_run(other, runs[0]), right[0], 2e-5)  # it has its own state
    session.executor.reset_state()
    assert_like(_run(session, runs[0]), right[0], 2e-5)
    _check_as_a_function(tvmrt.load(path), runs, right)


def _check_as_a_function(network: Network, runs: list, right: list) -> None:
    """Call from several threads: each call uses the state that the previous call left."""
    with ThreadPoolExecutor(3) as pool:
        for _ in range(2):
            for feeds, wanted in zip(runs, right):
                assert_like(pool.submit(network, *feeds).result(), wanted, 2e-5)
            pool.submit(network.reset_state).result()


@pytest.mark.slow
def test_long_sequences_are_loops_with_equal_results(tmp_path, monkeypatch):
    net = Net()
    sequence = net.input((2, 2, 5), "float32")
    _lstm(net, sequence, "int8", projection=True, cellClip=0.7)
    _both_ways(net, sequence, "int8")
    _rnn(net, "BIDIRECTIONAL_SEQUENCE_RNN", sequence, "float32", "BidirectionalSequenceRNNOptions")
    int8_lstm(net, cifg=False, cell=-15, cellClip=0.6)
    data, path = net.data(), tmp_path / "net.so"
    runs = [feeds_for(data, seed) for seed in range(3)]
    monkeypatch.setattr(sequence_loop, "MAX_UNROLLED_STEPS", 1)
    made = tvmrt.compile(data)
    assert sum(step.group.root.op == "loop" for step in made.program.steps) == 6
    made.export_library(str(path))
    session = Session(path, 1)
    for feeds, wanted in zip(runs, litert_runs(data, runs)):
        assert_like(_run(session, feeds), wanted, 2e-5)


@pytest.mark.slow
def test_both_directions_may_be_in_one_tensor(tmp_path):
    """LiteRT leaves parts of that tensor unwritten, so its two separate tensors are the
    reference."""
    net = Net()
    x = net.input((2, 2, 5), "float32")
    _both_ways(net, x, "int8")
    data = net.data()
    net.graph.outputs[:] = [net.tensor((2, 2, 8), "float32")]
    net.graph.operators[0].outputs = net.graph.outputs
    net.graph.operators[0].builtinOptions.mergeOutputs = True
    feeds = feeds_for(data)
    merged = np.concatenate(litert_runs(data, [feeds])[0], axis=2)
    assert_like(ours(net.data(), feeds, tmp_path), [merged])


def test_state_on_boards_is_in_the_workspace_until_reset(tmp_path):
    net = Net()
    x = net.input((1, 6), "int8", scale=0.04, zero=3)
    _svdf(net, x, "int8", 2, 3, 2, fusedActivationFunction=1)
    runs = [feeds_for(net.data(), seed) for seed in range(3)]
    right = litert_runs(net.data(), runs)
    made = tvmrt.compile(net.data(), target="cortex-m4", interface_api="c", module_name="net",
                         pools={"sram": 1 << 20})  # fmt: skip
    made.export(tmp_path / "out")
    library, memory = build_shared(tmp_path / "out"), Memory(made.program.pools[0].used_bytes)
    pools = pointers([memory.address])
    assert memory.is_sound() and PATTERN  # the workspace contains garbage before the first run

    def run(feeds: list[np.ndarray], in_slices: bool) -> np.ndarray:
        y = np.zeros((1, 2), np.int8)
        given = [pointers([a.ctypes.data]) for a in (*feeds, y)]
        if not in_slices:
            assert library.tvmgen_net_run(*given, pools) == 0
            return y
        state = (ctypes.c_int64 * 16)()
        assert library.tvmgen_net_step_begin(state, *given, pools) == 0
        while library.tvmgen_net_step(state, 2) == 1:
            pass
        return y

    for _ in range(2):
        for number, (feeds, (wanted,)) in enumerate(zip(runs, right)):
            np.testing.assert_array_equal(run(feeds, number == 1), wanted)
        library.tvmgen_net_reset_state()
    assert memory.is_sound()


def test_networks_that_share_a_workspace_have_no_state():
    net = Net()
    _variables(net)
    networks = {"a": net.data(), "b": net.data()}
    with pytest.raises(ValueError, match="list all of the networks in concurrent"):
        tvmrt.compile_together(networks, target="cortex-m4", interface_api="c")
    made = tvmrt.compile_together(networks, True, target="cortex-m4", interface_api="c")
    assert len(made.libraries) == 2
    with pytest.raises(UnsupportedError, match='choose executor="aot"'):
        tvmrt.compile(net.data(), target="cortex-m4", executor="graph")

"""Invalid sizes at compile time and at run time."""

from __future__ import annotations

import tracemalloc

import numpy as np
import onnx
import pytest
from dynamic_networks import CASES, FLOAT, INT64, Draft
from onnx import helper

import tvmrt
from tvmrt.compiler.frontend.dims import _names_in
from tvmrt.runtime.executor import AotModule, GraphModule

EXECUTORS = {"graph": GraphModule, "aot": AotModule}
DECODER = CASES["decoder"]


@pytest.fixture(scope="module", params=EXECUTORS)
def network(request, tmp_path_factory):
    """Return the decoder, ready to run; tests may change its state."""
    path = tmp_path_factory.mktemp("decoder") / "net.so"
    tvmrt.compile(DECODER.make(), dims=DECODER.dims, executor=request.param).export_library(
        str(path)
    )
    factory = tvmrt.runtime.load_module(str(path))["default"]
    return EXECUTORS[request.param](factory(tvmrt.cpu(0)))


RUN = [
    pytest.param(
        {"ids": (3, 2)},
        r"input 'ids': axis 0, dimension batch has 3 elements, expected 1 to 2",
        id="beyond the most",
    ),
    pytest.param(
        {"ids": (1, 0)},
        r"axis 1, dimension seq has 0 elements, expected 1 to 5",
        id="below the least",
    ),
    pytest.param(
        {"ids": (2,)}, r"input 'ids' is at most int64 \(2, 5\), got int64 \(2\)", id="rank"
    ),
    pytest.param(
        {"past_k": (1, 4, 3, 9)}, r"axis 3 has 9 elements, expected 8\.$", id="fixed axis"
    ),
    pytest.param(
        {"past_v": (1, 4, 4, 8)},
        r"input 'past_v': axis 2, dimension past, has 4 elements; another input has 3",
        id="one dimension, two sizes",
    ),
    pytest.param(
        {"mask": (1, 1, 2, 6)},
        r"input 'mask': axis 3 has 6 elements; by the dimensions of the other axes it is 5",
        id="a sum that does not hold",
    ),
]


@pytest.mark.parametrize("wrong, expected", RUN)
def test_wrong_sizes_are_refused(network, wrong, expected):
    """The error is one sentence, and valid sizes run afterwards."""
    right = DECODER.inputs(np.random.default_rng(0), {"batch": 1, "seq": 2, "past": 3})

    def run(inputs):
        for name, value in inputs.items():
            network.set_input(name, value)
        network.run()

    run(right)
    before = network.get_output(0).numpy()
    changed = {name: np.zeros(shape, right[name].dtype) for name, shape in wrong.items()}
    with pytest.raises(ValueError, match=expected):
        run({**right, **changed})
    run(right)
    np.testing.assert_array_equal(network.get_output(0).numpy(), before)


COMPILE = [
    pytest.param({"dims": {"batch": (4, 1)}}, ValueError,
                 r'dims={"batch": \(4, 1\)}: the bounds', id="order"),
    pytest.param({"dims": {"batch": (-1, 3)}}, ValueError,
                 r'dims={"batch": \(-1, 3\)}: the bounds', id="negative"),
    pytest.param({"dims": {"batch": 1 << 40}}, ValueError,
                 r'dims={"batch": \(1, 1099511627776\)}: the',
                 id="too large"),
    pytest.param({"dims": {"batch": 2, "seq": 4, "past": 4, "sq": 3}}, KeyError,
                 "no input or output has a dimension sq; did you mean seq",
                 id="unknown"),
    pytest.param({"dims": {"batch": 2, "seq": "past", "past": "seq"}}, ValueError,
                 "is defined by itself", id="circle"),
    pytest.param({"dims": {"batch": 2, "seq": 4, "past": "seq - 9"}}, ValueError,
                 "dimension past = seq - 9 is from -8 to -5", id="below zero"),
    pytest.param({"dims": {"batch": 2, "seq": 4, "past": "other + 1"}}, ValueError,
                 "dimension past depends on other; declare other, too", id="not declared"),
    pytest.param({"dims": {"batch": 2.5}}, TypeError,
                 "dims: give for each name a whole number or .*, not {.batch.: 2.5}",
                 id="a fraction"),
    pytest.param({"dims": {"batch": 2, "seq": "past +", "past": 3}}, ValueError,
                 r"dimension seq: 'past \+' is not a sum or product", id="half a sum"),
    pytest.param({"dims": {"batch": "heads * heads", "heads": 3, "seq": 4, "past": 4}}, ValueError,
                 r"no axis of an input determines the dimension heads",
                 id="no axis"),
    pytest.param({"dims": {"batch": 2, "seq": "past // (2 - 2)", "past": 3}}, ValueError,
                 r"seq = past // \(2 - 2\) contains a division by 0; give the shapes", id="by 0"),
]  # fmt: skip


@pytest.mark.parametrize("options, kind, expected", COMPILE)
def test_invalid_dim_declarations(options, kind, expected):
    with pytest.raises(kind, match=expected):
        tvmrt.compile(DECODER.make(), **options)


def test_unsupported_dynamic_operator_names_node_and_dimension():
    d = Draft()
    sizes = d.constant([2, 1])
    y = d.node("Resize", ["x", "", "", sizes], mode="linear", antialias=1)
    model = d.model({"x": (FLOAT, [2, "n"])}, {y: FLOAT})
    model.opset_import[0].version = 18
    with pytest.raises(
        tvmrt.error.UnsupportedError,
        match=r"Resize0_0 \(Resize: antialias .* closer bounds",
    ):
        tvmrt.compile(model, dims={"n": 200})


def test_devices_leave_dynamic_nodes_to_the_cpu():
    case = CASES["encoder"]
    library = tvmrt.compile(case.make(), dims=case.dims, devices=["ccompiler"])
    rows = [row for row in library.summary.nodes if row.op_type == "Add"]
    assert rows and all(row.device == "cpu" for row in rows)
    reason = "its dimensions are dynamic (batch = 1..3, seq = 1..40)"
    assert any(reason in row.reason for row in rows)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_results_are_checked_against_declared_bounds(executor, tmp_path):
    """Declared bounds of a sum of dimensions and of a data-dependent size; no output is written."""
    draft = Draft()
    joined = draft.node("Concat", ["a", "b"], axis=0)
    found = draft.node("Transpose", [draft.node("NonZero", [joined])], perm=[1, 0])
    model = draft.model({"a": (FLOAT, ["n"]), "b": (FLOAT, ["m"])}, {joined: FLOAT, found: INT64})
    for info, shape in zip(model.graph.output, (["total"], ["found", 1])):
        info.CopyFrom(
            helper.make_tensor_value_info(info.name, info.type.tensor_type.elem_type, shape)
        )
    dims = {"n": 4, "m": 4, "total": 6, "found": 3}
    path = tmp_path / "net.so"
    tvmrt.compile(model, dims=dims, executor=executor).export_library(str(path))
    module = tvmrt.runtime.load_module(str(path))
    network = EXECUTORS[executor](module["default"](tvmrt.cpu(0)))
    lent = tvmrt.nd.array(np.full((3, 1), 77, np.int64))
    network.set_output_zero_copy(1, lent)

    def run(a, b):
        network.set_input("a", np.array(a, np.float32))
        network.set_input("b", np.array(b, np.float32))
        network.run()
        return [network.get_output(i).numpy().copy() for i in range(2)]

    with pytest.raises(ValueError, match=r"dimension total of output .* is 7, expected 0 to 6"):
        run([1, 0, 0, 0], [0, 0, 0])
    with pytest.raises(ValueError, match=r"dimension found of output .* is 4, expected 0 to 3"):
        run([1, 1, 0], [1, 1])
    assert (lent.numpy() == 77).all()
    y, places = run([0, 0, 5, 0], [7, 0])
    assert y.tolist() == [0, 0, 5, 0, 7, 0] and places.tolist() == [[2], [4]]
    assert run([0], [0, 0])[1].shape == (0, 1)  # none is within any bound
    with pytest.raises(ValueError, match=r"has 2 elements along axis 0, .* declared up to"):
        tvmrt.compile(model, shapes={"a": (1,), "b": (1,)}, dims={"total": 1, "found": 3})


def test_large_powers_in_dim_names_need_little_memory():
    """Written as products, a name of a hundred letters would not fit in memory."""
    name = "h"
    for _ in range(7):
        name = f"({name}**8)"
    tracemalloc.start()
    try:
        assert _names_in(name) == {"h"}
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def powers(base, times):
    """``((base**8)**8)**8``"""
    return "(" * times + base + "**8)" * times


LONG = {
    "of a number": "h*" + powers("8", 12),
    "of a dimension": powers("h", 12),
    "of a dimension, divided": "h*" + powers("(2*h)", 3) + "//" + powers("h", 3),
    "of a sum": powers("(h + w + 1)", 12),
    "of halves": powers("((h + 1)//2)", 12),
    "products of sums": "h" + "*(h + w)*(h - w + 1)" * 40,
}


@pytest.mark.parametrize("name", LONG.values(), ids=LONG)
def test_large_powers_in_dim_names_are_refused(name):
    """Computing it would need too much time and memory."""
    draft = Draft()
    y = draft.node("Add", ["x", "z"])
    model = draft.model({"x": (FLOAT, [name]), "z": (FLOAT, ["h", "w"])}, {y: FLOAT})
    wanted = (
        r"expands to more than 1024 factors and bits; give the shapes of the inputs that have it"
    )
    with pytest.raises(ValueError, match=wanted) as caught:
        tvmrt.compile(model, dims={"h": (1, 4), "w": (1, 4)})
    assert len(str(caught.value)) < 300


def test_index_outside_an_axis_whose_elements_are_not_read():
    """The network needs the shape alone of what it gathers; the index follows from a size."""
    model = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 18]>
        g (float[m] x) => (int64[] s) <int64[1] one = {1}>
        { n = Shape(x) i = Min(n, one) y = Gather(x, i) s = Shape(y) }""")
    network = tvmrt.load(model, cache=False)
    np.testing.assert_array_equal(network(np.zeros(2, np.float32)), [1])
    with pytest.raises(ValueError, match=r"node Gather_y \(Gather\): index 1 is outside an extent"):
        network(np.zeros(1, np.float32))
    with pytest.raises(ValueError, match=r"input x .*dimension m has 0 elements"):
        network(np.zeros(0, np.float32))

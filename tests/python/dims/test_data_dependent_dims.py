"""Results with a data-dependent number of elements, compared with onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np
import pytest
from any_size_case import EXECUTORS, loaded, results
from dynamic_networks import FLOAT, INT64, Draft
from onnx import TensorProto, helper

import tvmrt
from tvmrt.error import UnsupportedError

runtime = pytest.importorskip("onnxruntime")

BOOL = TensorProto.BOOL


def boxes(rng, images, count):
    corner = rng.random((images, count, 2)) * 2
    return np.concatenate([corner, corner + rng.random((images, count, 2))], -1).astype(np.float32)


def nonzero():
    draft = Draft()
    places = draft.node("NonZero", ["x"])
    doubled = draft.node("Mul", [draft.node("Cast", [places], to=FLOAT), draft.constant(2.0, "f")])
    joined = draft.node("Concat", [doubled, doubled], axis=1)
    return draft.model({"x": (FLOAT, [3, "n"])}, {places: INT64, joined: FLOAT})


def unique(**attrs):
    draft = Draft()
    found = draft.node("Unique", ["x"], 4, **attrs)
    return draft.model({"x": (INT64, [5, "n"])}, {name: INT64 for name in found})


def kept_rows():
    """Compute a matmul and a mean over the rows that are kept."""
    draft = Draft()
    rows = draft.node("Compress", ["x", "keep"], axis=0)
    product = draft.node("MatMul", [rows, draft.weight(6, 4)])
    scores = draft.node("Softmax", [product], axis=-1)
    mean = draft.node("ReduceSum", [scores, draft.constant([0], np.int64)], keepdims=0)
    inputs = {"x": (FLOAT, ["n", 6]), "keep": (BOOL, ["n"])}
    return draft.model(inputs, {scores: FLOAT, mean: FLOAT})


def largest():
    draft = Draft()
    found = draft.node("TopK", ["x", "k"], 2)
    return draft.model(
        {"x": (FLOAT, [3, "n"]), "k": (INT64, [1])}, {found[0]: FLOAT, found[1]: INT64}
    )


def detector():
    """A convolutional head, and the boxes that are kept, gathered."""
    draft = Draft()
    y = draft.node("Conv", ["x", draft.weight(8, 3, 3, 3)], pads=[1] * 4, strides=[2, 2])
    y = draft.node("Conv", [draft.node("Relu", [y]), draft.weight(7, 8, 1, 1)])
    rows = draft.node("Reshape", [y, draft.constant([1, 7, -1], np.int64)])
    parts = draft.node("Split", [rows, draft.constant([2, 2, 3], np.int64)], 3, axis=1)
    sizes = draft.node("Sigmoid", [parts[1]])
    box = draft.node("Transpose", [draft.node("Concat", [parts[0], sizes], axis=1)], perm=[0, 2, 1])
    scores = draft.node("Sigmoid", [parts[2]])
    numbers = [draft.constant(4, np.int64), draft.constant(0.2, "f"), draft.constant(0.6, "f")]
    kept = draft.node("NonMaxSuppression", [box, scores, *numbers], center_point_box=1)
    which = draft.node("Gather", [kept, draft.constant(2, np.int64)], axis=1)
    chosen = draft.node("Gather", [box, which], axis=1)
    shape = {"x": (FLOAT, [1, 3, "H", "W"])}
    return draft.model(shape, {kept: INT64, chosen: FLOAT})


def tuples():
    """Use the indices of found elements to select, to select later rows, and to overwrite."""
    draft = Draft()
    places = draft.node("Transpose", [draft.node("NonZero", ["x"])], perm=[1, 0])
    values = draft.node("GatherND", ["x", places])
    rows = draft.node("Gather", [places, draft.constant(0, np.int64)], axis=1)
    later = draft.node("Transpose", [draft.node("NonZero", [rows])], perm=[1, 0])
    kept = draft.node("GatherND", [places, later])
    changed = draft.node("ScatterND", ["x", places, draft.node("Neg", [values])])
    return draft.model({"x": (FLOAT, ["n", 5])}, {values: FLOAT, kept: INT64, changed: FLOAT})


def constant_indices():
    """Use constant indices that are valid for every length."""
    draft = Draft()
    which, pairs = draft.constant([[0, 1, 1]], np.int64), draft.constant([[0, 1], [1, 0]], np.int64)
    picked = draft.node("GatherElements", ["x", which], axis=0)
    put = draft.node("ScatterElements", ["x", which, draft.weight(1, 3)], axis=0)
    return draft.model(
        {"x": (FLOAT, ["n", 3])},
        {put: FLOAT, picked: FLOAT, draft.node("GatherND", ["x", pairs]): FLOAT},
    )


def branches():
    """One of two results of different length, and operators on it."""

    def branch(draft, name):
        result = helper.make_tensor_value_info(name, FLOAT, None)
        return helper.make_graph(draft.nodes, "branch", [], [result], draft.weights)

    first, second = Draft(1, "yes_"), Draft(2, "no_")
    yes = branch(first, first.node("Concat", ["x", "x"], axis=0))
    no = branch(second, second.node("Slice", ["x", *[second.constant([i], "q") for i in (0, 1)]]))
    draft = Draft()
    draft.nodes.append(
        helper.make_node("If", ["c"], ["z"], "either", then_branch=yes, else_branch=no)
    )
    mean = draft.node("ReduceMean", [draft.node("Tanh", ["z"])], axes=[0], keepdims=0)
    return draft.model({"c": (BOOL, []), "x": (FLOAT, ["n", 3])}, {"z": FLOAT, mean: FLOAT})


def computed(op, inputs, kinds, shape=None, **attrs):
    """An operator whose operands are inputs, and operators on its result."""
    draft = Draft()
    y = draft.node(op, inputs, **attrs)
    z = draft.node("Sqrt", [draft.node("Abs", [draft.node("Cast", [y], to=FLOAT)])])
    model = draft.model(kinds, {y: kinds["x"][0] if "x" in kinds else FLOAT, z: FLOAT})
    if op == "Range":
        model.graph.output[0].type.tensor_type.elem_type = INT64
    if shape is not None:
        info = helper.make_tensor_value_info(y, FLOAT, shape)
        model.graph.output[0].type.tensor_type.shape.CopyFrom(info.type.tensor_type.shape)
    return model


def numbered(rng, *rows, **names):
    """Return inputs x of some number of rows, and operands."""
    for count, *operands in rows:
        x = {"x": rng.normal(size=(count, 5)).astype(np.float32)} if count else {}
        yield {**x, **{n: np.array(v, np.int64) for n, v in zip(names["of"], operands)}}


def suppression():
    draft = Draft()
    kept = draft.node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"])
    shapes = {"boxes": (FLOAT, ["B", "N", 4]), "scores": (FLOAT, ["B", 3, "N"])}
    numbers = {"most": (INT64, [1]), "overlap": (FLOAT, [1]), "least": (FLOAT, [1])}
    return draft.model({**shapes, **numbers}, {kept: INT64})


@dataclass(frozen=True)
class Case:
    make: Callable[[], Any]
    dims: dict
    inputs: Callable  # inputs of consecutive runs, from a random generator


def of_unique(rng):
    return [{"x": rng.integers(0, 9, (5, n))} for n in (4, 2, 1, 3)]


def of_suppression(rng):
    return [
        {
            "boxes": boxes(rng, images, count),
            "scores": rng.random((images, 3, count)).astype(np.float32).round(1),
            "most": np.array([maximum]),
            "overlap": np.array([overlap], np.float32),
            "least": np.array([minimum], np.float32),
        }
        for images, count, maximum, overlap, minimum in (
            (2, 40, 100, 0.3, 0.2), (1, 7, 3, 0.1, 0.5), (2, 33, 0, 0.5, 0.5), (2, 40, 5, 0, 2),
        )
    ]  # fmt: skip


CASES = {
    "nonzero": Case(
        nonzero,
        {"n": 4},
        lambda rng: [
            {"x": (rng.random((3, n)) < share).astype(np.float32)}
            for n, share in ((4, 0.5), (4, 0), (2, 1), (4, 1), (3, 0.3))
        ],
    ),
    "tuples": Case(
        tuples,
        {"n": 4},
        lambda rng: [
            {"x": (rng.random((n, 5)) < share).astype(np.float32)}
            for n, share in ((4, 0.5), (4, 0), (1, 1), (2, 0.5), (4, 1))
        ],
    ),
    "constant_indices": Case(
        constant_indices,
        {"n": (2, 8)},
        lambda rng: [{"x": rng.random((n, 3)).astype(np.float32)} for n in (2, 8, 3)],
    ),
    "unique": Case(unique, {"n": 4}, of_unique),
    "unique as they come": Case(lambda: unique(sorted=0), {"n": 4}, of_unique),
    "unique columns": Case(lambda: unique(axis=1), {"n": 4}, of_unique),
    "unique rows as they come": Case(lambda: unique(axis=0, sorted=0), {"n": 4}, of_unique),
    "compress": Case(
        kept_rows,
        {"n": 20},
        lambda rng: [
            {"x": rng.normal(size=(n, 6)).astype(np.float32), "keep": rng.random(n) < share}
            for n, share in ((20, 0.5), (20, 1), (7, 0.5), (20, 0), (1, 1))
        ],
    ),
    "top k": Case(
        largest,
        {"n": 9},
        lambda rng: [
            {"x": rng.random((3, n)).astype(np.float32), "k": np.array([k])}
            for n, k in ((9, 3), (5, 5), (7, 0), (9, 9))
        ],
    ),
    "boxes": Case(suppression, {"B": 2, "N": 40}, of_suppression),
    "branches": Case(
        branches,
        {"n": 5},
        lambda rng: [
            {"c": np.array(c), "x": rng.normal(size=(n, 3)).astype(np.float32)}
            for c, n in ((True, 5), (False, 5), (True, 2), (False, 1))
        ],
    ),
    "slice": Case(
        lambda: computed(
            "Slice",
            ["x", "b", "e", "a"],
            {"x": (FLOAT, ["n", 5]), "b": (INT64, [1]), "e": (INT64, [1]), "a": (INT64, [1])},
        ),
        {"n": 4},
        lambda rng: numbered(
            rng,
            (4, [1], [3], [0]),
            (4, [-3], [-1], [1]),
            (2, [0], [100], [0]),
            (3, [2], [1], [1]),
            of="bea",
        ),
    ),
    "range": Case(
        lambda: computed(
            "Range",
            ["b", "e", "s"],
            {n: (INT64, []) for n in "bes"},
            ["places"],
        ),
        {"places": (0, 12)},
        lambda rng: numbered(rng, (0, 0, 12, 1), (0, 3, -4, -2), (0, 5, 5, 1), of="bes"),
    ),
    "shape": Case(
        lambda: computed("ConstantOfShape", ["s"], {"s": (INT64, [2])}, ["p", "q"]),
        {"p": (0, 4), "q": (0, 3)},
        lambda rng: numbered(rng, (0, [2, 3]), (0, [4, 1]), (0, [0, 3]), of="s"),
    ),
    "reshape": Case(
        lambda: computed(
            "Reshape", ["x", "s"], {"x": (FLOAT, ["n", 5]), "s": (INT64, [3])}, ["p", 5, "q"]
        ),
        {"n": 6, "p": 6, "q": (0, 6)},
        lambda rng: numbered(
            rng, (6, [2, 5, 3]), (4, [-1, 5, 2]), (6, [1, -1, 6]), (5, [5, 0, 1]), of="s"
        ),
    ),
    "pad": Case(
        lambda: computed(
            "Pad",
            ["x", "p"],
            {"x": (FLOAT, ["n", 5]), "p": (INT64, [4])},
            ["a", "b"],
            mode="reflect",
        ),
        {"n": 4, "a": (0, 8), "b": 10},
        lambda rng: numbered(rng, (4, [1, 2, 0, 3]), (3, [0] * 4), (4, [0, 1, 2, 0]), of="p"),
    ),
    "detector": Case(
        detector,
        {"H": (8, 32), "W": (8, 32)},
        lambda rng: [
            {"x": rng.normal(size=(1, 3, h, w)).astype(np.float32)}
            for h, w in ((32, 32), (8, 8), (17, 30), (32, 9), (32, 32))
        ],
    ),
}


@pytest.mark.everyday(3)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", CASES)
def test_data_dependent_results_match_onnxruntime(name, executor, tmp_path):
    case = CASES[name]
    model = case.make()
    network = loaded(tvmrt.compile(model, dims=case.dims, executor=executor), tmp_path, executor)
    session = runtime.InferenceSession(model.SerializeToString())
    counts = set()
    for inputs in case.inputs(np.random.default_rng(5)):
        found, expected = results(network, inputs), session.run(None, inputs)
        assert [y.shape for y in found] == [y.shape for y in expected]
        for mine, theirs in zip(found, expected):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
        counts.add(found[0].shape)
    assert len(counts) > 1


@pytest.mark.parametrize("executor", EXECUTORS)
def test_rows_of_several_conditions_are_one_result(executor):
    """Each part is written before the sizes of the others may be known."""
    d = Draft()
    limits = [d.constant(share, "f") for share in (0.2, 0.5, 0.9)]
    parts = [d.node("Compress", ["x", d.node("Greater", ["s", limit])], axis=0) for limit in limits]
    y = d.node("Concat", parts, axis=0)
    model = d.model({"s": (FLOAT, [6]), "x": (FLOAT, [6, 4])}, {y: FLOAT})
    net = tvmrt.load(model, executor=executor, cache=False)
    rng = np.random.default_rng(6)
    for share in (1, 0.1, 0.6, 7):
        s, x = np.float32(rng.random(6) * share), np.float32(rng.normal(size=(6, 4)))
        expected = np.concatenate([x[s > np.float32(limit)] for limit in (0.2, 0.5, 0.9)])
        np.testing.assert_array_equal(net({"s": s, "x": x})[y], expected)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_dim_beyond_its_bound_is_an_error(executor, tmp_path):
    """The bound is the extent of this run, not the maximum; nothing is written."""
    library = tvmrt.compile(largest(), dims={"n": 9}, executor=executor)
    network = loaded(library, tmp_path, executor)
    network.set_input("x", np.ones((3, 5), np.float32))
    for k in (6, -1, 1 << 40):
        network.set_input("k", np.array([k]))
        with pytest.raises(ValueError, match=rf"TopK0_0', k is {k}, expected 0 to 5"):
            network.run()
    network.set_input("k", np.array([5]))
    network.run()
    assert network.get_output(0).shape == (3, 5)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_shape_for_other_elements_is_an_error(executor, tmp_path):
    """A shape beyond the bounds is an error as well: its memory is too small."""
    kinds = {"x": (FLOAT, ["n", 5]), "s": (INT64, [2])}
    model = computed("Reshape", ["x", "s"], kinds, ["p", "q"])
    dims = {"n": 4, "p": 20, "q": 10}
    library = tvmrt.compile(model, dims=dims, executor=executor)
    assert library.program.arena_bytes < 1024
    network = loaded(library, tmp_path, executor)
    network.set_input("x", np.ones((3, 5), np.float32))
    wrong = [[3, 6], [20, 1], [-3, -5], [-1, 4], [-1, -1]]
    for shape, beyond in ((shape, "as many elements as x has") for shape in wrong):
        network.set_input("s", np.array(shape))
        with pytest.raises(ValueError, match=f"{beyond}|expected 0 to [12]0"):
            network.run()
    network.set_input("s", np.array([1, 15]))
    with pytest.raises(ValueError, match="extent of axis 1 is 15, expected 0 to 10"):
        network.run()
    network.set_input("s", np.array([-1, 3]))
    network.run()
    assert network.get_output(0).shape == (5, 3)


def test_a_shape_without_bounds_says_what_to_declare():
    model = computed("Reshape", ["x", "s"], {"x": (FLOAT, [4, 5]), "s": (INT64, [2])}, ["p", "q"])
    with pytest.raises(UnsupportedError, match="with numbers or with names that dims bounds"):
        tvmrt.compile(model, executor="graph")


@pytest.mark.parametrize("executor", EXECUTORS)
def test_output_buffers_need_the_maximum_size(executor, tmp_path):
    """If the buffer is too small for the found elements, nothing is written."""
    network = loaded(tvmrt.compile(nonzero(), dims={"n": 4}, executor=executor), tmp_path, executor)
    output = tvmrt.nd.array(np.full((2, 5), 77, np.int64))
    network.set_output_zero_copy(0, output)
    network.set_input("x", np.ones((3, 4), np.float32))
    with pytest.raises(ValueError, match="axis 1 has 5 elements, the result 12; pass a tensor"):
        network.run()
    assert (output.numpy() == 77).all()


def test_board_packed_functions_refuse_data_dependent_dims():
    draft = Draft()
    model = draft.model({"x": (FLOAT, [4])}, {draft.node("NonZero", ["x"]): INT64})
    with pytest.raises(
        UnsupportedError, match=r"the size of output NonZero0_0 .* only after a run"
    ):
        tvmrt.compile(model, runtime="crt", executor="aot")


def test_dim_names_describe_the_counted_elements(tmp_path):
    network = loaded(tvmrt.compile(nonzero(), dims={"n": 4}), tmp_path, "graph")
    about = network.get_dims()
    assert about["dims"] == {"n": [1, 4], "NonZero0_0_count": [0, 12]}
    assert about["outputs"]["NonZero0_0"] == [2, "NonZero0_0_count"]


def test_fixed_input_with_data_dependent_output(tmp_path):
    draft = Draft()
    places = draft.node("NonZero", ["x"])
    model = draft.model({"x": (BOOL, [7])}, {places: INT64})
    for executor in EXECUTORS:
        network = loaded(tvmrt.compile(model, executor=executor), tmp_path, executor)
        (found,) = results(network, {"x": np.array([0, 1, 0, 0, 1, 1, 0], bool)})
        np.testing.assert_array_equal(found, [[1, 4, 5]])

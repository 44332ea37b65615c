"""Compare trees with every comparison, aggregate and post transform with onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest
from ml_networks import by_onnxruntime, differences, one_node, run, side_by_side
from onnx import helper, numpy_helper

import tvmrt

COLUMNS = 6
_MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def rows(count: int, dtype=np.float32) -> np.ndarray:
    """Return small integers, so that many equal a threshold, and special values such as NaN."""
    rng = np.random.default_rng(3)
    x = rng.integers(-3, 4, (count, COLUMNS)).astype(dtype)
    x[rng.random(x.shape) < 0.3] += dtype(0.25)
    strange = [np.nan, np.inf, -np.inf, -0.0, np.nextafter(dtype(1), dtype(0)), 1e-40]
    chosen = rng.random(x.shape) < 0.2
    x[chosen] = rng.choice(np.array(strange, dtype), int(chosen.sum()))
    return x


def trees(seed: int, count: int, modes: list[str], depth: int = 5, missing: bool = True) -> dict:
    """Return node attributes of random trees, some of a single leaf, and the positions of the
    leaves."""
    rng = np.random.default_rng(seed)
    nodes: dict[str, list] = {n: [] for n in _NODE_ATTRIBUTES}
    leaves: list[tuple[int, int]] = []
    for tree in range(count):
        numbers = iter(rng.permutation(4 << depth).tolist())
        _grow(rng, nodes, leaves, tree, next(numbers), numbers, modes, 0 if tree == 1 else depth)
    if not missing:
        nodes["nodes_missing_value_tracks_true"] = [0] * len(nodes["nodes_modes"])
    return {"nodes": nodes, "leaves": leaves}


_NODE_ATTRIBUTES = (
    "nodes_treeids nodes_nodeids nodes_featureids nodes_modes nodes_values "
    "nodes_truenodeids nodes_falsenodeids nodes_missing_value_tracks_true"
).split()


def _grow(rng, nodes, leaves, tree, number, numbers, modes, depth) -> None:
    ends = depth == 0 or rng.random() < 0.1
    children = [0, 0] if ends else [next(numbers), next(numbers)]
    mode = "LEAF" if ends else str(rng.choice(modes))
    value = float(rng.choice([*range(-3, 4), 0.25, np.inf, -np.inf]))
    row = tree, number, int(rng.integers(COLUMNS)), mode, value, *children, int(rng.integers(2))
    for name, element in zip(_NODE_ATTRIBUTES, row):
        nodes[name].append(element)
    if ends:
        leaves.append((tree, number))
    for child in children if not ends else []:
        _grow(rng, nodes, leaves, tree, child, numbers, modes, depth - 1)


def weights(stem: str, forest: dict, targets: int, most: int = 2, low: float = -1.0) -> dict:
    """Return the leaf attributes: one or several targets per leaf, some of them twice."""
    rng = np.random.default_rng(len(forest["leaves"]))
    given = [
        (tree, node, int(rng.integers(targets)), float(np.float32(rng.uniform(low, 1))))
        for tree, node in forest["leaves"]
        for _ in range(int(rng.integers(most + 1)) if most > 1 else 1)
    ]
    names = ("treeids", "nodeids", "ids", "weights")
    return {f"{stem}_{name}": list(column) for name, column in zip(names, zip(*given))}


def regressors() -> dict:
    found = {}
    for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
        for targets in (1, 3):
            forest = trees(targets, 11, _MODES if aggregate == "SUM" else _MODES[:4])
            found[f"{aggregate}{targets}"] = one_node(
                "TreeEnsembleRegressor",
                [rows(19)],
                **forest["nodes"],
                **weights("target", forest, targets, 1 if targets == 1 else 2),
                n_targets=targets,
                aggregate_function=aggregate,
                base_values=[0.5, -2.0, 3.0][:targets],
            )
    forest = trees(4, 11, _MODES)
    found["doubles"] = one_node(
        "TreeEnsembleRegressor",
        [rows(19, np.float64)],
        **forest["nodes"],
        **weights("target", forest, 2),
        n_targets=2,
    )
    for how in ("LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        forest = trees(7, 3, _MODES[:1], missing=False)
        found[how] = one_node(
            "TreeEnsembleRegressor",
            [rows(19)],
            **forest["nodes"],
            **weights("target", forest, 4),
            n_targets=4,
            post_transform=how,
        )
    return found


def classifiers() -> dict:
    found = {}
    for classes in (2, 4):
        for how in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
            forest = trees(classes, 9, _MODES[:1], missing=False)
            found[f"{classes}{how}"] = one_node(
                "TreeEnsembleClassifier",
                [rows(9)],
                2,
                **forest["nodes"],
                **weights("class", forest, classes, 2, 0.0),
                classlabels_int64s=[3, 1, 4, 15][:classes],
                post_transform=how,
            )
    for how in ("NONE", "LOGISTIC"):
        for low in (-1.0, 0.0):
            forest = trees(5, 5, _MODES[:1])
            found[f"one{how}{low}"] = one_node(
                "TreeEnsembleClassifier",
                [rows(9)],
                2,
                **forest["nodes"],
                **weights("class", forest, 1, 1, low),
                classlabels_int64s=[0, 1],
                base_values=[0.25],
                post_transform=how,
            )
    return found


def categories() -> dict:
    """Make trees in which a categorical split is a chain of equality tests, as LightGBM's and
    XGBoost's exporters write it, and a chain that must not be merged: it tests two columns, and
    another node shares its end. NaN goes to either branch."""
    # comparison, column, value, targets if true and if false, target for NaN
    nodes = [
        ("BRANCH_EQ", 0, 1, 4, 1, 0),
        ("BRANCH_EQ", 0, -2, 4, 2, 1),
        ("BRANCH_EQ", 0, 3, 4, 3, 0),
        ("BRANCH_EQ", 1, 0, 5, 6, 0),
        ("BRANCH_LT", 2, 0.25, 7, 5, 0),
        ("BRANCH_EQ", 1, 2, 8, 9, 1),
        ("BRANCH_EQ", 3, 1, 8, 5, 0),
        *[("LEAF", 0, 0, 0, 0, 0)] * 3,
    ]
    attributes = {"nodes_treeids": [0] * 10 + [1] * 10, "nodes_nodeids": [*range(10)] * 2}
    names = "modes featureids values truenodeids falsenodeids missing_value_tracks_true".split()
    for name, column in zip(names, zip(*nodes)):
        attributes[f"nodes_{name}"] = [*column] * 2
    columns = attributes["nodes_featureids"]
    columns[10:] = [5 - column for column in columns[10:]]
    for name, numbers in {
        "treeids": [0, 0, 0, 1, 1, 1],
        "nodeids": [7, 8, 9] * 2,
        "ids": [0] * 6,
        "weights": [1.0, 20.0, 300.0, 4000.0, 5e4, 6e5],
    }.items():
        attributes[f"target_{name}"] = numbers
    return {
        str(kind.__name__): one_node(
            "TreeEnsembleRegressor", [rows(300, kind)], **attributes, n_targets=1
        )
        for kind in (np.float32, np.float64)
    }


def way(model, x: np.ndarray) -> float:
    """Walk both trees of a ``categories`` network node by node for one row."""
    given = {a.name: helper.get_attribute_value(a) for a in model.graph.node[0].attribute}
    total = 0.0
    for root in (0, 10):
        node = root
        while given["nodes_modes"][node] != b"LEAF":
            number, than = x[given["nodes_featureids"][node]], given["nodes_values"][node]
            less = given["nodes_modes"][node] == b"BRANCH_LT"
            holds = number < than if less else number == than
            if np.isnan(number) and given["nodes_missing_value_tracks_true"][node]:
                holds = True
            node = root + given["nodes_truenodeids" if holds else "nodes_falsenodeids"][node]
        leaf = given["target_nodeids"].index(node - root)
        total += given["target_weights"][leaf + (3 if root else 0)]
    return total


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_branches_may_be_the_children_of_several(kind, tmp_path):
    model, x = categories()[kind], rows(300, np.dtype(kind).type)
    wanted = np.array([[way(model, row)] for row in x], np.float32)
    assert len(np.unique(wanted)) > 6
    assert not differences(run(model, {"x0": x}, tmp_path), {"y0": wanted}, 0, 0)


def doubling(depth: int, circle: bool = False):
    """Make a tree in which both children of each node are the next node."""
    numbers = np.arange(depth + 1)
    ends = [] if circle else [depth]
    following = np.where(numbers < depth, numbers + 1, 0 if not circle else 1)
    return one_node(
        "TreeEnsembleRegressor",
        [rows(1)],
        nodes_treeids=np.zeros_like(numbers),
        nodes_nodeids=numbers,
        nodes_featureids=np.zeros_like(numbers),
        nodes_modes=["LEAF" if i in ends else "BRANCH_LEQ" for i in numbers],
        nodes_values=[0.5] * (depth + 1),
        nodes_truenodeids=following,
        nodes_falsenodeids=following,
        target_treeids=[0],
        target_nodeids=[depth],
        target_ids=[0],
        target_weights=[1.0],
        n_targets=1,
    )


@pytest.mark.parametrize("model", [doubling(40), doubling(2, True)], ids=["many", "circle"])
def test_branches_of_too_many_are_a_sentence(model):
    with pytest.raises(ValueError, match="if each had its own; export the model with trees"):
        tvmrt.compile(model)


def wide_forest(x: np.ndarray):
    """Make a forest with so many columns and nodes per level that both do not fit 31 bits."""
    count = x.shape[1] - 1
    numbers = np.arange(2 * count + 1)
    branch = numbers < count
    return one_node(
        "TreeEnsembleRegressor",
        [x],
        nodes_treeids=np.zeros_like(numbers),
        nodes_nodeids=numbers,
        nodes_featureids=np.where(branch, numbers, 0),
        nodes_modes=np.where(branch, "BRANCH_LEQ", "LEAF").tolist(),
        nodes_values=np.where(branch, 0.5, 0).tolist(),
        nodes_truenodeids=np.where(branch, 2 * numbers + 1, 0),
        nodes_falsenodeids=np.where(branch, 2 * numbers + 2, 0),
        target_treeids=np.zeros(count + 1, np.int64),
        target_nodeids=numbers[~branch],
        target_ids=np.zeros(count + 1, np.int64),
        target_weights=numbers[~branch].astype(float).tolist(),
        n_targets=1,
    )


def test_links_of_wide_and_large_trees_are_longer(tmp_path):
    x = np.random.default_rng(1).random((3, 1 << 16)).astype(np.float32)
    wanted = np.zeros((3, 1), np.float32)
    for row in range(3):
        node = 0
        while node < x.shape[1] - 1:
            node = 2 * node + (1 if x[row, node] <= 0.5 else 2)
        wanted[row] = node
    assert not differences(run(wide_forest(x), {"x0": x}, tmp_path), {"y0": wanted}, 0, 0)


def argmax_of_two(wanted: dict) -> None:
    """For two classes with own scores, onnxruntime chooses the second if its score is positive; the
    standard requires the larger score, as for more classes."""
    for how in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"):
        wanted[f"2{how}/y0"] = np.array([3, 1])[wanted[f"2{how}/y1"].argmax(1)]


def ensemble(dtype, **changed):
    """Make a TreeEnsemble of version 5, with sets."""
    tensors = {
        "nodes_splits": np.array([1, 0.25, 0, 2, 0.5], dtype),
        "nodes_modes": np.array([0, 6, 1, 6, 3], np.uint8),
        "leaf_weights": np.array([1, -2, 0.1, 7], dtype),
        "membership_values": np.array([1, 2, np.nan, 3, 1, np.nan], dtype),
    }
    attributes = {name: numpy_helper.from_array(a, name) for name, a in tensors.items()}
    attributes.update(
        nodes_featureids=[0, 1, 2, 3, 4],
        nodes_truenodeids=[1, 0, 3, 2, 1],
        nodes_falsenodeids=[2, 1, 3, 0, 1],
        nodes_trueleafs=[0, 1, 0, 1, 1],
        nodes_falseleafs=[0, 1, 1, 1, 1],
        leaf_targetids=[0, 1, 0, 1],
        tree_roots=[0, 4],
        n_targets=2,
        aggregate_function=1,
    )
    return one_node("TreeEnsemble", [rows(19, dtype)], version=5, **{**attributes, **changed})


def ensembles() -> dict:
    return {dtype.__name__: ensemble(dtype) for dtype in (np.float32, np.float64)}


@pytest.fixture(scope="module")
def everything(tmp_path_factory):
    """Return the outputs of all networks from tvmrt and onnxruntime; one library per opset
    version."""
    found, wanted = {}, {}
    for models in ({**regressors(), **classifiers()}, ensembles()):
        model = side_by_side(models)
        sizes = {i.name: i.type.tensor_type for i in model.graph.input}
        feeds = {
            name: rows(t.shape.dim[0].dim_value, helper.tensor_dtype_to_np_dtype(t.elem_type).type)
            for name, t in sizes.items()
        }
        found.update(run(model, feeds, tmp_path_factory.mktemp("forests")))
        wanted.update(by_onnxruntime(model, feeds))
    argmax_of_two(wanted)
    return found, wanted


@pytest.mark.parametrize("name", [*regressors(), *classifiers(), *ensembles()])
def test_forest_equals_onnxruntime(everything, name):
    found, wanted = everything
    own = {key: array for key, array in wanted.items() if key.startswith(f"{name}/")}
    assert own
    assert not differences(found, own, 1e-5, 1e-6)


def invalid_forests() -> dict:
    """Return invalid networks and their error texts."""
    forest = trees(2, 2, _MODES[:1])
    right = {**forest["nodes"], **weights("target", forest, 2), "n_targets": 2}

    def changed(name: str, element: object, at: int = 0) -> dict:
        elements = list(right[name])
        elements[at] = element
        return {**right, name: elements}

    return {
        "child": (changed("nodes_truenodeids", 12345), "names node 12345 of tree 0"),
        "shared": (
            changed("nodes_truenodeids", forest["nodes"]["nodes_falsenodeids"][0]),
            "no root or several roots",
        ),
        "column": (changed("nodes_featureids", COLUMNS), f"input has {COLUMNS}"),
        "mode": (changed("nodes_modes", "BRANCH_MAYBE"), "BRANCH_MAYBE is not one of them"),
        "number": (changed("nodes_nodeids", 1 << 40), "not from 0 to 2147483647"),
        "length": ({**right, "nodes_values": [1.0]}, "nodes_values has 1 elements"),
        "target": (changed("target_ids", 7), "adds to output 7, but there are 2"),
        "leaf": (changed("target_nodeids", -1), "names node -1"),
        "base": ({**right, "base_values": [1.0]}, "base_values has 1 elements, expected 2"),
        "transform": ({**right, "post_transform": "NO"}, "unknown post_transform NO"),
    }


@pytest.mark.parametrize("name", invalid_forests())
def test_a_broken_forest_is_a_sentence(name):
    attributes, said = invalid_forests()[name]
    with pytest.raises(ValueError, match="TreeEnsembleRegressor") as caught:
        tvmrt.compile(one_node("TreeEnsembleRegressor", [rows(1)], **attributes))
    assert said in str(caught.value)


def test_one_library_takes_any_number_of_rows(tmp_path):
    """Run fewer rows than a batch of the tree walk, a full batch, more, and a multiple."""
    forest = trees(3, 10, _MODES)
    model = one_node(
        "TreeEnsembleRegressor",
        [rows(1)],
        **forest["nodes"],
        **weights("target", forest, 2),
        n_targets=2,
    )
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    tvmrt.compile(model, dims={"rows": (0, 40)}).export_library(tmp_path / "net.so")
    module = tvmrt.runtime.load_module(str(tmp_path / "net.so"))
    network = tvmrt.contrib.graph_executor.GraphModule(module["default"](tvmrt.cpu(0)))
    for count in (1, 40, 7, 0, 8, 19):
        feeds = {"x0": rows(count)}
        network.set_input("x0", feeds["x0"])
        network.run()
        found = {"y0": network.get_output(0).numpy()}
        assert not differences(found, by_onnxruntime(model, feeds), 1e-5, 1e-6)


def test_nodes_in_a_circle_are_a_sentence():
    model = ensemble(np.float32, nodes_truenodeids=[0, 0, 3, 2, 1])
    with pytest.raises(ValueError, match=r"node \(ai.onnx.ml::TreeEnsemble\): a node is the child"):
        tvmrt.compile(model)

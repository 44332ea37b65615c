"""Where the trees of scikit-learn send missing values, which skl2onnx does not export."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

_TRACKS = "nodes_missing_value_tracks_true"
_ROUNDING = 1e-6  # relative difference of a threshold in float32


def record_missing_values(model: Any, exported: Any) -> bool:
    """Write the branch of missing values into each tree of a network.

    Parameters
    ----------
    model
        A fitted estimator of scikit-learn.
    exported
        Its network, an ``onnx.ModelProto``, which is changed. A tree is that of the estimator with
        equal children of each node and equal thresholds.

    Returns
    -------
    bool
        Whether there are trees, and each of them was found in the estimator.
    """
    fitted: dict[bytes, list[Any]] = defaultdict(list)
    for tree in _trees(model):
        inner = np.flatnonzero(tree.children_left >= 0)
        fitted[_key(inner, tree.children_left[inner], tree.children_right[inner])].append(tree)
    found = [
        _record(node, fitted)
        for node in exported.graph.node
        if any(each.name == "nodes_treeids" for each in node.attribute)
    ]
    return bool(found) and all(found)


def _trees(value: Any, depth: int = 8) -> Iterator[Any]:
    """Yield the trees of a fitted estimator and of the estimators in it."""
    if hasattr(value, "tree_"):
        yield value.tree_
        return
    if hasattr(value, "get_params"):
        value = list(vars(value).values())
    elif isinstance(value, dict):
        value = list(value.values())
    elif isinstance(value, np.ndarray) and value.dtype == object:
        value = value.ravel().tolist()
    if isinstance(value, (list, tuple)) and depth:
        for each in value:
            yield from _trees(each, depth - 1)


def _key(nodes: Any, left: Any, right: Any) -> bytes:
    return np.stack([np.asarray(each, np.int64) for each in (nodes, left, right)]).tobytes()


def _record(node: Any, fitted: dict[bytes, list[Any]]) -> bool:
    """Write the branches of one node of the network. Return whether all of its trees were found."""
    lists = {each.name: each for each in node.attribute}
    names = ("treeids", "nodeids", "truenodeids", "falsenodeids")
    trees, nodes, left, right = (np.array(lists[f"nodes_{name}"].ints) for name in names)
    inner = np.array(lists["nodes_modes"].strings) != b"LEAF"
    if "nodes_values" not in lists or _TRACKS not in lists:  # of float64
        return False
    thresholds, tracks = np.array(lists["nodes_values"].floats), np.array(lists[_TRACKS].ints)
    found = True
    for of_tree in np.split(np.arange(len(trees)), np.flatnonzero(np.diff(trees)) + 1):
        rows = of_tree[inner[of_tree]]
        directions = {
            tree.missing_go_to_left[nodes[rows]].astype(np.int64).tobytes()
            for tree in fitted[_key(nodes[rows], left[rows], right[rows])]
            if hasattr(tree, "missing_go_to_left")
            and np.allclose(tree.threshold[nodes[rows]], thresholds[rows], _ROUNDING, _ROUNDING)
        }
        if len(directions) == 1:
            tracks[rows] = np.frombuffer(directions.pop(), np.int64)
        else:
            found = False
    del lists[_TRACKS].ints[:]
    lists[_TRACKS].ints.extend(tracks.tolist())
    return found

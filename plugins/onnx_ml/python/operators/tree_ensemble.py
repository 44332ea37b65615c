"""TreeEnsemble (ai.onnx.ml version 5), with nodes and leaves in separate lists."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvmrt.compiler.sdk.frontend import NodeContext, onnx_op
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_ml.operators import classifier_outputs
from tvmrt.plugins.onnx_ml.operators.domain import DOMAIN
from tvmrt.plugins.onnx_ml.operators.forest import LEAF, MEMBER, TreeNodes, emit_forest
from tvmrt.plugins.onnx_ml.operators.leaves import LeafValues, leaf_table

_AGGREGATES = ("average", "sum", "min", "max")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


def _ints(ctx: NodeContext, name: str, count: int) -> np.ndarray:
    result = np.asarray(ctx.attr(name) if ctx.attr(name) is not None else [], np.int64).reshape(-1)
    if result.size != count:
        raise ValueError(f"{name} has {result.size} elements, expected {count}")
    return result


def _tensor(ctx: NodeContext, name: str) -> np.ndarray:
    return np.asarray(ctx.attr(name)).reshape(-1)


def _nodes(ctx: NodeContext, leaves: int) -> TreeNodes:
    """Return the nodes followed by the leaves, with shared leaves copied for each parent."""
    thresholds = _tensor(ctx, "nodes_splits")
    count = thresholds.size
    children, ends = [], []
    for side in ("true", "false"):
        child_index = _ints(ctx, f"nodes_{side}nodeids", count)
        end = _ints(ctx, f"nodes_{side}leafs", count).astype(bool)
        if child_index.size and not (
            child_index.min() >= 0 and (child_index < np.where(end, leaves, count)).all()
        ):
            raise ValueError(f"nodes_{side}nodeids has an index of no node or leaf")
        children.append(child_index)
        ends.append(end)
    flags = ctx.attr("nodes_missing_value_tracks_true")
    missing = (
        np.zeros(count, bool)
        if flags is None
        else _ints(ctx, "nodes_missing_value_tracks_true", count).astype(bool)
    )
    roots = np.asarray(ctx.attr("tree_roots"), np.int64)
    if roots.size == 0 or not (0 <= roots.min() and roots.max() < count):
        raise ValueError("tree_roots is empty, or an element is not a node index")
    mode = _tensor(ctx, "nodes_modes").astype(np.int64)
    if mode.size != count or not ((mode >= 0) & (mode <= MEMBER)).all():
        raise ValueError(f"nodes_modes has {mode.size} elements, expected {count} from 0 to 6")
    # a tree with only a leaf is written as a node with the same leaf as both children
    is_single_leaf = ends[0] & ends[1] & (children[0] == children[1])
    nodes = TreeNodes(
        mode=np.where(is_single_leaf, LEAF, mode),
        features=_ints(ctx, "nodes_featureids", count),
        thresholds=thresholds,
        true=children[0],
        false=children[1],
        missing=missing,
        rows=np.where(is_single_leaf, children[0], 0),
        roots=roots,
    )
    return _with_leaves(nodes, ends)


def _with_leaves(nodes: TreeNodes, ends: list[np.ndarray]) -> TreeNodes:
    """Append a separate leaf node for each child that is a leaf."""
    true, false = nodes.true.copy(), nodes.false.copy()
    rows, count = [nodes.rows], nodes.count
    for child, end in zip((true, false), ends):
        here = np.flatnonzero(end & (nodes.mode != LEAF))
        rows.append(child[here])
        child[here] = count + np.arange(here.size)
        count += here.size
    more = count - nodes.count

    def longer(array: np.ndarray, fill: int) -> np.ndarray:
        return np.concatenate([array, np.full(more, fill, array.dtype)])

    return TreeNodes(
        mode=longer(nodes.mode, LEAF),
        features=longer(nodes.features, 0),
        thresholds=longer(nodes.thresholds, 0),
        true=longer(true, 0),
        false=longer(false, 0),
        missing=longer(nodes.missing, 0),
        rows=np.concatenate(rows),
        roots=nodes.roots,
    )


def _members(ctx: NodeContext, mode: np.ndarray) -> list[np.ndarray]:
    """Return the sets of the nodes with mode MEMBER; each set ends with NaN in the attribute."""
    set_count = int((mode == MEMBER).sum())
    if not set_count:
        return []
    values = ctx.attr("membership_values")
    numbers = np.asarray([] if values is None else values).reshape(-1)
    ends = np.flatnonzero(np.isnan(numbers))
    if ends.size != set_count:
        raise ValueError(f"membership_values has {ends.size} sets for {set_count} nodes")
    return [part[~np.isnan(part)] for part in np.split(numbers, ends + 1)[:set_count]]


def _tree_of(nodes: TreeNodes) -> np.ndarray:
    """Return the tree index of each node, 0 for unreachable nodes."""
    trees = nodes.roots.size
    tree, level, number = np.full(nodes.count, -1), nodes.roots, np.arange(trees)
    for _ in range(nodes.count + 1):
        known = tree[level]
        tree[level] = number
        if ((known != -1) & (known != number) | (tree[level] != number)).any():
            raise ValueError("a node belongs to two trees; trees cannot share nodes")
        inner = nodes.mode[level] != LEAF
        if not inner.any():
            return np.maximum(tree, 0)
        children = np.concatenate([nodes.true[level[inner]], nodes.false[level[inner]]])
        pairs = np.unique(children * trees + np.tile(number[inner], 2))
        level, number = pairs // trees, pairs % trees
    raise ValueError("a node is the child of itself; a tree has no cycles")


def _choice(ctx: NodeContext, name: str, default: int, choices: tuple[str, ...]) -> str:
    number = ctx.attr(name, default)
    if not 0 <= number < len(choices):
        raise ValueError(f"{name} is {number}; it must be from 0 to {len(choices) - 1}")
    return choices[number]


@onnx_op("TreeEnsemble", domain=DOMAIN)
def tree_ensemble(ctx: NodeContext) -> Value:
    x = ctx.required(0)
    if not x.dtype.is_float:
        raise UnsupportedError(f"{x.dtype} elements; float32 and float64 are expected")
    weight = _tensor(ctx, "leaf_weights")
    target = _ints(ctx, "leaf_targetids", weight.size)
    outputs = ctx.attr("n_targets") or int(target.max(initial=0)) + 1
    if weight.size == 0 or not (0 <= target.min() and target.max() < outputs):
        raise ValueError(f"leaf_targetids {target.max(initial=0)} is not below n_targets {outputs}")
    aggregate = _choice(ctx, "aggregate_function", 1, _AGGREGATES)
    transform = _choice(ctx, "post_transform", 0, _TRANSFORMS)
    nodes = _nodes(ctx, weight.size)
    members = _members(ctx, _tensor(ctx, "nodes_modes"))
    ends = np.flatnonzero(nodes.mode == LEAF)
    ctx.check_table_size(ends.size, "the leaves' numbers", outputs)
    leaves = LeafValues(ends, target[nodes.rows[ends]], weight[nodes.rows[ends]])
    branch = nodes.mode != LEAF
    values, rows, targets = leaf_table(leaves, branch, _tree_of(nodes), outputs, aggregate)
    nodes = replace(nodes, rows=rows)
    base = np.zeros(outputs)
    scores = emit_forest(ctx, x, nodes, values, targets, base, aggregate, members)
    return classifier_outputs.apply_post_transform(ctx, scores, transform)

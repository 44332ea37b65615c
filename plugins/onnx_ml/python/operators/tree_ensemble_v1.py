"""TreeEnsembleClassifier and TreeEnsembleRegressor, with nodes numbered within their tree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvmrt.compiler.sdk.frontend import NodeContext, onnx_op
from tvmrt.compiler.sdk.graph import LIMIT, Value
from tvmrt.plugins.onnx_ml.operators import classifier_outputs
from tvmrt.plugins.onnx_ml.operators.domain import DOMAIN
from tvmrt.plugins.onnx_ml.operators.forest import LEAF, TreeNodes, emit_forest
from tvmrt.plugins.onnx_ml.operators.leaves import LeafValues, leaf_table

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
_MODE_CODES = {**{mode: i for i, mode in enumerate(_MODES)}, "LEAF": LEAF}


def _floats(ctx: NodeContext, name: str) -> np.ndarray | None:
    """Return an attribute's numbers, given as a list of floats or as a tensor."""
    tensor = ctx.attr(f"{name}_as_tensor")
    found = ctx.attr(name) if tensor is None else tensor
    if found is None:
        return None
    kind = np.float32 if tensor is None else np.asarray(tensor).dtype
    return np.asarray(found, kind).reshape(-1)


def _ints(ctx: NodeContext, name: str, count: int | None = None) -> np.ndarray:
    result = np.asarray(ctx.attr(name) or [], np.int64)
    if count is not None and result.size != count:
        raise ValueError(f"{name} has {result.size} elements, expected {count}")
    return result


class OperandPointers:
    """Index from (tree id, node id) to the position in the list of all nodes."""

    def __init__(self, trees: np.ndarray, nodes: np.ndarray) -> None:
        self.tree_ids = np.unique(trees)
        self.span = int(nodes.max(initial=0)) + 1
        self.tree = np.searchsorted(self.tree_ids, trees)  # tree index of each node
        keys = self._keys(trees, nodes)
        self.order = np.argsort(keys, kind="stable")
        self.sorted = keys[self.order]
        if (self.sorted[1:] == self.sorted[:-1]).any():
            raise ValueError("two nodes of a tree have the same id")

    def _keys(self, trees: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        return np.searchsorted(self.tree_ids, trees) * self.span + nodes

    def lookup(self, trees: np.ndarray, nodes: np.ndarray, what: str) -> np.ndarray:
        keys = self._keys(trees, nodes)
        at = np.minimum(np.searchsorted(self.sorted, keys), self.sorted.size - 1)
        is_valid = np.isin(trees, self.tree_ids) & (nodes >= 0) & (nodes < self.span)
        wrong = ~(is_valid & (self.sorted[at] == keys))
        if wrong.any():
            i = int(np.argmax(wrong))
            raise ValueError(
                f"{what} names node {nodes[i]} of tree {trees[i]}, which does not exist"
            )
        return self.order[at]


def _nodes(ctx: NodeContext) -> tuple[TreeNodes, OperandPointers]:
    trees = _ints(ctx, "nodes_treeids")
    count = trees.size
    own = _ints(ctx, "nodes_nodeids", count)
    if count == 0 or own.min() < 0 or own.max() > LIMIT:
        raise ValueError(f"there are no nodes, or a node id is not from 0 to {LIMIT}")
    modes = ctx.attr("nodes_modes") or []
    unknown = sorted(set(modes) - set(_MODE_CODES))
    if unknown or len(modes) != count:
        raise ValueError(
            f"nodes_modes has {len(modes)} elements, expected {count} of {', '.join(_MODE_CODES)}"
            + (f"; {unknown[0]} is not one of them" if unknown else "")
        )
    mode = np.array([_MODE_CODES[mode] for mode in modes])
    branch = mode != LEAF
    values = _floats(ctx, "nodes_values")
    if values is None or values.size != count:
        raise ValueError(
            f"nodes_values has {0 if values is None else values.size} elements, expected {count}"
        )
    node_index = OperandPointers(trees, own)
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        positions = np.zeros(count, np.int64)
        positions[branch] = node_index.lookup(trees[branch], _ints(ctx, name, count)[branch], name)
        children.append(positions)
    missing = _ints(ctx, "nodes_missing_value_tracks_true")
    nodes = TreeNodes(
        mode=mode,
        features=_ints(ctx, "nodes_featureids", count),
        thresholds=values,
        true=children[0],
        false=children[1],
        missing=missing.astype(bool) if missing.size == count else np.zeros(count, bool),
        rows=np.zeros(count, np.int64),
        roots=_roots(trees, branch, children, node_index.tree_ids),
    )
    return nodes, node_index


def _roots(trees, branch, children, tree_ids) -> np.ndarray:
    """Return each tree's root, the node that is not a child of another."""
    child = np.zeros(trees.size, bool)
    for positions in children:
        child[positions[branch]] = True
    roots = np.flatnonzero(~child)
    roots = roots[np.argsort(trees[roots], kind="stable")]
    if roots.size != tree_ids.size or (trees[roots] != tree_ids).any():
        raise ValueError("a tree has no root or several roots (nodes without a parent)")
    return roots


def _leaves(
    ctx: NodeContext, stem: str, nodes: TreeNodes, node_index: OperandPointers
) -> LeafValues:
    """Return the leaf values; ``stem`` is the prefix of the attributes, class or target."""
    weight = _floats(ctx, f"{stem}_weights")
    weight = np.zeros(0, np.float32) if weight is None else weight
    target = _ints(ctx, f"{stem}_ids", weight.size)
    ids = [_ints(ctx, f"{stem}_{name}", weight.size) for name in ("treeids", "nodeids")]
    node = node_index.lookup(*ids, f"{stem}_nodeids")
    is_leaf = nodes.mode[node] == LEAF
    return LeafValues(node[is_leaf], target[is_leaf], weight[is_leaf])


def _typed_input(ctx: NodeContext, *tables: np.ndarray | None) -> Value:
    """Return the input in the type of comparisons: float64 if it or a table is float64."""
    x = classifier_outputs.to_float(ctx, ctx.required(0))
    is_double = any(table is not None and table.dtype == np.float64 for table in tables)
    return ctx.cast(x, "float64") if is_double else x


def _scores(
    ctx: NodeContext,
    nodes: TreeNodes,
    node_index: OperandPointers,
    leaves: LeafValues,
    outputs: int,
    aggregate: str,
) -> Value:
    """Return the sum of all trees and the base values as float32 [N, outputs]."""
    base = _floats(ctx, "base_values")
    if leaves.target.size and not (0 <= leaves.target.min() and leaves.target.max() < outputs):
        raise ValueError(
            f"a leaf adds to output {leaves.target.max()}, but there are {outputs} outputs"
        )
    ctx.check_table_size(int((nodes.mode == LEAF).sum()), "the leaves' numbers", outputs)
    branch = nodes.mode != LEAF
    values, rows, targets = leaf_table(leaves, branch, node_index.tree, outputs, aggregate)
    start = np.zeros(outputs) if base is None else base
    if start.size != outputs:
        raise ValueError(f"base_values has {start.size} elements, expected {outputs}")
    x = _typed_input(ctx, nodes.thresholds, leaves.weight)
    nodes = replace(nodes, rows=rows)
    return ctx.cast(emit_forest(ctx, x, nodes, values, targets, start, aggregate), "float32")


@onnx_op("TreeEnsembleRegressor", domain=DOMAIN)
def tree_ensemble_regressor(ctx: NodeContext) -> Value:
    nodes, node_index = _nodes(ctx)
    leaves = _leaves(ctx, "target", nodes, node_index)
    outputs = ctx.attr("n_targets") or int(leaves.target.max(initial=0)) + 1
    aggregate = ctx.attr("aggregate_function", "SUM").lower()
    scores = _scores(ctx, nodes, node_index, leaves, outputs, aggregate)
    return classifier_outputs.apply_post_transform(ctx, scores)


@onnx_op("TreeEnsembleClassifier", domain=DOMAIN)
def tree_ensemble_classifier(ctx: NodeContext) -> list[Value]:
    labels = classifier_outputs.parse_labels(ctx, "classlabels_int64s", "classlabels_strings")
    nodes, node_index = _nodes(ctx)
    leaves = _leaves(ctx, "class", nodes, node_index)
    count = labels.ids.size
    if count <= 2 and np.unique(leaves.target).size <= 1:
        one = replace(leaves, target=np.zeros_like(leaves.target))
        p = _scores(ctx, nodes, node_index, one, 1, "sum")
        class_index, scores = _binary_outputs(ctx, p, bool((leaves.weight >= 0).all()))
    else:
        scores = _scores(ctx, nodes, node_index, leaves, count, "sum")
        class_index = classifier_outputs.argmax_class(ctx, scores)
        scores = classifier_outputs.apply_post_transform(ctx, scores)
    return [classifier_outputs.map_to_labels(ctx, class_index, labels), scores]


def _binary_outputs(ctx: NodeContext, p: Value, positive: bool) -> tuple[Value, Value]:
    """Return class indices and scores for two classes from the second class's score. If all
    weights are ``positive``, the score is a probability, unless LOGISTIC still converts it."""
    transform = ctx.attr("post_transform", "NONE")
    positive = positive and transform != "LOGISTIC"
    threshold = ctx.like(0.5 if positive else 0.0, p)
    above = ctx.emit("greater", [ctx.emit("reshape", [p], shape=(p.shape[0],)), threshold])
    class_index = ctx.cast(above, "int64")
    if transform == "PROBIT":
        return class_index, classifier_outputs.apply_post_transform(ctx, p, transform)
    if positive:
        return class_index, classifier_outputs.concat_columns(
            ctx, classifier_outputs.complement(ctx, p), p
        )
    pair = classifier_outputs.concat_columns(ctx, ctx.emit("neg", [p]), p)
    return class_index, classifier_outputs.apply_post_transform(
        ctx, pair, transform if transform == "LOGISTIC" else "NONE"
    )

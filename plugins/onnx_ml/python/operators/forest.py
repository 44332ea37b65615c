"""Conversion of ONNX's trees to the form of the IR operator ``forest``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvmrt.compiler.sdk.frontend import NodeContext
from tvmrt.compiler.sdk.graph import Value, fits_packed_links
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_ml.operators.node_table import TreeNodes
from tvmrt.plugins.onnx_ml.operators.unshare_nodes import copy_shared_nodes, merge_equality_chains

LEQ, LT, GTE, GT, EQ, NEQ, MEMBER, LEAF = range(8)


def sort_nodes(nodes: TreeNodes) -> TreeNodes:
    """Order nodes so that each tree is contiguous, siblings adjacent, and children last."""
    branch = nodes.mode != LEAF
    order = _cache_block_order(nodes, branch)
    moved = np.zeros(nodes.count, np.int64)
    moved[order] = np.arange(order.size)
    true, false = (moved[np.where(branch, ends, 0)[order]] for ends in (nodes.true, nodes.false))
    return nodes.reorder(order, true, false, moved[nodes.roots])


def _cache_block_order(nodes: TreeNodes, branch: np.ndarray) -> np.ndarray:
    """Return the reachable nodes, tree by tree, in blocks of two children and four grandchildren:
    two steps of a traversal stay within one cache line."""
    indices = [nodes.roots]
    trees, blocks, slots = [np.arange(nodes.roots.size)], [np.full(nodes.roots.size, -1)], []
    slots.append(np.zeros(nodes.roots.size, np.int64))
    top, tree = nodes.roots, trees[0]

    def append_children(
        parents: np.ndarray, tree: np.ndarray, block: np.ndarray, slot: np.ndarray
    ) -> tuple:
        """Append both children of each parent; return them with their tree, block and place."""
        inner = branch[parents]
        pair = np.stack([nodes.true[parents[inner]], nodes.false[parents[inner]]], 1)
        both = slot[inner, None] + np.arange(2)
        known = (np.repeat(each[inner], 2) for each in (tree, block))
        result = (pair.reshape(-1), *known, both.reshape(-1))
        for into, array in zip((indices, trees, blocks, slots), result):
            into.append(array)
        return result

    block_count = 0
    while top.size:
        block = block_count + np.arange(top.size)
        block_count += top.size
        pairs = append_children(top, tree, block, np.zeros(top.size, np.int64))
        # children of places 0 and 1 get the places 2, 3 and 4, 5
        lower = append_children(*pairs[:3], 2 + 2 * pairs[3])
        top, tree = lower[0], lower[1]
    order = np.lexsort([np.concatenate(each) for each in (slots, blocks, trees)])
    return np.concatenate(indices)[order]


def _check(nodes: TreeNodes, columns: int) -> None:
    branch = nodes.mode != LEAF
    if not ((nodes.mode >= 0) & (nodes.mode <= LEAF)).all():
        raise ValueError("a node has an unknown mode")
    children = np.concatenate([nodes.true[branch], nodes.false[branch]])
    if children.size and not (0 <= children.min() and children.max() < nodes.count):
        raise ValueError(f"a child index is outside the {nodes.count} nodes")
    read = nodes.features[branch]
    if read.size and not (0 <= read.min() and read.max() < columns):
        wrong = read.max() if read.max() >= columns else read.min()
        raise ValueError(f"a node reads column {wrong}, but the input has {columns}")


def emit_forest(
    ctx: NodeContext,
    x: Value,
    nodes: TreeNodes,
    values: np.ndarray,
    targets: np.ndarray,
    base: np.ndarray,
    aggregate: str,
    members: list[np.ndarray] | None = None,
) -> Value:
    """Emit the trees' outputs for the rows of x, in x's element type.

    ``values`` has a row for each index in ``nodes.rows``; ``targets`` is the first output of each
    tree; ``members`` are the sets of the nodes with mode MEMBER, in node order.
    """
    if len(x.shape) != 2:
        raise UnsupportedError(f"an input of {len(x.shape)} axes; rows of columns are expected")
    _check(nodes, x.shape[1])
    nodes, members = merge_equality_chains(nodes, members or [], (EQ, MEMBER))
    x, nodes = add_equality_columns(ctx, x, nodes, members)
    nodes = sort_nodes(copy_shared_nodes(_convert_to_leq(nodes, x.dtype.numpy), LEAF))
    leaf, here = nodes.mode == LEAF, np.arange(nodes.count)
    left = np.where(leaf, here, nodes.true)
    result = x.dtype.name
    if not fits_packed_links(nodes.features, left, x.dtype.bits):
        x = ctx.cast(x, "float64")  # float64 holds wider links; no comparison changes
    kind = x.dtype.numpy
    scores = ctx.emit(
        "forest",
        [
            x,
            ctx.const(np.where(leaf, 0, nodes.thresholds), kind),
            ctx.const(np.where(leaf, 0, nodes.features), np.int32),
            ctx.const(left, np.int32),
            ctx.const(~leaf & nodes.missing),
            ctx.const(np.where(leaf, nodes.rows, 0), np.int32),
            ctx.const(nodes.roots, np.int32),
            ctx.const(targets, np.int32),
            ctx.const(values, kind),
            ctx.const(base, kind),
        ],
        aggregate=aggregate,
    )
    return ctx.cast(scores, result)


def _convert_to_leq(nodes: TreeNodes, kind: np.dtype) -> TreeNodes:
    """Convert all comparisons to LEQ: x < t is x <= the float before t; for x >= t and x > t the
    branches are swapped."""
    thresholds = nodes.thresholds.astype(kind)
    strict, swapped = np.isin(nodes.mode, (LT, GTE)), np.isin(nodes.mode, (GTE, GT))
    return replace(
        nodes,
        mode=np.where(nodes.mode == LEAF, LEAF, LEQ),
        thresholds=np.where(strict, _next_below(thresholds), thresholds),
        true=np.where(swapped, nodes.false, nodes.true),
        false=np.where(swapped, nodes.true, nodes.false),
        missing=nodes.missing != swapped,
    )


def _next_below(numbers: np.ndarray) -> np.ndarray:
    """Return the next smaller floats, and NaN for -infinity: no number is less than it."""
    with np.errstate(all="ignore"):
        least = np.asarray(-np.inf, numbers.dtype)
        nan = np.asarray(np.nan, numbers.dtype)
        return np.where(numbers == least, nan, np.nextafter(numbers, least))


def add_equality_columns(
    ctx: NodeContext, x: Value, nodes: TreeNodes, members: list[np.ndarray]
) -> tuple[Value, TreeNodes]:
    """Append a column with 0 or 1 to x for each test of equality or set membership; return nodes
    that read these columns instead."""
    tested = np.flatnonzero(np.isin(nodes.mode, (EQ, NEQ, MEMBER)))
    if not tested.size:
        return x, nodes
    sets = iter(members)
    tests: dict[tuple, int] = {}
    column = np.empty(tested.size, np.int64)
    for i, node in enumerate(tested):
        mode = nodes.mode[node]
        numbers = next(sets) if mode == MEMBER else nodes.thresholds[node : node + 1]
        missing = bool(nodes.missing[node]) and mode != NEQ
        key = (int(nodes.features[node]), missing, *np.unique(numbers).tolist())
        column[i] = tests.setdefault(key, len(tests))
    mode, features = nodes.mode.copy(), nodes.features.copy()
    thresholds, missing = nodes.thresholds.copy(), nodes.missing.copy()
    true, false = nodes.true.copy(), nodes.false.copy()
    is_equality = np.isin(nodes.mode, (EQ, MEMBER))
    mode[tested], thresholds[tested], missing[tested] = LEQ, 0.5, False
    features[tested] = x.shape[1] + column
    # a column <= 0.5 means not equal
    true[is_equality], false[is_equality] = nodes.false[is_equality], nodes.true[is_equality]
    columns = _equal_columns(ctx, x, list(tests))
    changed = replace(
        nodes,
        mode=mode,
        features=features,
        thresholds=thresholds,
        missing=missing,
        true=true,
        false=false,
    )
    return ctx.emit("concat", [x, columns], axis=1), changed


def _equal_columns(ctx: NodeContext, x: Value, tests: list[tuple]) -> Value:
    """Return a column per test (feature, NaN matches, numbers...): 1 if any number is equal."""
    numbers = [(i, number) for i, test in enumerate(tests) for number in test[2:]]
    test_indices = np.array([i for i, _ in numbers], np.int32)
    features = np.array([tests[i][0] for i in test_indices], np.int64)
    compared = np.array([number for _, number in numbers], x.dtype.numpy)
    read = ctx.emit("gather", [x, ctx.const(features)], axis=1)
    equal = ctx.emit("equal", [read, ctx.const(compared[None])])
    missing = np.array([tests[i][1] for i in test_indices])
    if missing.any():
        nan = ctx.emit("logical_and", [ctx.emit("is_nan", [read]), ctx.const(missing[None])])
        equal = ctx.emit("logical_or", [equal, nan])
    columns = ctx.cast(equal, x.dtype.name)
    if len(numbers) == len(tests):
        return columns
    return ctx.emit("sum_into", [columns, ctx.const(test_indices)], size=len(tests))

"""Conversion of node graphs with shared children to trees. Exporters write a category set as a
chain of equality tests that share one true branch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tvmrt.plugins.onnx_ml.operators.node_table import TreeNodes

_MAX_NODES = 1 << 22


def merge_equality_chains(
    nodes: TreeNodes, members: list[np.ndarray], modes: tuple[int, int]
) -> tuple[TreeNodes, list[np.ndarray]]:
    """Return the nodes with each chain of equality tests as one set test, and all sets in order.

    ``members`` are the sets of existing set tests. ``modes`` are the modes of a test with one
    number and of a set test. NaN takes a chain's true branch if it does in any of its tests.
    """
    equality_mode, set_mode = modes
    follows = _followers(nodes, equality_mode)
    sets = dict(zip(np.flatnonzero(nodes.mode == set_mode).tolist(), members))
    mode, false, missing = nodes.mode.copy(), nodes.false.copy(), nodes.missing.copy()
    chained = np.flatnonzero(follows >= 0)
    for head in np.setdiff1d(chained, follows[chained]).tolist():
        chain = [head]
        while follows[chain[-1]] >= 0:
            chain.append(int(follows[chain[-1]]))
        mode[head], false[head] = set_mode, nodes.false[chain[-1]]
        missing[head] = nodes.missing[chain].any()
        sets[head] = nodes.thresholds[chain]
    # the remaining tests of a chain are unreachable now
    mode[follows[chained]] = modes[0]
    changed = replace(nodes, mode=mode, false=false, missing=missing)
    return changed, [sets[node] for node in sorted(sets)]


def _followers(nodes: TreeNodes, equality_mode: int) -> np.ndarray:
    """Return each node's next equality test in a chain, or -1. Both tests have the same feature
    and the same true branch, and the second one has no other parent."""
    compares = nodes.mode == equality_mode
    here = np.flatnonzero(compares)
    successor = nodes.false[here]
    uses = np.bincount(np.concatenate([nodes.true, nodes.false]), minlength=nodes.count)
    uses[nodes.roots] += 1
    continues = (
        compares[successor]
        & (nodes.features[successor] == nodes.features[here])
        & (nodes.true[successor] == nodes.true[here])
        & (uses[successor] == 1)
    )
    follows = np.full(nodes.count, -1)
    follows[here[continues]] = successor[continues]
    return follows


def copy_shared_nodes(nodes: TreeNodes, leaf: int) -> TreeNodes:
    """Return equivalent trees in which a node with several parents is copied for each of them.

    Raises ValueError for a cycle, and if there would be too many nodes.
    """
    branch = nodes.mode != leaf
    children = np.concatenate([nodes.true[branch], nodes.false[branch], nodes.roots])
    if np.unique(children).size == children.size:
        return nodes
    level, count = nodes.roots, nodes.roots.size
    found, lefts = [], []
    for _ in range(nodes.count + 1):
        inner = branch[level]
        found.append(level)
        lefts.append(np.where(inner, count + 2 * (np.cumsum(inner) - 1), 0))
        parents = level[inner]
        level = np.stack([nodes.true[parents], nodes.false[parents]], 1).reshape(-1)
        count += level.size
        if not level.size or count > _MAX_NODES:
            break
    if level.size:
        raise ValueError(
            "a node is the child of itself, or of so many that there would be more than "
            f"{_MAX_NODES} nodes if each had its own; export the model with trees"
        )
    order, left = np.concatenate(found), np.concatenate(lefts)
    false = np.where(branch[order], left + 1, 0)
    return nodes.reorder(order, left, false, np.arange(nodes.roots.size))

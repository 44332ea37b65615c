"""Operator fusion: group nodes into functions.

Every node other than a view is in exactly one group, and the groups' order is valid. A group has
one value that others read (kernels may have several if nothing is fused after them). Whether a
kernel can take a given epilogue is not checked here; the builder checks and splits.
"""

from __future__ import annotations

from tvmrt.compiler.ir import POINTWISE, REDUCE, VIEW, Graph, Node, Value, get_op
from tvmrt.compiler.ir.program import Group
from tvmrt.compiler.ir.value_users import ValueUsers

MAX_NODES = 48  # longer chains spill registers and are hard to read


def _kind(node: Node) -> str:
    return get_op(node.op).kind


def form_groups(graph: Graph, takes_epilogue, can_fuse, fuses_only_pointwise) -> list[Group]:
    """Return groups in execution order; each view is a group of its own.

    ``takes_epilogue(node)`` returns whether nodes may be fused after a kernel. ``can_fuse(node,
    inside)`` returns whether a node may be fused after these nodes, the first of which is the
    kernel. ``fuses_only_pointwise(node)`` returns whether a pointwise node may be fused only with
    pointwise nodes.
    """
    readers = ValueUsers(graph)
    position = {node: i for i, node in enumerate(graph.nodes)}
    group_of: dict[Node, Group] = {}
    groups: list[Group] = []

    for node in graph.nodes:
        if node in group_of or _kind(node) in (VIEW, POINTWISE):
            continue
        group = Group(node)
        if _kind(node) == REDUCE or takes_epilogue(node):
            group.after = _epilogue_nodes(node, readers, group_of, can_fuse, position)
        _add_group(group, group_of, groups)
    for node in reversed(graph.nodes):
        if node in group_of or _kind(node) != POINTWISE:
            continue
        _add_group(Group(node, _producer_nodes(node, readers, group_of)), group_of, groups)
    for group in groups:
        # groups absorbed by a reduction have no root
        if group.root is not None and _kind(group.root) == REDUCE:
            _absorb_producers(group, readers, group_of, fuses_only_pointwise)
    for node in graph.nodes:
        if _kind(node) == VIEW:
            _add_group(Group(node), group_of, groups)
    return _execution_order([g for g in groups if g.root is not None], position, group_of)


def _add_group(group: Group, group_of: dict[Node, Group], groups: list[Group]) -> None:
    for node in group.nodes:
        group_of[node] = group
    groups.append(group)


def _epilogue_nodes(root: Node, readers: ValueUsers, group_of, can_fuse, position) -> list[Node]:
    """Return the pointwise nodes to fuse after a root: they use its output and nothing later.

    They are the longest prefix with exactly one value that the rest of the graph reads.
    """
    if len(root.outputs) != 1:
        return []
    shape = root.output.shape
    fused: list[Node] = [root]
    best: list[Node] = []
    frontier = [root.output]
    while len(fused) < MAX_NODES:
        candidates = [
            n
            for v in frontier
            for n in readers.of(v)
            if n not in fused
            and n not in group_of
            and _can_join(n, shape, fused, can_fuse, position)
        ]
        if not candidates:
            break
        fused.append(candidates[0])
        frontier.append(candidates[0].output)
        if len(_live_out(fused, readers)) == 1:
            best = fused[1:]
    if best and _live_out([root, *best], readers) != [best[-1].output]:
        return []
    return _without_widening(root, best, readers)


def _without_widening(root: Node, after: list[Node], readers: ValueUsers) -> list[Node]:
    """Return the nodes up to the narrowest value if a reduction of integers reads the last one: it
    computes the others itself, and less is stored between the two."""
    reader = readers.only(after[-1].output) if after else None
    if reader is None or _kind(reader) != REDUCE or after[-1].output.dtype.is_float:
        return after
    width, kept = after[-1].output.dtype.itemsize, len(after)
    for count in reversed(range(len(after))):
        last = (root, *after)[count].output
        single = _live_out([root, *after[:count]], readers) == [last]
        if single and last.dtype.itemsize < width:
            width, kept = last.dtype.itemsize, count
    return after[:kept]


def _can_join(node: Node, shape, fused: list[Node], can_fuse, position) -> bool:
    root = fused[0]
    if not can_fuse(node, fused) or node.output.shape != shape or node.guard != root.guard:
        return False
    if any(v.dtype.is_packed for v in (*node.operands(), *node.outputs)):
        return False  # kernels do not write parts of bytes
    computed = {v for n in fused for v in n.outputs}
    return all(
        v in computed or v.is_constant or not _depends(v, root, position) for v in node.inputs
    )


def _depends(value: Value, root: Node, position) -> bool:
    """Return whether ``value`` depends on the root; earlier nodes are not searched."""
    seen: set[Node] = set()
    stack = [value.producer]
    while stack:
        node = stack.pop()
        if node is None or node in seen or position[node] < position[root]:
            continue
        if node is root:
            return True
        seen.add(node)
        stack += [v.producer for v in node.operands()]
    return False


def _live_out(nodes: list[Node], readers: ValueUsers) -> list[Value]:
    fused = set(nodes)
    return [v for n in nodes for v in n.outputs if not readers.all_within(v, fused)]


def _producer_nodes(root: Node, readers: ValueUsers, group_of) -> list[Node]:
    """Return the pointwise nodes of the root's shape that only its group reads, in order."""
    group, shape = [root], root.output.shape
    absorbed: list[Node] = []
    changed = True
    while changed and len(group) < MAX_NODES:
        changed = False
        for node in list(group):
            for value in node.inputs:
                p = None if value is None else value.producer
                if p is None or p in group or p in group_of:
                    continue
                if _kind(p) != POINTWISE or value.shape != shape or p.guard != root.guard:
                    continue
                if readers.all_within(value, group):
                    group.append(p)
                    absorbed.append(p)
                    changed = True
    return _topological(absorbed)


def _absorb_producers(group: Group, readers: ValueUsers, group_of, fuses_only_pointwise) -> None:
    """Fuse the pointwise producers of a reduction into its loop."""
    root = group.root
    for value in root.inputs:
        p = None if value is None else value.producer
        if p is None or _kind(p) != POINTWISE or p.guard != root.guard:
            continue
        other = group_of.get(p)
        if other is None or other is group or other.root is not p or other.after:
            continue
        if any(map(fuses_only_pointwise, other.nodes)):
            continue
        if readers.all_within(value, [root]) and value.shape == root.inputs[0].shape:
            group.before += other.nodes
            for node in other.nodes:
                group_of[node] = group
            other.root = None  # type: ignore[assignment]


def _topological(nodes: list[Node]) -> list[Node]:
    members, done, order = set(nodes), set(), []

    def visit(node: Node) -> None:
        if node in done:
            return
        done.add(node)
        for value in node.inputs:
            if value is not None and value.producer in members:
                visit(value.producer)
        order.append(node)

    for node in nodes:
        visit(node)
    return order


def _execution_order(groups: list[Group], position, group_of) -> list[Group]:
    """Sort groups depth-first by position, so that each follows the groups that it reads."""
    done: set[int] = set()
    order: list[Group] = []
    for first in sorted(groups, key=lambda g: max(position[n] for n in g.nodes)):
        stack = [(first, False)]
        while stack:
            group, expanded = stack.pop()
            if id(group) in done:
                continue
            if expanded:
                done.add(id(group))
                order.append(group)
                continue
            stack.append((group, True))
            needed = [v for n in group.nodes for v in n.operands()]
            for value in reversed(needed):
                other = None if value.producer is None else group_of[value.producer]
                if other is not None and other is not group and id(other) not in done:
                    stack.append((other, False))
    return order

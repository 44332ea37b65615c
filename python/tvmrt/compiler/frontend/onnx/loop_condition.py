"""Trip counts of loops with a counting condition: linear functions of the iteration number, which
may depend on a run, and conditions that depend on constants only. Exporters from TensorFlow write
every loop like this, including those of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import onnx

from tvmrt.compiler.frontend.dims import MAX_DIM
from tvmrt.compiler.frontend.size_propagation import cast_to, leaf
from tvmrt.compiler.ir import DTYPES, Node, TensorType, Trait, Value
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import Extent, SymInt, as_extent, lower_bound, substitute
from tvmrt.compiler.ir.value_users import comparison_of
from tvmrt.error import UnsupportedError

from .context import NodeContext
from .structured_loop import StructuredLoop
from .tensors import captured_names, subgraphs

_EXACT = ("int32", "int64", "float32", "float64")  # types in which trip counts are exact
_MAX_NODES = 64  # maximum number of body nodes to evaluate per iteration
_MAX_COUNTER_ELEMENTS = 16  # maximum size of a counter
_MAX_COUNT = 1 << 30


class _Linear(NamedTuple):
    """The number ``first + step * iteration``."""

    first: SymInt
    step: int


def with_trip_count(loop: StructuredLoop) -> StructuredLoop:
    """Return a Loop with a trip count instead of its counting condition, if it has one."""
    trip_count = _trip_count(loop)
    if trip_count is None:
        return loop
    limit = loop.limit
    if trip_count != loop.trip_count:
        limit = loop.ctx.integer_tensor(np.asarray(trip_count, object))
    return replace(loop, trip_count=trip_count, limit=limit, go=None, has_condition=False)


def _trip_count(loop: StructuredLoop) -> SymInt | None:
    """Return the trip count of a loop with a counting condition; None for any other loop."""
    if loop.go is not None and loop.go.data is not None and not loop.go.data.any():
        return 0
    limit, before = loop.trip_count, _distances(loop.ctx, loop.go)
    after = _linear_results(loop, 0, lambda v: _distances(loop.ctx, v))
    if before is None or after is None:
        return None
    if limit is not None:
        # a shrinking distance is smallest before the last iteration
        last = [each.first + each.step * (0 if each.step >= 0 else limit - 2) for each in after]
        if _starts(before, limit) and all(lower_bound(each) > 0 for each in last):
            return limit
    shrinking = [each for each in after if each.step < 0]
    if not shrinking or any(lower_bound(each.first) <= 0 for each in after if each.step >= 0):
        return None
    # it ends after the first iteration that makes a distance 0 or less
    ends = [ceil_div(first, -step) + 1 for first, step in shrinking]
    is_endless = loop.limit is None or (isinstance(limit, int) and limit >= MAX_DIM)
    is_known = all(isinstance(n, int) for n in ends) and (is_endless or isinstance(limit, int))
    if is_known and _starts(before, 1):
        return min(max(min(ends), 1), MAX_DIM if limit is None else max(limit, 0))
    if len(ends) > 1 or not is_endless:
        return None
    (trip_count,) = ends
    if lower_bound(trip_count) >= 1 and _starts(before, 1):
        return trip_count
    # with a trip count of 0, the condition before the loop must be false
    is_step = shrinking[0].step == -1 and lower_bound(trip_count) == 0
    return trip_count if is_step and before == [trip_count] else None


def _starts(before: Sequence[SymInt], trip_count: SymInt) -> bool:
    """Whether the condition before a loop is known to hold if the loop has any iterations."""
    return all(lower_bound(d + 1 - trip_count) > 0 or lower_bound(d) > 0 for d in before)


def _distances(ctx: NodeContext, condition: Value | None) -> list[SymInt] | None:
    """Return a number for each comparison that a condition consists of; the condition holds if all
    are positive. None if it consists of anything else."""
    if condition is None or condition.data is not None:
        return [] if condition is None or condition.data.all() else None
    node = condition.producer
    if node is not None and (node.op == "logical_and" or _forwards(node)):
        parts = [_distances(ctx, each) for each in node.inputs]
        return None if None in parts else [each for part in parts for each in part]
    comparison = comparison_of(node)
    if comparison is None:
        return None
    small, great = _number(ctx, comparison.small), _number(ctx, comparison.great)
    return None if small is None or great is None else [great - small + comparison.or_equal]


def _number(ctx: NodeContext, value: object) -> SymInt | None:
    """Return a tensor of one integer, also in another type, if it follows from sizes."""
    if not isinstance(value, Value):
        return None
    elements = ctx.importer.sizes.elements(value) if value.type.size == 1 else None
    exact = None if elements is None else elements.item().exact
    if exact is not None:
        return as_extent(exact.value) if exact.is_whole else None
    node = value.producer
    is_copy = node is not None and _forwards(node) and value.dtype.name in _EXACT
    return _number(ctx, node.inputs[0]) if is_copy else None


def _forwards(node: Node) -> bool:
    """Return whether a node returns its scalar, possibly in another type."""
    return node.has(Trait.CONVERTS, Trait.REARRANGES)


# One iteration on symbols.


def induction_variables(loop: StructuredLoop, number: SymInt) -> dict[int, SymInt]:
    """Return the loop-carried values that are extents in each iteration, by index. ``number``: the
    iteration number."""
    result: dict[int, SymInt] = {}
    for index, value in enumerate(loop.carried):
        if isinstance(value, Value) and value.dtype.is_int:
            after = _linear_results(loop, index + 1, lambda v: [_number(loop.ctx, v)])
            if after is not None and after[0].step:
                result[index] = after[0].first + after[0].step * (number - 1)
    return result


def _linear_results(
    loop: StructuredLoop,
    index: int,
    measure: Callable[[Value | None], Sequence[SymInt | None] | None],
) -> list[_Linear] | None:
    """Return numbers that ``measure`` finds in a result of the body, which are linear functions of
    the iteration number; None if that depends on more than sizes, the iteration number, and
    loop-carried values that grow by a constant step."""
    ctx, dims = loop.ctx, loop.ctx.importer.dims
    part, read = _slice_body(loop, index)
    if part is None:
        return None
    number, *symbols = (
        dims.declare_symbol(dims.unique_name(f"{ctx.name}_counter"), -_MAX_COUNT, _MAX_COUNT, None)
        for _ in (None, *read)
    )
    values: list[Value | None] = [None] * len(loop.carried)
    for i, symbol in zip(read, symbols):
        values[i] = _counter(ctx, loop.carried[i].type, symbol)
    with ctx.importer.separate_graph("counting"):
        iteration = _counter(ctx, TensorType((), DTYPES["int64"]), number)
        try:
            results = replace(loop, body=part).iteration(iteration, values)
        except (UnsupportedError, ValueError):
            return None
    places: dict[str, SymInt] = {}
    for i, symbol in zip(read, symbols):
        first, after = _number(ctx, loop.carried[i]), _number(ctx, results[1 + i])
        step = None if after is None else after - symbol
        if first is None or not isinstance(step, int):
            return None
        places[_name(symbol)] = first + step * number
    found, linear = measure(results[index]), []
    if found is None or None in found:
        return None
    for each in found:
        inside = substitute(each, places)
        first, second = (substitute(inside, {_name(number): i}) for i in (0, 1))
        step = second - first
        if not isinstance(step, int) or inside != first + step * number:
            return None
        linear.append(_Linear(first, step))
    return linear


def _name(symbol: Extent) -> str:
    return next(iter(symbol.symbols())).name


def _counter(ctx: NodeContext, type: TensorType, number: Extent) -> Value:
    """Return a tensor of one number that is a symbol."""
    value = Value("counter", type)
    expr = cast_to(leaf(number), type.dtype.name)
    ctx.importer.sizes.expressions[value] = np.full(type.shape, expr, object)
    return value


def _slice_body(loop: StructuredLoop, index: int) -> tuple[onnx.GraphProto | None, list[int]]:
    """Return the part of the body that computes a result, and the indices of the loop-carried
    values that it reads; None if it depends on more than known values and the iteration number, or
    on nothing."""
    body, scope, carried = loop.body, loop.ctx.scope, loop.carried
    producer_index = {key: i for i, node in enumerate(body.node) for key in node.output}
    input_index = {info.name: i for i, info in enumerate(body.input)}
    inside = {tensor.name for tensor in body.initializer}
    pending, taken, read = [body.output[index].name], set(), set()
    for name in pending:  # the list grows in the loop
        more: list[str] = []
        if name in producer_index:
            node = body.node[producer_index[name]]
            if any(True for _ in subgraphs(node)):
                return None, []
            taken.add(producer_index[name])
            more = list(node.input)
        elif name in input_index:
            read.add(input_index[name])
            if input_index[name] > 1:
                more = [body.output[input_index[name] - 1].name]
        elif name and name not in inside and not _is_known(loop.ctx, scope.get(name)):
            return None, []
        pending += [key for key in dict.fromkeys(more) if key not in pending]
        if len(taken) > _MAX_NODES:
            return None, []
    indices = sorted(i - 2 for i in read if i > 1)
    if not read - {1} or not all(_is_known(loop.ctx, carried[i]) for i in indices):
        return None, []
    part = onnx.GraphProto(name=body.name)
    part.node.extend(body.node[i] for i in sorted(taken))
    read_inside = set(captured_names(part))
    part.initializer.extend(t for t in body.initializer if t.name in read_inside)
    part.input.extend(body.input)
    part.output.extend(body.output[: len(body.input) - 1])
    return part, indices


def _is_known(ctx: NodeContext, value: object) -> bool:
    """Return whether a value is a small constant or follows from sizes."""
    if isinstance(value, Value) and value.data is not None:
        return value.data.size <= _MAX_COUNTER_ELEMENTS
    return _number(ctx, value) is not None

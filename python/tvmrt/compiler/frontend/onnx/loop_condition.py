"""Trip counts of loops with a counting condition: linear functions of the iteration number, which
may depend on a run, and conditions that depend on constants only. Exporters from TensorFlow write
every loop like this, including those of recurrent layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import onnx
from onnx import helper

from tvmrt.compiler.frontend.dims import MAX_DIM
from tvmrt.compiler.frontend.size_propagation import cast_to, leaf
from tvmrt.compiler.ir import DTYPES, Node, TensorType, Trait, Value
from tvmrt.compiler.ir.limits import MAX_UNROLLED_ITERATIONS
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import Extent, SymInt, as_extent, lower_bound
from tvmrt.compiler.ir.value_users import comparison_of
from tvmrt.error import UnsupportedError

from .context import NodeContext
from .outline_subgraph import captured_names
from .tensors import subgraphs

_EXACT = ("int32", "int64", "float32", "float64")  # types in which trip counts are exact
_MAX_NODES = 64  # maximum number of body nodes to evaluate per iteration
_MAX_COUNTER_ELEMENTS = 16  # maximum size of a counter
_MAX_COUNT = 1 << 30


class _Linear(NamedTuple):
    """The number ``first + step * iteration``."""

    first: SymInt
    step: int


def infer_trip_count(ctx: NodeContext) -> None:
    """Replace the counting condition of a Loop by a trip count."""
    body = ctx.attr("body")
    if len(body.input) < 2 or len(body.output) < len(body.input) - 1:
        return  # the importer reports the error
    if ctx.input(0) is not None and not ctx.is_computed(0):
        limit = ctx.int_operand(0, "the trip count")
        if limit and _runs_to_trip_count(ctx, body, limit[0]):
            ctx.inputs[:2] = [ctx.input(0), None]
            ctx.set_attr("body", _without_condition(body))
            return
    counting, _ = _slice_body(ctx, body, ctx.inputs[2:], 0, _is_small_constant)
    trip_count: SymInt | None = None if counting is None else _evaluate_trip_count(ctx, counting)
    if trip_count is None and _is_unlimited(ctx.input(0)):
        trip_count = _linear_trip_count(ctx, body)
    if trip_count is not None:
        ctx.inputs[:2] = [ctx.integer_tensor(np.asarray(trip_count, object)), None]
        ctx.set_attr("body", _without_condition(body))


def _is_unlimited(limit: Value | None) -> bool:
    """Return whether a trip count operand means an unlimited number of iterations."""
    return limit is None or (limit.data is not None and bool((limit.data >= MAX_DIM).all()))


def _runs_to_trip_count(ctx: NodeContext, body: onnx.GraphProto, trip_count: SymInt) -> bool:
    """Whether the condition is known to hold before the first iteration, if there is one, and after
    each but the last of ``trip_count`` iterations."""
    if not _holds_before_loop(ctx, trip_count):
        return False
    # a shrinking distance is smallest before the last iteration
    distances = _distances_in_loop(ctx, body)
    return distances is not None and all(
        lower_bound(each.first + each.step * (0 if each.step >= 0 else trip_count - 2)) > 0
        for each in distances
    )


def _linear_trip_count(ctx: NodeContext, body: onnx.GraphProto) -> SymInt | None:
    """Return the trip count of a loop whose condition compares a linear function of the iteration
    number with a size; None for any other loop."""
    distances = _distances_in_loop(ctx, body)
    if distances is None or len(distances) != 1 or distances[0].step >= 0:
        return None
    # it ends after the first iteration that makes the distance 0 or less
    ((first, step),) = distances
    trip_count = ceil_div(first, -step) + 1
    if lower_bound(trip_count) >= 1 and _holds_before_loop(ctx, 1):
        return trip_count
    # with a trip count of 0, the condition before the loop must be false
    is_guarded = step == -1 and lower_bound(trip_count) == 0
    return trip_count if is_guarded and _distances(ctx, ctx.input(1)) == [trip_count] else None


def _holds_before_loop(ctx: NodeContext, trip_count: SymInt) -> bool:
    """Whether the condition before the loop is known to hold if the loop has any iterations."""
    distances = _distances(ctx, ctx.input(1))
    return distances is not None and all(
        lower_bound(each + 1 - trip_count) > 0 or lower_bound(each) > 0 for each in distances
    )


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


class _Iteration(NamedTuple):
    """A result of a body in an iteration, whose number is the symbol ``number``. ``counters``: the
    loop-carried values that it depends on, by index, and the names of their symbols."""

    result: Value | None
    number: Extent
    counters: dict[int, tuple[str, _Linear]]

    def at(self, value: SymInt, number: SymInt) -> SymInt:
        """Return a value that depends on the symbols, in the iteration ``number``."""
        values = {name: first + step * number for name, (first, step) in self.counters.values()}
        values |= {symbol.name: number for symbol in self.number.symbols()}
        return value.substitute(values) if isinstance(value, Extent) else value


def induction_variables(
    ctx: NodeContext, body: onnx.GraphProto, carried: Sequence[Value], number: SymInt
) -> dict[int, SymInt]:
    """Return the loop-carried values that are extents in each iteration, by index. ``number``: the
    iteration number."""
    result: dict[int, SymInt] = {}
    for index, value in enumerate(carried):
        found = _iterate(ctx, body, carried, index + 1) if value.dtype.is_int else None
        if found is not None and found.counters[index][1].step:
            first, step = found.counters[index][1]
            result[index] = first + step * number
    return result


def _distances_in_loop(ctx: NodeContext, body: onnx.GraphProto) -> list[_Linear] | None:
    """Return the numbers of ``_distances`` for the condition after an iteration."""
    found = _iterate(ctx, body, ctx.inputs[2:], 0)
    distances = None if found is None or found.result is None else _distances(ctx, found.result)
    if found is None or distances is None:
        return None
    result = []
    for each in distances:
        first = found.at(each, 0)
        step = found.at(each, 1) - first
        if not isinstance(step, int) or found.at(each, found.number) != first + step * found.number:
            return None
        result.append(_Linear(first, step))
    return result


def _iterate(
    ctx: NodeContext, body: onnx.GraphProto, carried: Sequence[object], index: int
) -> _Iteration | None:
    """Import the part of a body that computes a result; None if that depends on more than sizes,
    the iteration number, and loop-carried values that grow by a constant step."""

    def is_known(value: object) -> bool:
        return _is_small_constant(value) or _number(ctx, value) is not None

    part, read = _slice_body(ctx, body, carried, index, is_known)
    if part is None:
        return None
    importer = ctx.importer
    names, symbols = [], []
    for _ in (None, *read):
        names.append(importer.dims.unique_name(f"{ctx.name}_counter"))
        symbols.append(importer.dims.declare_symbol(names[-1], -_MAX_COUNT, _MAX_COUNT, None))
    with importer.separate_graph("counting"):
        inputs = [None] * len(body.input)
        inputs[0] = _counter(ctx, TensorType((), DTYPES["int64"]), symbols[0])
        inputs[1] = importer.builder.const(True)
        for i, symbol in zip(read, symbols[1:]):
            inputs[2 + i] = _counter(ctx, carried[i].type, symbol)
        try:
            results = importer.import_branch(part, ctx.scope, inputs=inputs)
        except (UnsupportedError, ValueError):
            return None
    counters = {}
    for i, name, symbol in zip(read, names[1:], symbols[1:]):
        first, after = _number(ctx, carried[i]), _number(ctx, results[1 + i])
        step = None if after is None else after - symbol
        if first is None or not isinstance(step, int):
            return None
        counters[i] = (name, _Linear(first, step))
    return _Iteration(results[index], symbols[0], counters)


def _counter(ctx: NodeContext, type: TensorType, number: Extent) -> Value:
    """Return a tensor of one number that is a symbol."""
    value = Value("counter", type)
    if type.dtype.is_int:
        ctx.extents[value] = np.full(type.shape, number, object)
    else:
        expr = cast_to(leaf(number), type.dtype.name)
        ctx.importer.sizes.expressions[value] = np.full(type.shape, expr, object)
    return value


def _slice_body(
    ctx: NodeContext,
    body: onnx.GraphProto,
    carried: Sequence[object],
    index: int,
    is_known: Callable[[object], bool],
) -> tuple[onnx.GraphProto | None, list[int]]:
    """Return the part of the body that computes a result, and the indices of the loop-carried
    values that it reads; None if it depends on more than known values and the iteration number, or
    on nothing."""
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
        elif name and name not in inside and not is_known(ctx.scope.get(name)):
            return None, []
        pending += [key for key in dict.fromkeys(more) if key not in pending]
        if len(taken) > _MAX_NODES:
            return None, []
    indices = sorted(i - 2 for i in read if i > 1)
    if not read - {1} or not all(is_known(carried[i]) for i in indices):
        return None, []
    part = onnx.GraphProto(name=body.name)
    part.node.extend(body.node[i] for i in sorted(taken))
    read_inside = set(captured_names(part, False))
    part.initializer.extend(t for t in body.initializer if t.name in read_inside)
    part.input.extend(body.input)
    part.output.extend(body.output[: len(body.input) - 1])
    return part, indices


def _is_small_constant(value: object) -> bool:
    return (
        isinstance(value, Value)
        and value.data is not None
        and value.data.size <= _MAX_COUNTER_ELEMENTS
    )


def _evaluate_trip_count(ctx: NodeContext, body: onnx.GraphProto) -> int | None:
    """Return the trip count by evaluation; None if it is unknown."""
    limit, condition = ctx.input(0), ctx.input(1)
    if any(v is not None and (v.data is None or v.data.size != 1) for v in (limit, condition)):
        return None
    importer = ctx.importer
    max_trip_count = MAX_UNROLLED_ITERATIONS + 1 if limit is None else int(limit.data.item())
    with importer.separate_graph("counting"):
        carried_values, go = list(ctx.inputs[2:]), condition is None or bool(condition.data.item())
        number = 0
        while go and number < min(max_trip_count, MAX_UNROLLED_ITERATIONS + 1):
            inputs = [importer.builder.const(number), importer.builder.const(True), *carried_values]
            verdict, *carried_values = importer.import_branch(body, ctx.scope, inputs=inputs)
            if verdict is None or verdict.data is None or verdict.data.size != 1:
                return None
            number, go = number + 1, bool(verdict.data.item())
        return number if number <= MAX_UNROLLED_ITERATIONS else None


def _without_condition(body: onnx.GraphProto) -> onnx.GraphProto:
    """Return the body with a constant true condition."""
    result = onnx.GraphProto()
    result.CopyFrom(body)
    always = f"{result.output[0].name}_always"
    result.initializer.append(helper.make_tensor(always, onnx.TensorProto.BOOL, [], [True]))
    result.output[0].name = always
    return result

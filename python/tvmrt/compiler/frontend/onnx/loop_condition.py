"""Trip counts of loops with a counting condition: linear functions of the iteration number, which
may depend on a run, and conditions that depend on constants only. Exporters from TensorFlow write
every loop like this, including those of recurrent layers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from onnx import helper

from tvmrt.compiler.frontend.dims import MAX_DIM
from tvmrt.compiler.ir import Node, Trait, Value
from tvmrt.compiler.ir.limits import MAX_UNROLLED_ITERATIONS
from tvmrt.compiler.ir.rounding import ceil_div
from tvmrt.compiler.ir.sizes import SymInt, as_extent, lower_bound
from tvmrt.compiler.ir.value_users import comparison_of
from tvmrt.compiler.operator_key import operator_name

from .context import NodeContext
from .outline_subgraph import captured_names
from .tensors import array_of, constant_tensor, subgraphs

_EXACT = ("int32", "int64", "float32", "float64")  # types in which trip counts are exact
_VALUE_PRESERVING = ("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape")  # for one element
_COMPARISONS = {"Less": (0, 1, 0), "Greater": (1, 0, 0), "LessOrEqual": (0, 1, 1)}
_COMPARISONS["GreaterOrEqual"] = (1, 0, 1)


@dataclass(frozen=True)
class _LinearFunction:
    """The number ``first + step * iteration``."""

    first: SymInt
    step: int


def runs_to_trip_count(ctx: NodeContext, body: onnx.GraphProto, trip_count: SymInt) -> bool:
    """Whether the condition is known to hold before the first iteration, if there is one, and after
    each but the last of ``trip_count`` iterations."""
    functions = _LinearFunctions(ctx, body, trip_count)
    return functions.holds_before_loop(ctx.input(1)) and functions.holds_in_loop(
        body.output[0].name
    )


def linear_trip_count(ctx: NodeContext, body: onnx.GraphProto) -> SymInt | None:
    """Return the trip count of a loop whose condition compares a linear function of the iteration
    number with a size; None for any other loop."""
    functions = _LinearFunctions(ctx, body, 1)
    distance = functions.distance(body.output[0].name)
    if distance is None or distance.step >= 0:
        return None
    # it ends after the first iteration that makes the distance 0 or less
    trip_count = ceil_div(distance.first, -distance.step) + 1
    if lower_bound(trip_count) >= 1 and functions.holds_before_loop(ctx.input(1)):
        return trip_count
    # with a trip count of 0, the condition before the loop must be false
    is_guarded = distance.step == -1 and lower_bound(trip_count) == 0
    return (
        trip_count if is_guarded and functions.distance_before(ctx.input(1)) == trip_count else None
    )


def induction_variables(
    ctx: NodeContext,
    body: onnx.GraphProto,
    carried: Sequence[Value],
    trip_count: SymInt,
    number: SymInt,
) -> dict[int, SymInt]:
    """Return the loop-carried values that are extents in each iteration, by index. ``number``: the
    iteration number."""
    functions = _LinearFunctions(ctx, body, trip_count, carried)
    result = {}
    for index, (info, value) in enumerate(zip(body.input[2:], carried)):
        function = functions.found[info.name]
        if function is not None and function.step and value.dtype.is_int:
            result[index] = function.first + function.step * number
    return result


class _LinearFunctions:
    """Linear functions of the iteration number in a body, by name."""

    def __init__(
        self,
        ctx: NodeContext,
        body: onnx.GraphProto,
        trip_count: SymInt,
        carried: Sequence[object] | None = None,
    ) -> None:
        self.trip_count = trip_count
        carried = ctx.inputs[2:] if carried is None else carried
        self.extents: Mapping[Value, np.ndarray] = ctx.extents
        self.scope: Mapping[str, Value | None] = ctx.scope
        self.producers = {node.output[0]: node for node in body.node if node.output}
        self.initializers = {t.name: t for t in body.initializer}
        self.found: dict[str, _LinearFunction | None] = {body.input[0].name: _LinearFunction(0, 1)}
        for info, result, start in zip(body.input[2:], body.output[1:], carried):
            self.found[info.name] = self._induction_variable(info.name, result.name, start)

    def holds_before_loop(self, condition: Value | None) -> bool:
        if condition is None or condition.data is not None:
            return condition is None or bool(condition.data.all())
        node = condition.producer
        if node is not None and (node.op == "logical_and" or _forwards(node)):
            return all(self.holds_before_loop(each) for each in node.inputs)
        distance = self.distance_before(condition)
        if distance is None:
            return False
        # if the loop has any iterations, the condition holds before it
        return lower_bound(distance + 1 - self.trip_count) > 0 or lower_bound(distance) > 0

    def distance_before(self, condition: Value | None) -> SymInt | None:
        """Return a number that is positive if a comparison before the loop holds."""
        node = None if condition is None else condition.producer
        while node is not None and _forwards(node):
            node = node.inputs[0].producer
        comparison = comparison_of(node)
        if comparison is None:
            return None
        small, great = self._known(comparison.small), self._known(comparison.great)
        if small is None or great is None:
            return None
        return great.first - small.first + comparison.or_equal

    def holds_in_loop(self, name: str, depth: int = 16) -> bool:
        node = self.producers.get(name)
        if node is None or not depth:
            return False
        if operator_name(node) == "And":
            return all(self.holds_in_loop(each, depth - 1) for each in node.input)
        if operator_name(node) in ("Identity", "Cast"):
            return self.holds_in_loop(node.input[0], depth - 1)
        distance = self.distance(name)
        if distance is None:
            return False
        # a shrinking distance is smallest before the last iteration
        at: SymInt = 0 if distance.step >= 0 else self.trip_count - 2
        return lower_bound(distance.first + distance.step * at) > 0

    def distance(self, name: str, depth: int = 16) -> _LinearFunction | None:
        """Return a number that is positive after an iteration if a comparison holds."""
        node = self.producers.get(name)
        if node is not None and operator_name(node) in ("Identity", "Cast") and depth:
            return self.distance(node.input[0], depth - 1)
        if node is None or operator_name(node) not in _COMPARISONS:
            return None
        low, high, more = _COMPARISONS[operator_name(node)]
        small, great = self.linear_function(node.input[low]), self.linear_function(node.input[high])
        if small is None or great is None:
            return None
        return _LinearFunction(great.first - small.first + more, great.step - small.step)

    def linear_function(self, name: str, depth: int = 16) -> _LinearFunction | None:
        """Return the linear function of a name; None if it is not known to be one."""
        if name in self.found or not depth:
            return self.found.get(name)
        node = self.producers.get(name)
        if node is None:
            return self._constant(name)
        if operator_name(node) in _VALUE_PRESERVING and _preserves_value(node):
            return self.linear_function(node.input[0], depth - 1)
        if operator_name(node) == "Constant":
            return _constant_tensor(constant_tensor(node))
        if operator_name(node) == "CastLike":
            function = self.linear_function(node.input[0], depth - 1)
            small = function is not None and function.step == 0 and function.first in range(128)
            return function if small else None  # integers below 128 exist in each type but bool
        if operator_name(node) not in ("Add", "Sub"):
            return None
        a, b = (self.linear_function(each, depth - 1) for each in node.input)
        if a is None or b is None:
            return None
        sign = 1 if operator_name(node) == "Add" else -1
        return _LinearFunction(a.first + sign * b.first, a.step + sign * b.step)

    def _constant(self, name: str) -> _LinearFunction | None:
        if name in self.initializers:
            return _constant_tensor(self.initializers[name])
        value = self.scope.get(name)
        return self._known(value) if isinstance(value, Value) else None

    def _known(self, value: Value) -> _LinearFunction | None:
        while value.data is None and value not in self.extents:
            node = value.producer
            if node is None or not _forwards(node):
                return None
            if value.dtype.name not in _EXACT:
                return None
            value = node.inputs[0]
        elements = self.extents.get(value)
        return _constant_function(value.data if elements is None else elements)

    def _induction_variable(self, name: str, result: str, start: object) -> _LinearFunction | None:
        """Return a loop-carried value that is constant or grows by a constant step."""
        node = self.producers.get(result)
        while (
            node is not None
            and operator_name(node) in ("Identity", "Cast")
            and _preserves_value(node)
        ):
            result = node.input[0]
            node = self.producers.get(result)
        first = self._known(start) if isinstance(start, Value) else None
        if first is not None and result == name:
            return first
        if first is None or node is None or operator_name(node) != "Add" or name not in node.input:
            return None
        steps = [self.linear_function(each) for each in node.input if each != name]
        if len(steps) != 1 or steps[0] is None or steps[0].step:
            return None
        if not isinstance(steps[0].first, int):
            return None
        return _LinearFunction(first.first, steps[0].first)


def _constant_tensor(tensor: onnx.TensorProto | None) -> _LinearFunction | None:
    """Return a loop-invariant integer; None for anything else."""
    if tensor is None or prod(tensor.dims) != 1 or tensor.data_type == onnx.TensorProto.STRING:
        return None
    return _constant_function(array_of(tensor))


def _forwards(node: Node) -> bool:
    """Return whether a node returns its scalar, possibly in another type."""
    return node.has(Trait.CONVERTS, Trait.REARRANGES)


def _preserves_value(node: onnx.NodeProto) -> bool:
    """Return whether the node preserves its operand's value."""
    to = [helper.get_attribute_value(a) for a in node.attribute if a.name == "to"]
    return all(helper.tensor_dtype_to_np_dtype(each).name in _EXACT for each in to)


def _constant_function(data: np.ndarray | None) -> _LinearFunction | None:
    """Return a loop-invariant integer."""
    if data is None or data.size != 1:
        return None
    number = data.reshape(-1)[0]
    if data.dtype != object and (not np.isfinite(number) or number != int(number)):
        return None
    return _LinearFunction(as_extent(int(number) if data.dtype != object else number), 0)


_MAX_NODES = 64  # maximum number of body nodes to evaluate per iteration
_MAX_COUNTER_ELEMENTS = 16  # maximum size of a counter


def infer_trip_count(ctx: NodeContext) -> None:
    """Replace the counting condition of a Loop by a trip count."""
    body = ctx.attr("body")
    if len(body.input) < 2 or len(body.output) < len(body.input) - 1:
        return  # the importer reports the error
    if ctx.input(0) is not None and not ctx.is_computed(0):
        limit = ctx.int_operand(0, "the trip count")
        if limit and runs_to_trip_count(ctx, body, limit[0]):
            ctx.inputs[:2] = [ctx.input(0), None]
            ctx.set_attr("body", _without_condition(body))
            return
    counting = _condition_subgraph(ctx, body)
    trip_count: SymInt | None = None if counting is None else _evaluate_trip_count(ctx, counting)
    if trip_count is None and _is_unlimited(ctx.input(0)):
        trip_count = linear_trip_count(ctx, body)
    if trip_count is not None:
        ctx.inputs[:2] = [ctx.integer_tensor(np.asarray(trip_count, object)), None]
        ctx.set_attr("body", _without_condition(body))


def _is_unlimited(limit: Value | None) -> bool:
    """Return whether a trip count operand means an unlimited number of iterations."""
    return limit is None or (limit.data is not None and bool((limit.data >= MAX_DIM).all()))


def _condition_subgraph(ctx: NodeContext, body: onnx.GraphProto) -> onnx.GraphProto | None:
    """Return the part of the body that computes the condition; None if it depends on more than
    constants and the iteration number, or on nothing."""
    producer_index = {key: i for i, node in enumerate(body.node) for key in node.output}
    input_index = {info.name: i for i, info in enumerate(body.input)}
    inside = {tensor.name for tensor in body.initializer}
    pending, taken, read = [body.output[0].name], set(), set()
    for name in pending:  # the list grows in the loop
        more: list[str] = []
        if name in producer_index:
            node = body.node[producer_index[name]]
            if any(True for _ in subgraphs(node)):
                return None
            taken.add(producer_index[name])
            more = list(node.input)
        elif name in input_index:
            read.add(input_index[name])
            if input_index[name] > 1:
                more = [body.output[input_index[name] - 1].name]
        elif name and name not in inside and not _is_small_constant(ctx.scope.get(name)):
            return None
        pending += [key for key in dict.fromkeys(more) if key not in pending]
        if len(taken) > _MAX_NODES:
            return None
    carried = sorted(i for i in read if i > 1)
    if not read - {1} or not all(_is_small_constant(ctx.input(i)) for i in carried):
        return None
    part = onnx.GraphProto(name=body.name)
    part.node.extend(body.node[i] for i in sorted(taken))
    read_inside = set(captured_names(part, False))
    part.initializer.extend(t for t in body.initializer if t.name in read_inside)
    part.input.extend(body.input)
    part.output.extend(body.output[: len(body.input) - 1])
    return part


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

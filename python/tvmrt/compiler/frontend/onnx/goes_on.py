"""Loop conditions that compare linear functions of the iteration number. They decide whether a Loop
always runs to its trip count, which may depend on a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.extent import SymInt, as_extent, lower_bound
from tvmrt.compiler.ir.rounding import ceil_div

from .context import NodeContext
from .tensors import array_of

_EXACT = ("int32", "int64", "float32", "float64")  # types in which trip counts are exact
_SAME = ("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape")  # value-preserving for one element
_COMPARED = {"Less": (0, 1, 0), "Greater": (1, 0, 0), "LessOrEqual": (0, 1, 1)}
_COMPARED["GreaterOrEqual"] = (1, 0, 1)


@dataclass(frozen=True)
class _Line:
    """The number ``first + step * iteration``."""

    first: SymInt
    step: int


def goes_on(ctx: NodeContext, body: onnx.GraphProto, rounds: SymInt) -> bool:
    """Whether the condition is known to hold before the first iteration, if there is one, and after
    each but the last of ``rounds`` iterations."""
    lines = _Lines(ctx, body, rounds)
    return lines.begins(ctx.input(1)) and lines.holds(body.output[0].name)


def counted_rounds(ctx: NodeContext, body: onnx.GraphProto) -> SymInt | None:
    """Return the trip count of a loop whose condition compares a linear function of the iteration
    number with a size; None for any other loop."""
    lines = _Lines(ctx, body, 1)
    distance = lines.distance(body.output[0].name)
    if distance is None or distance.step >= 0:
        return None
    # it ends after the first iteration that makes the distance 0 or less
    rounds = ceil_div(distance.first, -distance.step) + 1
    if lower_bound(rounds) >= 1 and lines.begins(ctx.input(1)):
        return rounds
    # with a trip count of 0, the condition before the loop must be false
    is_guarded = distance.step == -1 and lower_bound(rounds) == 0
    return rounds if is_guarded and lines.distance_before(ctx.input(1)) == rounds else None


def induction_variables(
    ctx: NodeContext,
    body: onnx.GraphProto,
    carried: Sequence[Value],
    rounds: SymInt,
    number: SymInt,
) -> dict[int, SymInt]:
    """Return the loop-carried values that are extents in each iteration, by index. ``number``: the
    iteration number."""
    lines = _Lines(ctx, body, rounds, carried)
    found = {}
    for place, (info, value) in enumerate(zip(body.input[2:], carried)):
        line = lines.found[info.name]
        if line is not None and line.step and value.dtype.is_int:
            found[place] = line.first + line.step * number
    return found


class _Lines:
    """Linear functions of the iteration number in a body, by name."""

    def __init__(
        self,
        ctx: NodeContext,
        body: onnx.GraphProto,
        rounds: SymInt,
        carried: Sequence[object] | None = None,
    ) -> None:
        self.rounds = rounds
        carried = ctx.inputs[2:] if carried is None else carried
        self.extents: Mapping[Value, np.ndarray] = ctx.importer.extents
        self.scope: Mapping[str, Value | None] = ctx.scope
        self.makers = {node.output[0]: node for node in body.node if node.output}
        self.tables = {t.name: t for t in body.initializer}
        self.found: dict[str, _Line | None] = {body.input[0].name: _Line(0, 1)}
        for info, result, start in zip(body.input[2:], body.output[1:], carried):
            self.found[info.name] = self._growing(info.name, result.name, start)

    def begins(self, condition: Value | None) -> bool:
        if condition is None or condition.data is not None:
            return condition is None or bool(condition.data.all())
        node = condition.producer
        if node is not None and node.op in ("logical_and", "cast", "reshape", "identity"):
            return all(self.begins(each) for each in node.inputs)
        apart = self.distance_before(condition)
        if apart is None:
            return False
        # if the loop has any iterations, the condition holds before it
        return lower_bound(apart + 1 - self.rounds) > 0 or lower_bound(apart) > 0

    def distance_before(self, condition: Value | None) -> SymInt | None:
        """Return a number that is positive if a comparison before the loop holds."""
        node = None if condition is None else condition.producer
        while node is not None and node.op in ("cast", "reshape", "identity"):
            node = node.inputs[0].producer
        if node is None or node.op not in ("less", "less_equal", "greater", "greater_equal"):
            return None
        pair = node.inputs[:: 1 if node.op.startswith("less") else -1]
        small, great = (self._known(v) for v in pair)
        if small is None or great is None:
            return None
        return great.first - small.first + node.op.endswith("_equal")

    def holds(self, name: str, depth: int = 16) -> bool:
        node = self.makers.get(name)
        if node is None or not depth:
            return False
        if node.op_type == "And":
            return all(self.holds(each, depth - 1) for each in node.input)
        if node.op_type in ("Identity", "Cast"):
            return self.holds(node.input[0], depth - 1)
        distance = self.distance(name)
        if distance is None:
            return False
        # a shrinking distance is smallest before the last iteration
        at: SymInt = 0 if distance.step >= 0 else self.rounds - 2
        return lower_bound(distance.first + distance.step * at) > 0

    def distance(self, name: str, depth: int = 16) -> _Line | None:
        """Return a number that is positive after an iteration if a comparison holds."""
        node = self.makers.get(name)
        if node is not None and node.op_type in ("Identity", "Cast") and depth:
            return self.distance(node.input[0], depth - 1)
        if node is None or node.op_type not in _COMPARED:
            return None
        low, high, more = _COMPARED[node.op_type]
        small, great = self.line(node.input[low]), self.line(node.input[high])
        if small is None or great is None:
            return None
        return _Line(great.first - small.first + more, great.step - small.step)

    def line(self, name: str, depth: int = 16) -> _Line | None:
        """Return the linear function of a name; None if it is not known to be one."""
        if name in self.found or not depth:
            return self.found.get(name)
        node = self.makers.get(name)
        if node is None:
            return self._constant(name)
        if node.op_type in _SAME and _exact(node):
            return self.line(node.input[0], depth - 1)
        if node.op_type == "Constant":
            return _constant_node(node)
        if node.op_type == "CastLike":
            found = self.line(node.input[0], depth - 1)
            small = found is not None and found.step == 0 and found.first in range(128)
            return found if small else None  # integers below 128 exist in each type but bool
        if node.op_type not in ("Add", "Sub"):
            return None
        a, b = (self.line(each, depth - 1) for each in node.input)
        if a is None or b is None:
            return None
        sign = 1 if node.op_type == "Add" else -1
        return _Line(a.first + sign * b.first, a.step + sign * b.step)

    def _constant(self, name: str) -> _Line | None:
        if name in self.tables:
            return _flat(array_of(self.tables[name]))
        value = self.scope.get(name)
        return self._known(value) if isinstance(value, Value) else None

    def _known(self, value: Value) -> _Line | None:
        while value.data is None and value not in self.extents:
            node = value.producer
            if node is None or node.op not in ("cast", "reshape", "identity"):
                return None
            if value.dtype.name not in _EXACT:
                return None
            value = node.inputs[0]
        found = self.extents.get(value)
        return _flat(value.data if found is None else found)

    def _growing(self, name: str, result: str, start: object) -> _Line | None:
        """Return a loop-carried value that is constant or grows by a constant step."""
        node = self.makers.get(result)
        while node is not None and node.op_type in ("Identity", "Cast") and _exact(node):
            result = node.input[0]
            node = self.makers.get(result)
        first = self._known(start) if isinstance(start, Value) else None
        if first is not None and result == name:
            return first
        if first is None or node is None or node.op_type != "Add" or name not in node.input:
            return None
        steps = [self.line(each) for each in node.input if each != name]
        if len(steps) != 1 or steps[0] is None or steps[0].step:
            return None
        if not isinstance(steps[0].first, int):
            return None
        return _Line(first.first, steps[0].first)


def _constant_node(node: onnx.NodeProto) -> _Line | None:
    value = helper.get_attribute_value(node.attribute[0])
    if node.attribute[0].name == "value":
        return _flat(array_of(value))
    numbers = node.attribute[0].name in ("value_int", "value_ints", "value_float")
    return _flat(np.asarray(value)) if numbers else None


def _exact(node: onnx.NodeProto) -> bool:
    """Whether the node preserves its operand's value."""
    to = [helper.get_attribute_value(a) for a in node.attribute if a.name == "to"]
    return all(helper.tensor_dtype_to_np_dtype(each).name in _EXACT for each in to)


def _flat(data: np.ndarray | None) -> _Line | None:
    """Return a loop-invariant integer."""
    if data is None or data.size != 1:
        return None
    number = data.reshape(-1)[0]
    if data.dtype != object and (not np.isfinite(number) or number != int(number)):
        return None
    return _Line(as_extent(int(number) if data.dtype != object else number), 0)

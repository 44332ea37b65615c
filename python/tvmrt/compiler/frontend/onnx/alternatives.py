"""Values with two alternatives of different rank, one of which is chosen at run time.

The nodes that read such a value are imported for each alternative until their results have equal
ranks: a Reshape, a reduction or a broadcast makes one value of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes import SymInt, lower_bound, substitute, symbols_of
from tvmrt.error import UnsupportedError

from .conditionals import guards, leave_out, require_side, select_any_rank
from .context import NodeContext
from .import_state import Checkpoint, ImportState
from .sequence_values import Alternatives, OnnxValue
from .tensors import captured_names, subgraphs

Results = Sequence["OnnxValue | None"]


def first_alternatives(
    node: onnx.NodeProto, inputs: Sequence[OnnxValue | None], scope: Mapping[str, Any]
) -> Alternatives | None:
    """Return the first such value that a node, or a graph inside of it, reads."""
    inner = [scope.get(name) for graph in subgraphs(node) for name in captured_names(graph)]
    return next((v for v in (*inputs, *inner) if isinstance(v, Alternatives)), None)


def import_alternatives(ctx: NodeContext, found: Alternatives) -> Results:
    """Import a node for both alternatives of a value that it reads, and return its results.

    An alternative that is invalid for the node is left out; runs that take it fail.
    """
    importer = ctx.importer
    sides: list[Results] = []
    for taken, guard in zip((True, False), guards(ctx, found.condition)):
        scope = {name: _pick_side(value, found, taken) for name, value in ctx.scope.items()}
        start = Checkpoint(importer)
        with ctx.builder.guarded((guard, True)):
            try:
                importer.import_nodes([ctx.node], scope)
                results = [scope[key] if key else None for key in ctx.node.output]
                problem = "; ".join(start.problems)
            except ValueError as error:
                results, problem = (), str(error)
        if problem:
            if not taken and not sides:
                raise ValueError(problem)
            start.undo()
            leave_out(ctx, found, taken, problem, _incompatible(found, taken))
            continue
        sides.append(results)
    if len(sides) == 1:
        return sides[0]
    return [_merge_results(ctx, found, *pair) for pair in zip(*sides)]


def _merge_results(
    ctx: NodeContext, found: Alternatives, yes: OnnxValue | None, no: OnnxValue | None
) -> OnnxValue | None:
    """Return one value for a result of both alternatives, or a pair of alternatives."""
    if found.extent is not None and isinstance(yes, Value) and isinstance(no, Value):
        at_one = tuple(_substitute_one(n, found.extent) for n in no.shape)
        if yes.dtype == no.dtype and yes.shape == at_one and yes.shape != no.shape:
            return _select(ctx, found, yes, no)
    result = select_any_rank(ctx, found.condition, yes, no, found.name)
    if isinstance(result, Alternatives) and result.condition is found.condition:
        return replace(result, extent=found.extent)
    return result


def _select(ctx: NodeContext, found: Alternatives, yes: Value, no: Value) -> Value:
    """Return one value of two that have equally many elements if the condition holds."""
    return ctx.emit("choice", [found.condition, yes, no], shape=tuple(no.shape))


def _substitute_one(value: SymInt, extent: SymInt) -> SymInt:
    """Return the value of an extent if another extent is 1; unchanged if it is unrelated."""
    return substitute(value, {s.name: 1 for s in symbols_of(extent) if s.extent == extent})


def _drop_axis(ctx: NodeContext, x: Value, axis: int) -> Value:
    """Return x without an axis that has one element whenever this branch runs."""
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    if lower_bound(x.shape[axis]) > 0:
        return ctx.reshape(ctx.slice_axis(x, axis, 0, 1), shape)
    return ctx.with_shape(x, shape)


def _nested_alternatives(onnx_value: Any) -> Iterator[Alternatives]:
    """Yield all alternatives in a value, including nested ones."""
    if isinstance(onnx_value, Alternatives):
        yield onnx_value
        yield from (*_nested_alternatives(onnx_value.yes), *_nested_alternatives(onnx_value.no))


def squeeze_dynamic(ctx: NodeContext, x: Value, axes: Sequence[int]) -> OnnxValue:
    """Remove those axes of x that have one element, which depends on the sizes of a run."""
    existing = (each for value in ctx.scope.values() for each in _nested_alternatives(value))
    conditions = {each.extent: each.condition for each in existing if each.extent is not None}
    with ctx.builder.guarded(None):
        for axis in axes:
            extent = x.shape[axis]
            if extent not in conditions:
                number = ctx.integer_tensor(np.asarray(extent, object))
                conditions[extent] = ctx.emit("equal", [number, ctx.const(np.asarray(1, np.int64))])
    return _squeeze(ctx, x, axes, conditions)


def _squeeze(
    ctx: NodeContext, x: Value, axes: Sequence[int], conditions: Mapping[SymInt, Value]
) -> OnnxValue:
    if not axes:
        return x
    axis, later = axes[0], [d - 1 for d in axes[1:]]
    condition = conditions[x.shape[axis]]
    sides: list[OnnxValue] = []
    for taken, guard in zip((True, False), guards(ctx, condition)):
        with ctx.builder.guarded((guard, True)):
            side, remaining = (_drop_axis(ctx, x, axis), later) if taken else (x, axes[1:])
            sides.append(_squeeze(ctx, side, remaining, conditions))
    return Alternatives(ctx.name, condition, sides[0], sides[1], x.shape[axis])


def _pick_side(value: Any, found: Alternatives, taken: bool) -> Any:
    """Return one alternative of a value, also if the choice is nested in another one."""
    if not isinstance(value, Alternatives):
        return value
    if value.condition is found.condition:
        return value.yes if taken else value.no
    yes, no = (_pick_side(each, found, taken) for each in (value.yes, value.no))
    unchanged = yes is value.yes and no is value.no
    return value if unchanged else replace(value, yes=yes, no=no)


def _incompatible(found: Alternatives, taken: bool) -> str:
    return f"its {found.side(taken)} is incompatible with its consumers"


def select_output(importer: ImportState, info: onnx.ValueInfoProto, found: Alternatives) -> Value:
    """Return the alternative whose rank equals the declared rank of a network output."""
    tensor = info.type.tensor_type
    rank = len(tensor.shape.dim) if tensor.HasField("shape") else None
    importer.builder.sources, importer.builder.guard = (info.name,), None
    node = onnx.NodeProto(name=found.name, op_type=found.op)
    ctx = NodeContext(node, found.name, [], 1, importer)
    result = _with_all_axes(ctx, found)
    if result is not None and result.type.rank == rank:
        return result
    sides = ((True, found.yes), (False, found.no))
    fitting = [
        (taken, side) for taken, side in sides if isinstance(side, Value) and side.type.rank == rank
    ]
    if len(fitting) != 1:
        shapes = " or ".join(dict.fromkeys(str(value.type) for value in _values(found)))
        raise UnsupportedError(
            f"output {info.name} is {shapes}, depending on the {found.decider} of node "
            f"{found.name} at run time; an output has one rank: declare the shape of the "
            f"output{found.remedy}"
        )
    taken, side = fitting[0]
    require_side(ctx, found, taken, _incompatible(found, not taken))
    return side


def _values(onnx_value: OnnxValue) -> list[Value]:
    if isinstance(onnx_value, Alternatives):
        return [*_values(onnx_value.yes), *_values(onnx_value.no)]
    return [onnx_value] if isinstance(onnx_value, Value) else []


def _with_all_axes(ctx: NodeContext, onnx_value: OnnxValue) -> Value | None:
    """Return the value with all axes that a Squeeze may remove; None if an If decides."""
    if not isinstance(onnx_value, Alternatives):
        return onnx_value if isinstance(onnx_value, Value) else None
    if onnx_value.extent is None:
        return None
    sides = []
    for side, guard in zip((onnx_value.yes, onnx_value.no), guards(ctx, onnx_value.condition)):
        with ctx.builder.guarded((guard, True)):
            sides.append(_with_all_axes(ctx, side))
    yes, no = sides
    if (
        yes is None
        or no is None
        or _substitute_one(no.type.size, onnx_value.extent) != yes.type.size
    ):
        return None
    return _select(ctx, onnx_value, yes, no)

"""Loops: with few iterations of known number they are unrolled, else they become loop operators,
see ``tvmrt.compiler.ir.loop``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tvmrt.compiler.frontend.context import OperatorContext
from tvmrt.compiler.ir import DTYPES, TensorType, Value
from tvmrt.compiler.ir.limits import MAX_UNROLLED_ITERATIONS as MAX_UNROLLED
from tvmrt.compiler.ir.loop import Growth
from tvmrt.compiler.ir.op import normalize_axis
from tvmrt.compiler.ir.sizes import (
    INT_MAX,
    Extent,
    SymInt,
    data_dependent_symbols,
    is_unbounded,
    lower_bound,
    symbols_of,
    upper_bound,
)
from tvmrt.compiler.ir.sizes.undecided import UndecidedExtent
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option

from .context import NodeContext
from .dynamic_sizes import max_value
from .import_state import Checkpoint
from .legalize_types import retype
from .loop_carried_shapes import body_types, changing_axes, limit, reshape_results
from .loop_condition import induction_variables, with_trip_count
from .outline_subgraph import OutlinedGraph, outline_subgraph
from .registry import onnx_op
from .sequence_values import AppendedSequence, OnnxValue, StackedSequence, TensorList
from .sequences import extend_sequence, move_axis, stack_iterations
from .structured_loop import StructuredLoop, unroll, unroll_with_guards
from .tensor_expressions import TensorExpr

MAX_ALWAYS_UNROLLED = 8  # maximum trip count that is always unrolled
ATTEMPTS = 4  # maximum number of imports to find shapes that hold in every iteration
MAX_TRIP_COUNT = 1 << 24  # a larger trip count means an unlimited number of iterations

INT64 = TensorType((), DTYPES["int64"])

Step = Callable[[list[Value], list[Value]], tuple[list[Value], list[Value]]]


@onnx_op("Loop")
def import_loop(ctx: NodeContext) -> list[OnnxValue | None]:
    body, carried = ctx.attr("body"), ctx.inputs[2:]
    stacked = len(body.output) - 1 - len(carried)
    if len(body.input) != 2 + len(carried) or stacked < 0:
        raise ValueError(
            f"its body has {len(body.input)} inputs and {len(body.output)} outputs; it carries "
            f"{len(carried)} values"
        )
    limit = None if ctx.is_computed(0) else ctx.int_operand(0, "the trip count")
    loop = StructuredLoop(
        ctx,
        body,
        carried,
        limit[0] if limit else None,
        stacked=[(0, False)] * stacked,
        limit=ctx.input(0),
        go=ctx.input(1),
        is_numbered=True,
        has_condition=True,
    )
    lengths = [ctx.importer.request.sequences.get(name) or 0 for name in ctx.node.output]
    return _unroll_or_loop(with_trip_count(loop), max(lengths))


@onnx_op("Scan")
def import_scan(ctx: NodeContext) -> list[OnnxValue | None]:
    if ctx.opset >= 9:
        return _scan(ctx, ctx.inputs)
    # in opset 8 the batch is the first axis of operands
    if ctx.input(0) is not None:
        raise UnsupportedError(
            "the batch elements have different scan lengths; convert the model to opset 9"
        )
    count = ctx.required(1).shape[0]
    if not isinstance(count, int) or count < 1:
        raise UnsupportedError(
            f"Scan of opset 8 over a batch of {count!r}; fix it with {option('shapes')}"
        )
    ctx.check_table_size(count, "the batch")
    results = []
    for index in range(count):
        results.append(_scan(ctx, [v and ctx.element(v, 0, index) for v in ctx.inputs[1:]]))
    return [stack_iterations(ctx, values, 0) for values in zip(*results)]


def _scan(ctx: NodeContext, inputs: Sequence[Value | None]) -> list[OnnxValue | None]:
    body, first = ctx.attr("body"), len(inputs) - ctx.attr("num_scan_inputs")
    none = [0] * (len(inputs) + len(body.output))
    axes = ctx.attr("scan_input_axes", none)
    axes = [normalize_axis(a, len(v.shape)) for a, v in zip(axes, inputs[first:])]
    backward = ctx.attr("scan_input_directions", ctx.attr("directions", none))
    sliced = list(zip(inputs[first:], axes, backward))
    stacked = zip(ctx.attr("scan_output_axes", none), ctx.attr("scan_output_directions", none))
    stacked = list(stacked)[: len(body.output) - first]
    trip_count = inputs[first].shape[axes[0]]
    return _unroll_or_loop(
        StructuredLoop(ctx, body, list(inputs[:first]), trip_count, sliced, stacked)
    )


def scan_steps(
    ctx: OperatorContext,
    step: Step,
    carried: Sequence[Value],
    sliced: Sequence[Value],
    count: int,
    backward: bool = False,
    unrolled: bool | None = None,
) -> tuple[list[Value], list[Value]]:
    """Apply ``step`` to the slices of tensors along their first axis, in order. It takes the
    loop-carried values and slices, and returns new loop-carried values and ``count`` results.
    Return the last loop-carried values, and the results of all steps, stacked along a new first
    axis. ``backward``: the last slice comes first. By default few steps are ``unrolled``.

    ``step`` may be called several times; other values that it uses must be constants."""

    def body(values: list[Value]) -> list[Value | None]:
        made, results = step(values[: len(carried)], values[len(carried) :])
        return [None, *made, *results]

    slices = [(v, 0, backward) for v in sliced]
    trip_count, stacked = sliced[0].shape[0], [(0, backward)] * count
    loop = StructuredLoop(ctx, body, list(carried), trip_count, slices, stacked)
    run = _unroll_or_loop if unrolled is None else (unroll if unrolled else emit_loop)
    results = run(loop)
    return results[: len(carried)], results[len(carried) :]


def _unroll_or_loop(loop: StructuredLoop, max_length: int = 0) -> list[OnnxValue | None]:
    """Unroll a loop with few iterations, else emit a loop operator. If that is unsupported, unroll
    it up to its trip count, or up to ``max_length`` iterations with guards."""
    count, ways = loop.trip_count, [emit_loop]
    if isinstance(count, int) and count <= MAX_UNROLLED:
        ways.insert(0 if count <= MAX_ALWAYS_UNROLLED else 1, unroll)
    if max_length:
        ways.append(partial(unroll_with_guards, max_trips=max_length))
    for way in ways[:-1]:
        start = Checkpoint(loop.ctx.importer)
        try:
            return way(loop)
        except (UnsupportedError, UndecidedExtent):
            start.undo()
    return ways[-1](loop)


# Loop operators.


def emit_loop(loop: StructuredLoop) -> list[OnnxValue | None]:
    """Emit a loop operator. The tensors that a loop appends to sequences become scan outputs."""
    ctx = loop.ctx
    lists = [i for i, v in enumerate(loop.carried) if isinstance(v, (TensorList, StackedSequence))]
    carried = {i: v for i, v in enumerate(loop.carried) if i not in lists}
    if not all(isinstance(v, Value) for v in carried.values()):
        raise UnsupportedError("a Loop with a sequence or a missing value as loop-carried value")
    results = _emit_loop_of_tensors(loop, carried, lists)
    carried.update(zip(carried, results))
    made = results[len(carried) : len(results) - len(lists)]
    for i, more in zip(lists, results[len(carried) + len(made) :]):
        carried[i] = extend_sequence(ctx, loop.carried[i], more)
    moved = [move_axis(ctx, v, 0, axis) for v, (axis, _) in zip(made, loop.stacked)]
    return [*(carried[i] for i in sorted(carried)), *moved]


def _emit_loop_of_tensors(
    loop: StructuredLoop, carried: Mapping[int, Value], lists: Sequence[int]
) -> list[Value]:
    """Return the loop-carried tensors ``carried``, the scan outputs, and the tensors appended to
    the sequences ``lists``."""
    ctx, count, first = loop.ctx, loop.trip_count, len(carried)
    limit, go = _scalar(ctx, loop.limit, "int64"), _scalar(ctx, loop.go, "bool")
    names = [*loop.names[len(loop.carried) :], *(loop.names[i] for i in lists)]
    bound = _max_trip_count(loop, limit, names)
    number = _iteration_number(loop, bound)
    slices = [move_axis(ctx, v, axis, 0) for v, axis, _ in loop.sliced]
    inside, grows = _outlined(loop, carried, lists, slices, number, bound)
    verdict, *made = inside.graph.outputs
    types = [inside.to_outer_type(v.type) for v in made]
    if count is not None and bound == 0:
        return [*carried.values(), *(_empty(ctx, type) for type in types[first:])]
    conditional = verdict.data is None or not verdict.data.all()
    if not conditional:
        inside.graph.outputs = made  # it runs up to the limit
    go = None if go is not None and go.data is not None and go.data.all() else go
    if count is None and limit is None and go is None and not conditional:
        raise UnsupportedError("a Loop without trip count and condition never ends")
    if bound is None and made[first:]:
        raise UnsupportedError(
            f"its trip count is known only at run time, and it collects {', '.join(names)}; "
            "declare the shape of that output in the model, or bound its dimension with "
            f"{option('dims')}"
        )
    known = count is not None and bound is not None and go is None and not conditional
    most = bound if known or is_unbounded(bound) else upper_bound(bound or 0)
    backward = [bool(b) for *_, b in (*loop.sliced, *loop.stacked)] + [False] * len(lists)
    inside.graph.output_names = [f"result{i}" for i in range(conditional + len(made))]
    emitted = ctx.emit_many(
        "loop",
        [limit, go, *carried.values(), *slices, *inside.captured],
        body=inside.graph,
        carried=first,
        sliced=len(slices),
        conditional=conditional,
        most=most,
        backward=tuple(backward),
        **_size_attributes(inside, made[first:], number, grows),
    )
    results, trips, extents = emitted[: len(made)], emitted[len(made)], emitted[len(made) + 1 :]
    reshape_results(ctx, results, extents, grows, types, most if known else None)
    if known or not made[first:]:
        return results
    extent = ctx.data_dependent_extent(trips, 0, most, "iterations")
    return [*results[:first], *(ctx.slice_axis(v, 0, 0, extent) for v in results[first:])]


def _scalar(ctx: NodeContext, value: Value | None, to: str) -> Value | None:
    return None if value is None else ctx.cast(ctx.reshape(value, ()), to)


def _empty(ctx: NodeContext, type: TensorType) -> Value:
    """Return the results of no iterations, stacked."""
    zero = ctx.builder.const(np.zeros((), type.dtype.numpy), f"{ctx.name}_const")
    return ctx.expand(retype(zero, type.source), (0, *type.shape))


def _max_trip_count(
    loop: StructuredLoop, limit: Value | None, collected: Sequence[str]
) -> SymInt | None:
    """Return the maximum trip count; None if it is unknown. ``collected``: names of results."""
    ctx, number = loop.ctx, loop.trip_count
    if number is not None and (upper_bound(number) < MAX_TRIP_COUNT or is_unbounded(number)):
        return number if lower_bound(number) >= 0 else max(upper_bound(number), 0)
    shape = ctx.importer.declared_bounds(collected[0]) if collected else None
    if shape:
        return upper_bound(shape[0])
    high = None if limit is None else max_value(ctx, limit)
    if high is None and collected and limit is not None and number is None:
        if not ctx.importer.request.is_bounded:
            trips = TensorExpr(ctx, limit).maximum(0)
            return ctx.data_dependent_extent(trips.value, 0, INT_MAX, "trip count")
    return high


def _iteration_number(loop: StructuredLoop, bound: SymInt | None) -> Extent | None:
    """Return the iteration number as an extent inside the body, if the body reads it."""
    if not loop.is_numbered or bound is None or upper_bound(bound) == 0:
        return None
    dims = loop.ctx.importer.dims
    last = bound - 1 if lower_bound(bound) > 0 else max(upper_bound(bound) - 1, 0)
    return dims.declare_symbol(dims.unique_name(f"{loop.ctx.name}_iteration"), 0, last, None)


def _outlined(
    loop: StructuredLoop,
    carried: Mapping[int, Value],
    lists: Sequence[int],
    slices: Sequence[Value],
    number: Extent | None,
    bound: SymInt | None,
) -> tuple[OutlinedGraph, list[Growth]]:
    """Import the body as a graph that returns the condition, the loop-carried tensors, the scan
    outputs and the tensors appended to sequences; also return how its loop-carried axes change."""
    ctx, values = loop.ctx, list(carried.values())

    def run(given: list[Value], scope: Mapping[str, OnnxValue | None]) -> list[Value | None]:
        before: dict = dict(zip(carried, given[1:])) | {i: AppendedSequence([]) for i in lists}
        inputs = [*(before[i] for i in sorted(before)), *given[1 + len(carried) :]]
        condition, *results = loop.iteration(given[0], inputs, scope=scope)
        condition = condition if loop.has_condition else ctx.const(True)
        made = [*(results[i] for i in carried), *results[len(loop.carried) :]]
        return [condition, *made, *(_appended(results[i]) for i in lists)]

    variables = {} if number is None else induction_variables(loop, number)
    names = [n for i, n in enumerate(loop.input_names) if i - 1 not in lists]
    extents = [number, *(variables.get(i) for i in carried), *(None for _ in slices)]
    grows: list[Growth] = []
    for _ in range(ATTEMPTS):
        types = [INT64, *body_types(values, grows)]
        types += [v.type.with_shape(v.shape[1:]) for v in slices]
        inside = outline_subgraph(loop, list(zip(names, types, extents)), run)
        made = inside.graph.outputs[1 : 1 + len(carried)]
        axes = changing_axes(ctx, values, made, grows, bound, [loop.names[i] for i in carried])
        if [each.symbol for each in axes] == [each.symbol for each in grows]:
            return inside, axes
        grows = axes
    raise UnsupportedError("the shape of a loop-carried value changes in an unsupported way")


def _appended(sequence: OnnxValue | None) -> Value | None:
    """Return the tensor that an iteration appends to a sequence; None if it cannot be compiled."""
    if sequence is None:
        return None
    if not isinstance(sequence, AppendedSequence) or len(sequence.values) != 1:
        raise UnsupportedError(
            "a Loop with a run-time trip count uses a sequence other than to append one tensor "
            "per iteration"
        )
    return sequence.values[0]


def _size_attributes(
    inside: OutlinedGraph,
    collected: Sequence[Value],
    number: Extent | None,
    grows: Sequence[Growth],
) -> dict[str, Any]:
    """Return the attributes of the loop operator that name the sizes in its body."""
    body, shapes = inside.graph, [v.shape for v in collected]
    own = {*symbols_of(number), *(each.symbol for each in grows)}
    made = {v for node in body.nodes for v in node.outputs}
    if own & symbols_of(*shapes) or any(s.source in made for s in data_dependent_symbols(*shapes)):
        raise UnsupportedError(
            "the tensors that it collects have a different shape in each iteration"
        )
    inner = symbols_of(*(n.attrs for n in body.nodes), *(v.shape for v in (*body.inputs, *made)))
    outer = {s for s in inner if s.source is None}
    outer |= symbols_of(*((each.first, each.upper_bound) for each in grows))
    outer = {inside.counts.get(symbol, symbol) for symbol in outer - own}
    limited = tuple(replace(each, upper_bound=limit(each.upper_bound)) for each in grows)
    return {
        **({} if number is None else {"round": next(iter(symbols_of(number)))}),
        **({"grows": limited} if grows else {}),
        "extents": tuple(s.extent for s in sorted(outer, key=lambda s: s.name)),
    }

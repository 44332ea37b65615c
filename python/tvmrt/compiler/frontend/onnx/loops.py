"""Loops: with few iterations of known number they are unrolled, else they become loop operators,
see ``tvmrt.compiler.ir.loop``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper

from tvmrt.compiler.ir import DTYPES, Graph, TensorType, Value
from tvmrt.compiler.ir.limits import MAX_UNROLLED_ITERATIONS as MAX_UNROLLED
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

from .bounded_loop import convert_appends, import_bounded_loop
from .context import NodeContext
from .dynamic_sizes import max_value
from .import_state import Checkpoint
from .legalize_types import retype
from .loop_carried_shapes import (
    ChangingAxis,
    axis_growths,
    body_types,
    changing_axes,
    reshape_results,
)
from .loop_condition import induction_variables, infer_trip_count
from .outline_subgraph import OutlinedGraph, mirror_input, outline_subgraph
from .registry import onnx_op
from .scan_opset8 import import_batched_scan
from .sequence_values import StackedSequence, TensorList
from .sequences import extend_sequence, move_axis_first, move_first_axis, stack_iterations
from .tensor_expressions import TensorExpr

MAX_ALWAYS_UNROLLED = 8  # maximum trip count that is always unrolled
ATTEMPTS = 4  # maximum number of imports to find shapes that hold in every iteration
MAX_UNROLLED_ITERATIONS = 1 << 24  # a larger trip count means an unlimited number of iterations

INT64, BOOL = TensorType((), DTYPES["int64"]), TensorType((), DTYPES["bool"])


@onnx_op("Loop")
def loop(ctx: NodeContext) -> list[Value | None]:
    if any(info.type.tensor_type.shape.dim for info in ctx.attr("body").input[:2]):
        ctx.set_attr("body", _with_scalars(ctx.attr("body")))
    infer_trip_count(ctx)
    limit = None if ctx.is_computed(0) else ctx.int_operand(0, "the trip count")
    trip_count = limit[0] if limit else None
    lengths = ctx.importer.request.sequences
    max_lengths = [lengths[name] for name in ctx.node.output if lengths.get(name)]
    start = Checkpoint(ctx.importer)
    try:
        return _unroll_or_loop(
            ctx, trip_count, lambda: _unrolled_loop(ctx, trip_count), lambda: _loop(ctx)
        )
    except (UnsupportedError, UndecidedExtent):
        if not max_lengths:
            raise
        start.undo()
        return import_bounded_loop(ctx, max(max_lengths))


def _with_scalars(body: onnx.GraphProto) -> onnx.GraphProto:
    """Return the body with a scalar iteration number and condition, as ONNX defines them. torch
    declares vectors of one element and relies on getting them."""
    ranks = [len(info.type.tensor_type.shape.dim) for info in body.input[:2]]
    result = onnx.GraphProto()
    result.CopyFrom(body)
    for info, rank in zip(result.input, ranks):
        if rank:
            scalar, shape = f"{info.name}_scalar", f"{info.name}_shape"
            ones = helper.make_tensor(shape, onnx.TensorProto.INT64, [rank], [1] * rank)
            result.initializer.append(ones)
            node = helper.make_node("Reshape", [scalar, shape], [info.name], name=info.name)
            result.node.insert(0, node)
            del info.type.tensor_type.shape.dim[:]
            info.name = scalar
    return result


@onnx_op("Scan")
def scan(ctx: NodeContext) -> list[Value | None]:
    if ctx.opset < 9:
        return import_batched_scan(ctx, scan)
    layout = _ScanLayout(ctx)
    return _unroll_or_loop(
        ctx, layout.trip_count, lambda: _unrolled_scan(ctx, layout), lambda: _scan(ctx, layout)
    )


def _unroll_or_loop(ctx: NodeContext, trip_count, unrolled, looped) -> list[Value | None]:
    """Unroll a loop with few iterations, or one that is unsupported as a loop operator but has a
    known trip count; else emit a loop operator."""
    if isinstance(trip_count, int) and trip_count <= MAX_ALWAYS_UNROLLED:
        return unrolled()
    start = Checkpoint(ctx.importer)
    try:
        return looped()
    except (UnsupportedError, UndecidedExtent):
        start.undo()
        if not isinstance(trip_count, int) or trip_count > MAX_UNROLLED:
            raise
        return unrolled()


# Loops at run time.


def _loop(ctx: NodeContext) -> list[Value | None]:
    initial = ctx.inputs[2:]
    lists = [i for i, v in enumerate(initial) if isinstance(v, (TensorList, StackedSequence))]
    body, outputs = convert_appends(ctx.attr("body"), ctx.node.output, lists)
    carried = [_as_tensor(v) for i, v in enumerate(initial) if i not in lists]
    results = _loop_of_tensors(ctx, body, carried, outputs)
    made = len(results) - len(lists)
    for i, more in zip(lists, results[made:]):
        results.insert(i, extend_sequence(ctx, initial[i], more))
    return results[: made + len(lists)]


def _loop_of_tensors(
    ctx: NodeContext, body: onnx.GraphProto, carried: list[Value], outputs: Sequence[str]
) -> list[Value]:
    """Return the loop-carried values, then the scan outputs; ``outputs`` are their names."""
    limit, go = (_scalar(ctx, i, to) for i, to in ((0, "int64"), (1, "bool")))
    bound = _max_trip_count(ctx, limit, outputs[len(carried) :])
    number = _iteration_number(ctx, bound)
    like = _with_induction_variables(ctx, body, carried, number, bound)
    inside, changing = _with_shapes(ctx, body, carried, outputs, number, bound, like)
    graph = inside.graph
    # in a running iteration the condition is true
    graph.replace_many({graph.inputs.pop(1): ctx.const(True)})
    verdict = graph.outputs[0]
    if verdict.data is not None and verdict.data.all():
        graph.outputs.pop(0)  # the condition stays true up to the limit
    conditional = len(graph.outputs) == len(body.output)
    if go is not None and go.data is not None and go.data.all():
        go = None
    if limit is None and go is None and not conditional:
        raise UnsupportedError("a Loop without trip count and condition never ends")
    collected = len(body.output) - 1 - len(carried)
    if bound is None and collected:
        raise UnsupportedError(
            f"its trip count is known only at run time, and it collects {outputs[len(carried)]}; "
            "declare the shape of that output in the model, or bound its dimension with "
            f"{option('dims')}"
        )
    fixed = bound is not None and not ctx.is_computed(0) and limit is not None
    known = fixed and go is None and not conditional
    most = bound if known or is_unbounded(bound) else upper_bound(bound or 0)
    ends = _LoopEnd(limit, go, conditional, most, known)
    return _emit(ctx, inside, ends, carried, [], number, changing=changing)


def _with_induction_variables(
    ctx: NodeContext,
    body: onnx.GraphProto,
    carried: Sequence[Value],
    number: Value,
    bound: SymInt | None,
) -> list[Value]:
    """Return the loop-carried values, with induction variables as extents."""
    found, known = list(carried), ctx.extents.get(number)
    if known is None or bound is None or len(carried) != len(body.input) - 2:
        return found
    for position, extent in induction_variables(ctx, body, carried, known.item()).items():
        found[position] = Value(carried[position].name, carried[position].type)
        ctx.extents[found[position]] = np.full(carried[position].shape, extent, object)
    return found


def _with_shapes(
    ctx: NodeContext,
    body: onnx.GraphProto,
    carried: list[Value],
    outputs: Sequence[str],
    number: Value,
    bound: SymInt | None,
    like_carried: Sequence[Value],
) -> tuple[OutlinedGraph, list[ChangingAxis]]:
    """Import the body with loop-carried values like ``like_carried``."""
    changing: list[ChangingAxis] = []
    for _ in range(ATTEMPTS):
        like = [(number, INT64), (ctx.const(True), BOOL)]
        like += list(zip(like_carried, body_types(carried, changing)))
        numbers = (number, *(v for v in like_carried if v not in carried))
        inside = outline_subgraph(ctx.importer, body, ctx.scope, like, numbers)
        made = inside.graph.outputs[1 : 1 + len(carried)]
        axes = changing_axes(ctx, carried, made, changing, bound, outputs)
        if axes == changing:
            return inside, changing
        changing = axes
    raise UnsupportedError("the shape of a loop-carried value changes in an unsupported way")


@dataclass(frozen=True)
class _LoopEnd:
    """When a loop ends. ``limit``: trip count; ``go``: initial condition; None if absent.
    ``conditional``: the body has one. ``most``: maximum trip count, exact if ``known``."""

    limit: Value | None
    go: Value | None
    conditional: bool
    upper_bound: SymInt
    known: bool


def _max_trip_count(
    ctx: NodeContext, limit: Value | None, collected: Sequence[str]
) -> SymInt | None:
    """Return the maximum trip count; None if it is unknown."""
    if limit is not None and not ctx.is_computed(0):
        (number,) = ctx.int_operand(0, "the trip count")
        if upper_bound(number) < MAX_UNROLLED_ITERATIONS or is_unbounded(number):
            return number if lower_bound(number) >= 0 else max(upper_bound(number), 0)
    shape = ctx.importer.declared_bounds(collected[0]) if collected else None
    if shape:
        return upper_bound(shape[0])
    high = None if limit is None else max_value(ctx, limit)
    if high is None and collected and ctx.is_computed(0) and not ctx.importer.request.is_bounded:
        trips = TensorExpr(ctx, limit).maximum(0)
        return ctx.data_dependent_extent(trips.value, 0, INT_MAX, "trip count")
    return high


def _iteration_number(ctx: NodeContext, bound: SymInt | None) -> Value:
    """Return the iteration number; with a bound it is an extent inside the body."""
    if bound is None or upper_bound(bound) == 0:
        return ctx.const(0, np.int64)
    dims = ctx.importer.dims
    name = dims.unique_name(f"{ctx.name}_iteration")
    value = Value(name, INT64)
    last = bound - 1 if lower_bound(bound) > 0 else max(upper_bound(bound) - 1, 0)
    extent = dims.declare_symbol(name, 0, last, None)
    ctx.extents[value] = np.asarray(extent, object)
    return value


def _scan(ctx: NodeContext, layout: _ScanLayout) -> list[Value | None]:
    sliced = [move_axis_first(ctx, v, axis) for v, axis in zip(layout.sequences, layout.axes)]
    carried = layout.carried
    like = [(v, v.type) for v in carried]
    like += [(v, v.type.with_shape(v.shape[1:])) for v in sliced]
    inside = outline_subgraph(ctx.importer, layout.body, ctx.scope, like)
    graph = inside.graph
    iteration = Value("iteration", INT64)
    graph.inputs.insert(0, iteration)
    backward = [*layout.backward, *layout.out_backward]
    ends = _LoopEnd(None, None, False, layout.trip_count, True)
    results = _emit(ctx, inside, ends, carried, sliced, iteration, backward)
    out = results[len(carried) :]
    moved = [move_first_axis(ctx, v, axis) for v, axis in zip(out, layout.out_axes)]
    return [*results[: len(carried)], *moved]


Step = Callable[[list[Value], list[Value]], tuple[list[Value], list[Value]]]


def scan_steps(
    ctx: NodeContext, step: Step, carried: Sequence[Value], sliced: Sequence[Value]
) -> tuple[list[Value], list[Value]]:
    """Apply ``step`` to the slices of tensors along their first axis, in order. It takes the
    loop-carried values and slices, and returns new loop-carried values and results. Return the
    last loop-carried values, and the results of all steps, stacked along a new first axis.

    ``step`` may be called several times; other values that it uses must be constants."""
    trips, values = sliced[0].shape[0], list(carried)
    if isinstance(trips, int) and 0 < trips <= MAX_ALWAYS_UNROLLED:
        rows = []
        for number in range(trips):
            values, results = step(values, [ctx.element(v, 0, number) for v in sliced])
            rows.append(results)
        return values, [ctx.concat([ctx.unsqueeze(v, 0) for v in c], 0) for c in zip(*rows)]
    counts: dict = {}
    outer = ctx.builder
    types = [*(v.type for v in carried), *(v.type.with_shape(v.shape[1:]) for v in sliced)]
    with ctx.importer.separate_graph("step") as graph:
        graph.inputs = [
            mirror_input(ctx.importer, value, f"step{i}", type, False, counts)
            for i, (value, type) in enumerate(zip([*carried, *sliced], types))
        ]
        ctx.builder = ctx.importer.builder
        try:
            made, results = step(graph.inputs[: len(carried)], graph.inputs[len(carried) :])
        finally:
            ctx.builder = outer
        graph.outputs = [*made, *results]
        graph.inputs.insert(0, iteration := Value("iteration", INT64))
    inside, ends = OutlinedGraph(graph, [], counts), _LoopEnd(None, None, False, trips, True)
    found = _emit(ctx, inside, ends, values, list(sliced), iteration)
    return found[: len(carried)], found[len(carried) :]


def _emit(
    ctx: NodeContext,
    inside: OutlinedGraph,
    ends: _LoopEnd,
    carried: list[Value],
    sliced: list[Value],
    number: Value,
    backward: Sequence[int] = (),
    changing: Sequence[ChangingAxis] = (),
) -> list[Value]:
    """Emit the loop, and slice the scan outputs to the iterations that ran."""
    body = inside.graph
    made = body.outputs[ends.conditional :]
    for before, after in zip(carried, made):
        if not changing and before.type != after.type:
            raise UnsupportedError(
                f"a loop-carried value is {before.type} before an iteration and {after.type} "
                "after it"
            )
    body.output_names = [f"result{i}" for i in range(len(body.outputs))]
    collected = len(made) - len(carried)
    known_as = ctx.extents.get(number)
    numbered = {} if known_as is None else {"round": next(iter(symbols_of(known_as.item())))}
    grows = axis_growths(changing, body, ends.conditional)
    own = {*numbered.values(), *(each.symbol for each in grows)}
    shapes = [v.shape for v in made[len(carried) :]]
    extent = {v for node in body.nodes for v in node.outputs}
    if own & symbols_of(*shapes) or any(
        s.source in extent for s in data_dependent_symbols(*shapes)
    ):
        raise UnsupportedError(
            "the tensors that it collects have a different shape in each iteration"
        )
    outer = set(_symbols(body)) | symbols_of(*((each.first, each.upper_bound) for each in grows))
    outer = {inside.counts.get(symbol, symbol) for symbol in outer - own}
    emitted = ctx.emit_many(
        "loop",
        [ends.limit, ends.go, *carried, *sliced, *inside.captured],
        body=body,
        carried=len(carried),
        sliced=len(sliced),
        conditional=ends.conditional,
        most=ends.upper_bound,
        backward=tuple(map(bool, backward or [0] * (len(sliced) + collected))),
        **numbered,
        **({"grows": grows} if grows else {}),
        extents=tuple(s.extent for s in sorted(outer, key=lambda s: s.name)),
    )
    *results, trip_count = emitted[: len(emitted) - len(grows)]
    extents = emitted[len(emitted) - len(grows) :]
    types = [inside.to_outer_type(v.type) for v in made]
    reshape_results(
        ctx, results, extents, changing, types, ends.upper_bound if ends.known else None
    )
    if not ends.known and collected:
        extent = ctx.data_dependent_extent(trip_count, 0, ends.upper_bound, "iterations")
        results[len(carried) :] = [ctx.slice_axis(v, 0, 0, extent) for v in results[len(carried) :]]
    return results


def _symbols(body: Graph) -> list:
    """Return the dynamic dimensions that a body depends on."""
    symbols = symbols_of(*(n.attrs for n in body.nodes), *(v.shape for v in body.inputs))
    made = symbols_of(*(v.shape for n in body.nodes for v in n.outputs))
    return sorted((s for s in symbols | made if s.source is None), key=lambda s: s.name)


def _scalar(ctx: NodeContext, index: int, to: str) -> Value | None:
    value = ctx.input(index)
    return None if value is None else ctx.cast(ctx.reshape(value, ()), to)


def _as_tensor(value: Value | None) -> Value:
    if not isinstance(value, Value):
        raise UnsupportedError("a Loop with a sequence or a missing value as loop-carried value")
    return value


# Unrolled loops.


def _unrolled_loop(ctx: NodeContext, trip_count: int) -> list[Value | None]:
    body = ctx.attr("body")
    condition = ctx.input(1)
    carried: list[Value | None] = list(ctx.inputs[2:])
    scanned: list[list[Value | None]] = [[] for _ in range(len(body.output) - 1 - len(carried))]
    for number in ctx.importer.functions.budget.iterations("Loop", trip_count, body):
        if condition is not None and not _constant_condition(condition):
            break
        inputs = [ctx.const(number, np.int64), condition or ctx.const(True), *carried]
        condition, *results = ctx.importer.import_branch(body, ctx.scope, inputs=inputs)
        carried = results[: len(carried)]
        for column, value in zip(scanned, results[len(carried) :]):
            column.append(value)
    if scanned and not scanned[0]:
        return [*carried, *_empty_scan_outputs(ctx, body, carried)]
    return [*carried, *(stack_iterations(ctx, column, 0) for column in scanned)]


def _empty_scan_outputs(
    ctx: NodeContext, body: onnx.GraphProto, carried: list[Value | None]
) -> list[Value]:
    """Return empty scan outputs for a loop of no iterations, shaped as if there were some."""
    if not all(isinstance(v, Value) for v in carried):
        raise UnsupportedError(
            "a Loop of no iterations with a sequence or a missing value as loop-carried value"
        )
    like = [(ctx.const(0, np.int64), INT64), (ctx.const(True), BOOL)]
    inside = outline_subgraph(
        ctx.importer, body, ctx.scope, [*like, *((v, v.type) for v in carried)]
    )
    made = inside.graph.outputs[1 + len(carried) :]
    types = [inside.to_outer_type(v.type) for v in made]
    zeros = [ctx.builder.const(np.zeros((), t.dtype.numpy), f"{ctx.name}_const") for t in types]
    return [ctx.expand(retype(zero, t.source), (0, *t.shape)) for zero, t in zip(zeros, types)]


def _constant_condition(condition: Value) -> bool:
    if condition.data is None:
        raise UnsupportedError("a Loop whose condition is computed at run time")
    return bool(condition.data.reshape(-1)[0])


class _ScanLayout:
    """Loop-carried values of a Scan, and its scanned operands with axes and directions."""

    def __init__(self, ctx: NodeContext) -> None:
        self.body: onnx.GraphProto = ctx.attr("body")
        count = ctx.attr("num_scan_inputs")
        self.carried = [_as_tensor(v) for v in ctx.inputs[: len(ctx.inputs) - count]]
        self.sequences = [ctx.required(len(self.carried) + i) for i in range(count)]
        outputs = len(self.body.output) - len(self.carried)
        axes = ctx.attr("scan_input_axes", [0] * count)
        self.axes = [normalize_axis(a, len(v.shape)) for a, v in zip(axes, self.sequences)]
        self.backward = ctx.attr("scan_input_directions", [0] * count)
        self.out_axes = ctx.attr("scan_output_axes", [0] * outputs)
        self.out_backward = ctx.attr("scan_output_directions", [0] * outputs)
        self.trip_count: int | Extent = self.sequences[0].shape[self.axes[0]]


def _unrolled_scan(ctx: NodeContext, layout: _ScanLayout) -> list[Value | None]:
    body, trip_count = layout.body, layout.trip_count
    carried: list[Value | None] = list(layout.carried)
    columns: list[list[Value | None]] = [[] for _ in layout.out_axes]
    for number in ctx.importer.functions.budget.iterations("Scan", trip_count, body):
        inputs = list(carried)
        for value, axis, reverse in zip(layout.sequences, layout.axes, layout.backward):
            position = trip_count - 1 - number if reverse else number
            inputs.append(ctx.element(value, axis, position))
        results = ctx.importer.import_branch(body, ctx.scope, inputs=inputs)
        carried = results[: len(carried)]
        for column, value in zip(columns, results[len(carried) :]):
            column.append(value)
    for column, reverse in zip(columns, layout.out_backward):
        if reverse:
            column.reverse()
    out = [stack_iterations(ctx, c, axis) for c, axis in zip(columns, layout.out_axes)]
    return [*carried, *out]

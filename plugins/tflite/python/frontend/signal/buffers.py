"""Circular buffer of streaming convolutions: the last slices of the input."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.frontend import combine_guards
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.flexbuffer import read_map
from tvmrt.plugins.tflite.frontend.registry import tflite_op

NAME = "CIRCULAR_BUFFER"


@tflite_op(CIRCULAR_BUFFER=1)
def circular_buffer(ctx: OpContext) -> list[Value]:
    """Operand: one slice [1, 1, W, C]. Results: the last slices [1, slots, W, C], and optionally
    whether ``cycles_max`` runs have passed. Without the second result, the following operators
    are computed in those runs only."""
    x, result = ctx.required(0), ctx.result()
    shape = result.shape
    fits = len(shape) == x.type.rank == 4 and x.shape == (shape[0], 1, *shape[2:])
    if x.dtype.name != "int8" or not fits or 0 in shape or shape[0] != 1:
        raise ValueError(f"{x.type} is not a slice of int8 {list(shape)}")
    zero = int(result.quantization.zero[0]) if result.is_variable and result.quantization else 0
    y, slots = x, shape[1]
    if slots > 1:
        states, first = ctx.importer.states, np.full((1, slots - 1, *shape[2:]), zero, np.int8)
        ctx.importer.check_state()
        state = states.add(ctx.const(first))
        y = ctx.emit("concat", [states.current_value(state), x], axis=1)
        ctx.importer.set_state(state, ctx.slice_axis(y, 1, 1, slots - 1))
    cycles = _cycles(ctx)
    ready = _ready(ctx, cycles) if cycles > 1 else ctx.const(True)
    if len(ctx.op.outputs) > 1:
        return [y, ctx.reshape(ready, ctx.result(1).shape)]
    if cycles > 1:
        _skip_unless(ctx, ready)
    return [y]


def _ready(ctx: OpContext, cycles: int) -> Value:
    """Return true once every ``cycles`` runs."""
    ctx.importer.check_state()
    state = ctx.importer.states.add(ctx.const(np.zeros((), np.int32)))
    run = ctx.emit("add", [ctx.importer.states.current_value(state), ctx.const(1, np.int32)])
    ready = ctx.emit("equal", [run, ctx.const(cycles, np.int32)])
    ctx.importer.set_state(state, ctx.emit("where", [ready, ctx.const(0, np.int32), run]))
    return ready


def _skip_unless(ctx: OpContext, ready: Value) -> None:
    """Skip the following operators unless ``ready``, and keep their states unchanged."""
    if len(ctx.importer.subgraph_stack) > 1:
        raise UnsupportedError("a circular buffer that ends a run, in a branch or loop")
    ctx.builder.guard = (combine_guards(ctx, ctx.builder.guard, ready), True)


def _given(options: bytes) -> int:
    cycles = read_map(options).get("cycles_max", 0)
    return cycles if isinstance(cycles, int) and 0 < cycles < 2**31 else 0


def _cycles(ctx: OpContext) -> int:
    """Return the number of runs per result. If the options have none, follow TensorFlow Lite Micro
    for the two networks it knows: 1 for the last buffer, which it recognises by its shape, and 2
    for the others."""
    count = 0
    for op in ctx.subgraph.operators:
        result = _given(op.custom_options) if op.name == NAME and op.outputs else -1
        if result < 0:
            continue
        if result == 0:
            count += 1
            shape = ctx.subgraph.tensors[op.outputs[0]].shape
            last = shape[1:2] in ((5,), (13,), (25,)) or (count == 5 and shape[2:] == (2, 96))
            count, result = (0, 1) if last else (count, 2)
        if op is ctx.op:
            return result
    return 1

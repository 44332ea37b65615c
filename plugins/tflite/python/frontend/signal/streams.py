"""Streaming audio: samples of previous runs are kept in states of the network."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.arithmetic import ceil_div
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.signal.operands import (
    check_range,
    integer_options,
    operand,
    rows_of,
)

MAX_SAMPLES = 1 << 20  # maximum number of samples that a stream keeps
MAX_FRAMES = 4096


def _begin(ctx: OpContext, first: np.ndarray) -> int:
    """Add a state with the given initial value; return its number."""
    ctx.importer.check_state()
    return ctx.importer.states.add(ctx.const(first))


def _push(ctx: OpContext, x: Value, kept: int) -> Value:
    """Prepend the last ``kept`` samples of the previous runs to the rows of x."""
    if not kept:
        return x
    states = ctx.importer.states
    state = _begin(ctx, np.zeros((x.shape[0], kept), x.dtype.numpy))
    result = ctx.emit("concat", [states.current_value(state), x], axis=1)
    ctx.importer.set_state(state, ctx.slice_axis(result, 1, x.shape[1], kept))
    return result


@tflite_op(SignalDelay=1)
def delay(ctx: OpContext) -> Value:
    x = operand(ctx, 0, "int16")
    length = check_range("delay_length", *integer_options(ctx, "delay_length"), 0, MAX_SAMPLES)
    rows = rows_of(ctx, x)
    return ctx.reshape(ctx.slice_axis(_push(ctx, rows, length), 1, 0, rows.shape[1]), x.shape)


@tflite_op(SignalFramer=1)
def framer(ctx: OpContext) -> list[Value]:
    """Return overlapping frames, and whether all of them were full.

    With ``prefill``, zeros come first and each frame ends with its newest sample. Otherwise a
    frame begins before its newest sample by the number of whole steps that fill a frame.
    """
    x = operand(ctx, 0, "int16")
    size, step, prefill = integer_options(ctx, "frame_size", "frame_step", "prefill")
    check_range("frame_size", size, 1, MAX_SAMPLES)
    check_range("frame_step", step, 1, size if prefill else MAX_SAMPLES)
    rows = rows_of(ctx, x)
    if rows.shape[1] % step or rows.shape[1] // step > MAX_FRAMES:
        raise ValueError(f"{x.type} is not a whole number of steps of {step} samples")
    frames, steps = rows.shape[1] // step, ceil_div(size, step)
    whole = _push(ctx, rows, (size if prefill else steps * step) - step)
    parts = [ctx.slice_axis(whole, 1, i * step, size) for i in range(frames)]
    y = ctx.reshape(ctx.concat(parts, 1), (*x.shape[:-1], frames, size))
    return [y, ctx.const(True) if prefill else _has_enough(ctx, frames, steps)]


def _has_enough(ctx: OpContext, more: int, wanted: int) -> Value:
    """Return whether enough pieces have arrived for the first frame of this run."""
    if wanted <= 1:
        return ctx.const(True)
    states, state = ctx.importer.states, _begin(ctx, np.zeros((), np.int32))
    before = states.current_value(state)
    after = ctx.emit("add", [before, ctx.const(more, np.int32)])
    ctx.importer.set_state(state, ctx.clamp(after, None, wanted))
    return ctx.emit("greater_equal", [before, ctx.const(wanted - 1, np.int32)])


@tflite_op(SignalOverlapAdd=1)
def overlap_add(ctx: OpContext) -> Value:
    """Add overlapping frames, each one step after the previous; int16 saturates."""
    x = operand(ctx, 0, "int16|float32")
    if x.type.rank < 2:
        raise ValueError(f"{x.type} does not hold frames")
    frames, size = x.shape[-2:]
    step = check_range("frame_step", *integer_options(ctx, "frame_step"), 1, size)
    if frames > MAX_FRAMES:
        raise UnsupportedError(f"{frames} frames in a run; at most {MAX_FRAMES}")
    outer, kept = x.type.size // (frames * size), size - step
    blocks = ctx.reshape(x, (outer, frames, size))
    states = ctx.importer.states
    state = _begin(ctx, np.zeros((outer, kept), x.dtype.numpy)) if kept else None
    before, parts = states.current_value(state) if kept else None, []
    for i in range(frames):
        frame = ctx.element(blocks, 1, i)
        if before is not None:
            head = _saturated_sum(ctx, ctx.slice_axis(frame, 1, 0, kept), before)
            frame = ctx.emit("concat", [head, ctx.slice_axis(frame, 1, kept, step)], axis=1)
            before = ctx.slice_axis(frame, 1, step, kept)
        parts.append(ctx.slice_axis(frame, 1, 0, step))
    if kept:
        ctx.importer.set_state(state, before)
    return ctx.reshape(ctx.concat(parts, 1), (*x.shape[:-2], frames * step))


def _saturated_sum(ctx: OpContext, a: Value, b: Value) -> Value:
    if a.dtype.name == "float32":
        return ctx.emit("add", [a, b])
    both = ctx.emit("add", [ctx.cast(a, "int32"), ctx.cast(b, "int32")])
    return ctx.cast(ctx.clamp(both, -32768, 32767), "int16")


@tflite_op(SignalStacker=1)
def stacker(ctx: OpContext) -> list[Value]:
    """Stack the last frames of features into one row, once every ``step`` runs; also return whether
    this run has a result. Copies of the first frame stand in for the frames before it."""
    x, names = operand(ctx, 0, "int16", 1), ("left_context", "right_context", "step")
    channels, left, right, step = integer_options(
        ctx, "num_channels", *(f"stacker_{name}" for name in names)
    )
    if not 1 <= channels <= x.shape[0] or left < 0 or right < 0:
        raise ValueError(f"{left} and {right} frames of {channels} channels do not fit {x.type}")
    count = left + right + 1
    check_range("stacker_step", step, 1, count)
    check_range("num_channels", channels * count, 1, MAX_SAMPLES)
    new = ctx.reshape(ctx.slice_axis(x, 0, 0, channels), (1, channels))
    states, known = ctx.importer.states, _begin(ctx, np.full((), -1, np.int32))
    number = states.current_value(
        known
    )  # frames available and not yet used; -1 before the first run
    begins = ctx.emit("less", [number, ctx.const(0, np.int32)])
    next_ = ctx.emit("add", [number, ctx.const(1, np.int32)])
    now = ctx.emit("where", [begins, ctx.const(left + 1, np.int32), next_])
    valid = ctx.emit("greater_equal", [now, ctx.const(count, np.int32)])
    used = ctx.emit("sub", [now, ctx.const(step, np.int32)])
    ctx.importer.set_state(known, ctx.emit("where", [valid, used, now]))
    rows = new
    if count > 1:
        past = _begin(ctx, np.zeros((count - 1, channels), np.int16))
        before = ctx.emit("where", [begins, new, states.current_value(past)])
        rows = ctx.emit("concat", [before, new], axis=0)
        ctx.importer.set_state(past, ctx.slice_axis(rows, 0, 1, count - 1))
    return [ctx.reshape(rows, (count * channels,)), valid]

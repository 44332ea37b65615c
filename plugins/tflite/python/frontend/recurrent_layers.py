"""Bidirectional layers, single-step LSTM, and simple RNN layers."""

from __future__ import annotations

from typing import NamedTuple

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.activation import apply_activation
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.recurrent import (
    FORWARD,
    OperandIndices,
    lstm,
    swap_time_and_batch,
    time_major,
    times,
)
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.sequence_loop import step_by_step

BOTH = (OperandIndices(1, 5, 9, 12, 16, 35, 36), OperandIndices(18, 22, 26, 29, 33, 37, 38))


@tflite_op(LSTM=4)
def one_step_lstm(ctx: OpContext) -> Value:
    x = ctx.required(0)
    if ctx.options["kernel_type"] or len(ctx.op.outputs) != 1:
        raise UnsupportedError("the BASIC kernel type of old files")
    if x.type.rank != 2 or x.dtype.name != "float32":
        raise UnsupportedError(f"an input {x.type}")
    y = lstm(ctx, ctx.reshape(x, (1, *x.shape)), FORWARD)
    return ctx.reshape(y, y.shape[1:])


@tflite_op(BIDIRECTIONAL_SEQUENCE_LSTM=3)
def bidirectional_lstm(ctx: OpContext) -> list[Value]:
    if any(ctx.input(i) is not None for i in range(40, 48)):
        raise UnsupportedError("weights of an auxiliary input")
    x = time_major(ctx, ctx.required(0))
    other = x if ctx.input(39) is None else time_major(ctx, ctx.required(39))
    made = [lstm(ctx, x, BOTH[0]), lstm(ctx, other, BOTH[1], backward=True)]
    return _merged(ctx, made)


def _merged(ctx: OpContext, made: list[Value]) -> list[Value]:
    """Return both directions' results, concatenated if the options say so."""
    made = [swap_time_and_batch(ctx, y) for y in made]
    return [ctx.emit("concat", made, axis=2)] if ctx.options["merge_outputs"] else made


class _RnnOperands(NamedTuple):
    """Operand indices of a simple RNN: input and recurrent weights, bias, state."""

    w: int
    r: int
    bias: int
    h: int


@tflite_op(RNN=3)
def rnn(ctx: OpContext) -> Value:
    x = ctx.required(0)
    if x.type.rank != 2 or x.dtype.name != "float32":
        raise UnsupportedError(f"an input {x.type}")
    y = _plain(ctx, ctx.reshape(x, (1, *x.shape)), _RnnOperands(1, 2, 3, 4))
    return ctx.reshape(y, y.shape[1:])


@tflite_op(UNIDIRECTIONAL_SEQUENCE_RNN=3)
def sequence_rnn(ctx: OpContext) -> Value:
    y = _plain(ctx, time_major(ctx, ctx.required(0)), _RnnOperands(1, 2, 3, 4))
    return swap_time_and_batch(ctx, y)


@tflite_op(BIDIRECTIONAL_SEQUENCE_RNN=3)
def bidirectional_rnn(ctx: OpContext) -> list[Value]:
    if ctx.input(10) is not None or ctx.input(11) is not None:
        raise UnsupportedError("weights of an auxiliary input")
    x = time_major(ctx, ctx.required(0))
    other = x if ctx.input(9) is None else time_major(ctx, ctx.required(9))
    made = [
        _plain(ctx, x, _RnnOperands(1, 2, 3, 4)),
        _plain(ctx, other, _RnnOperands(5, 6, 7, 8), True),
    ]
    return _merged(ctx, made)


def _plain(ctx: OpContext, x: Value, at: _RnnOperands, backward: bool = False) -> Value:
    """Compute h = act(x W + h R + bias) for each step."""
    h, bias = ctx.required(at.h), ctx.required(at.bias)
    if h.type.rank != 2:
        raise ValueError(f"a state is {h.type}")

    def step(now: Value, h: Value) -> tuple[Value, Value]:
        total = ctx.emit("add", [times(ctx, now, at.w), times(ctx, h, at.r)])
        h = apply_activation(ctx, ctx.emit("add", [total, bias]))
        return h, h

    y, (h,) = step_by_step(ctx, x, (h,), backward, step)
    ctx.set_variable_operand(at.h, h)
    return y

"""Floating-point LSTM layers, unrolled step by step where the IR's own layer does not apply."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.hybrid import float_operand, hybrid_matmul
from tvmrt.plugins.tflite.frontend.recurrent_int8 import quantized_lstm
from tvmrt.plugins.tflite.frontend.registry import tflite_op
from tvmrt.plugins.tflite.frontend.sequence_loop import step_by_step

INPUT, FORGET, CELL, OUTPUT = range(4)


class OperandIndices(NamedTuple):
    """Operand indices of a cell: the first of each group of three or four gates, or a single
    operand; -1 if the operator has none."""

    x: int
    r: int
    peepholes: int
    bias: int
    projection: int
    h: int
    c: int
    norms: int = -1

    def four(self, first: int) -> list[int]:
        """Return the operand indices of the four gates."""
        return [-1 if first < 0 else first + gate for gate in range(4)]


FORWARD = OperandIndices(1, 5, 9, 12, 16, 18, 19, 20)


@tflite_op(UNIDIRECTIONAL_SEQUENCE_LSTM=4)
def sequence_lstm(ctx: OpContext) -> Value:
    x = ctx.required(0)
    if x.dtype.name == "int8":
        return quantized_lstm(ctx, x)
    return swap_time_and_batch(ctx, lstm(ctx, time_major(ctx, x), FORWARD))


def time_major(ctx: OpContext, x: Value) -> Value:
    """Transpose a sequence to time-major order if it is not."""
    if x.type.rank != 3 or x.dtype.name != "float32":
        raise UnsupportedError(f"a sequence {x.type}")
    return swap_time_and_batch(ctx, x)


def swap_time_and_batch(ctx: OpContext, x: Value) -> Value:
    """Swap time and batch if the operator is batch-major."""
    return x if ctx.options["time_major"] else ctx.transpose(x, (1, 0, 2))


def lstm(
    ctx: OpContext, x: Value, operand_indices: OperandIndices, backward: bool = False
) -> Value:
    """Return the results of all steps of a time-major sequence."""
    cell = _Cell(ctx, operand_indices)
    return cell.fused(x, backward) if cell.is_plain else cell.unrolled(x, backward)


def times(ctx: OpContext, rows: Value, index: int) -> Value:
    """Multiply float32 rows [B, K] by operand ``index`` [N, K], in float32 or int8."""
    w = ctx.required(index)
    if w.dtype.name != "float32":
        return hybrid_matmul(ctx, rows, index, bool(ctx.options["asymmetric"]))
    return ctx.emit("matmul", [rows, ctx.transpose(w, (1, 0))])


class _Cell:
    """One LSTM cell; gates are in the format's order."""

    def __init__(self, ctx: OpContext, operand_indices: OperandIndices) -> None:
        self.ctx = ctx
        self.operand_indices = operand_indices
        self.at_w, self.at_r = (
            operand_indices.four(operand_indices.x),
            operand_indices.four(operand_indices.r),
        )
        self.w = [ctx.input(i) for i in self.at_w]
        self.r = [ctx.input(i) for i in self.at_r]
        input_, forget, output = (
            float_operand(ctx, operand_indices.peepholes + i) for i in range(3)
        )
        self.peepholes = [input_, forget, None, output]
        self.bias = [ctx.input(i) for i in operand_indices.four(operand_indices.bias)]
        self.projection = ctx.input(operand_indices.projection)
        self.projection_bias = ctx.input(operand_indices.projection + 1)
        self.norms = [
            float_operand(ctx, i) if i >= 0 else None
            for i in operand_indices.four(operand_indices.norms)
        ]
        self.gates = range(4) if self.w[INPUT] is not None else range(1, 4)
        missing = [g for g in self.gates if self.w[g] is None or self.r[g] is None]
        if missing or any(self.bias[g] is None for g in self.gates):
            raise ValueError("weights or biases of a gate are missing")
        self.h0, self.c0 = self._state(operand_indices.h), self._state(operand_indices.c)

    def _state(self, index: int) -> Value:
        """Return a state at the start of a run."""
        value = self.ctx.required(index)
        if value.type.rank != 2 or value.dtype.name != "float32":
            raise ValueError(f"a state is {value.type}")
        return value

    def _store_states(self, h: Value, c: Value) -> None:
        self.ctx.set_variable_operand(self.operand_indices.h, h)
        self.ctx.set_variable_operand(self.operand_indices.c, c)

    @property
    def is_plain(self) -> bool:
        """Return whether the IR's LSTM computes this cell."""
        extra = (*self.peepholes, self.projection, *self.norms)
        clipped = self.ctx.options["cell_clip"] > 0
        weights = [v for g in self.gates for v in (self.w[g], self.r[g])]
        constant = all(v.is_constant and v.dtype.name == "float32" for v in weights)
        act = self.ctx.options["act"] == 4
        return len(self.gates) == 4 and constant and act and not clipped and not any(extra)

    def fused(self, x: Value, backward: bool) -> Value:
        ctx, order = self.ctx, (INPUT, OUTPUT, FORGET, CELL)
        steps, batch, depth = x.shape
        w, r = (np.concatenate([part[g].data for g in order]) for part in (self.w, self.r))
        rows = ctx.reshape(x, (steps * batch, depth))
        projected = ctx.emit("matmul", [rows, ctx.const(w.T)])
        bias = [self.bias[g] for g in order]
        projected = ctx.emit("add", [projected, ctx.emit("concat", bias, axis=0)])
        projected = ctx.reshape(projected, (steps, batch, w.shape[0]))
        functions = (("sigmoid", None, None), ("tanh", None, None), ("tanh", None, None))
        operands = [projected, ctx.const(r), self.h0, self.c0, None, None]
        attrs = {"activations": functions, "clip": float("inf"), "input_forget": False}
        y, h, c = ctx.emit_many("lstm", operands, reverse=backward, **attrs)
        self._store_states(h, c)
        return y

    def unrolled(self, x: Value, backward: bool) -> Value:
        def step(now: Value, h: Value, c: Value) -> tuple[Value, Value, Value]:
            h, c = self._step(now, h, c)
            return h, h, c

        y, (h, c) = step_by_step(self.ctx, x, (self.h0, self.c0), backward, step)
        self._store_states(h, c)
        return y

    def _step(self, x: Value, h: Value, c: Value) -> tuple[Value, Value]:
        ctx = self.ctx
        forget = self._gate(FORGET, x, h, c)
        if INPUT in self.gates:
            enter = self._gate(INPUT, x, h, c)
        else:
            enter = ctx.emit("sub", [ctx.like(1, forget), forget])
        new = self._activate(self._sum(CELL, x, h, None))
        kept, added = ctx.emit("mul", [forget, c]), ctx.emit("mul", [enter, new])
        c = self._clip(ctx.emit("add", [kept, added]), "cell_clip")
        h = ctx.emit("mul", [self._gate(OUTPUT, x, h, c), self._activate(c)])
        if self.projection is not None:
            h = ctx.add_optional(
                times(ctx, h, self.operand_indices.projection), self.projection_bias
            )
            h = self._clip(h, "proj_clip")
        return h, c

    def _gate(self, gate: int, x: Value, h: Value, c: Value) -> Value:
        return self.ctx.emit("sigmoid", [self._sum(gate, x, h, c)])

    def _sum(self, gate: int, x: Value, h: Value, c: Value | None) -> Value:
        ctx = self.ctx
        total = ctx.emit("add", [times(ctx, x, self.at_w[gate]), times(ctx, h, self.at_r[gate])])
        if self.peepholes[gate] is not None and c is not None:
            total = ctx.emit("add", [total, ctx.emit("mul", [c, self.peepholes[gate]])])
        if self.norms[gate] is not None:
            total = ctx.emit(
                "layer_norm", [total, self.norms[gate], None], axis=1, epsilon=1e-8, centre=True
            )
        return ctx.emit("add", [total, self.bias[gate]])

    def _activate(self, x: Value) -> Value:
        names = {1: "relu", 4: "tanh"}
        code = self.ctx.options["act"]
        if code == 3:
            return self.ctx.clamp(x, 0, 6)
        if code not in (0, *names):
            raise UnsupportedError(f"activation code {code} of a recurrent layer")
        return x if code == 0 else self.ctx.emit(names[code], [x])

    def _clip(self, x: Value, option: str) -> Value:
        bound = self.ctx.options[option]
        return self.ctx.clamp(x, -bound, bound) if bound > 0 else x

"""Recurrent layers of floats, written out step by step where the IR's own layer is not enough."""

from __future__ import annotations

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.ir import Value

from .context import OpContext
from .recurrent_int8 import quantized_lstm
from .registry import tflite_op

MAX_STEPS = 2000
INPUT, FORGET, CELL, OUTPUT = range(4)


@tflite_op(UNIDIRECTIONAL_SEQUENCE_LSTM=4)
def sequence_lstm(ctx: OpContext) -> Value:
    x = ctx.required(0)
    if x.dtype.name == "int8":
        return quantized_lstm(ctx, x)
    if x.dtype.name != "float32" or any(
        ctx.input(i) is not None and ctx.input(i).dtype.name != "float32" for i in range(1, 9)
    ):
        raise UnsupportedError(f"a layer of {x.dtype} with integer weights")
    if not ctx.options["time_major"]:
        x = ctx.transpose(x, (1, 0, 2))
    steps = x.shape[0]
    if steps > MAX_STEPS:
        raise UnsupportedError(f"a sequence of {steps} steps; at most {MAX_STEPS} are written out")
    cell = _Cell(ctx)
    y = cell.fused(x) if cell.is_plain else cell.written_out(x)
    return y if ctx.options["time_major"] else ctx.transpose(y, (1, 0, 2))


class _Cell:
    """One cell; gates in the format's order."""

    def __init__(self, ctx: OpContext) -> None:
        self.ctx = ctx
        self.w = [ctx.input(i) for i in range(1, 5)]
        self.r = [ctx.input(i) for i in range(5, 9)]
        self.peepholes = [ctx.input(9), ctx.input(10), None, ctx.input(11)]
        self.bias = [ctx.input(i) for i in range(12, 16)]
        self.projection, self.projection_bias = ctx.input(16), ctx.input(17)
        self.norms = [ctx.input(i) for i in range(20, 24)]
        self.gates = range(4) if self.w[INPUT] is not None else range(1, 4)
        missing = [g for g in self.gates if self.w[g] is None or self.r[g] is None]
        if missing or any(self.bias[g] is None for g in self.gates):
            raise ValueError("weights or biases of a gate are missing")
        self.h0, self.c0 = (self._state(i) for i in (18, 19))

    def _state(self, index: int) -> Value:
        """A state at the start of a run."""
        value = self.ctx.required(index)
        if value.type.rank != 2:
            raise ValueError(f"a state is {value.type}")
        return value

    @property
    def is_plain(self) -> bool:
        """Whether it is the IR's cell."""
        extra = (*self.peepholes, self.projection, *self.norms)
        clipped = self.ctx.options["cell_clip"] > 0
        constant = all(v.is_constant for g in self.gates for v in (self.w[g], self.r[g]))
        act = self.ctx.options["act"] == 4
        return len(self.gates) == 4 and constant and act and not clipped and not any(extra)

    def fused(self, x: Value) -> Value:
        ctx, order = self.ctx, (INPUT, OUTPUT, FORGET, CELL)
        steps, batch, depth = x.shape
        w, r = (np.concatenate([part[g].data for g in order]) for part in (self.w, self.r))
        rows = ctx.reshape(x, (steps * batch, depth))
        shares = ctx.emit("matmul", [rows, ctx.const(w.T)])
        bias = [self.bias[g] for g in order]
        shares = ctx.emit("add", [shares, ctx.emit("concat", bias, axis=0)])
        shares = ctx.reshape(shares, (steps, batch, w.shape[0]))
        functions = (("sigmoid", None, None), ("tanh", None, None), ("tanh", None, None))
        operands = [shares, ctx.const(r), self.h0, self.c0, None, None]
        made = ctx.builder.emit_many(
            "lstm", operands, ctx.name, reverse=False, activations=functions, clip=float("inf"),
            input_forget=False,
        )  # fmt: skip
        return made[0]

    def written_out(self, x: Value) -> Value:
        ctx = self.ctx
        h, c = self.h0, self.c0
        results = []
        for step in range(x.shape[0]):
            now = ctx.reshape(ctx.slice_axis(x, 0, step, 1), x.shape[1:])
            h, c = self._step(now, h, c)
            results.append(ctx.reshape(h, (1, *h.shape)))
        return results[0] if len(results) == 1 else ctx.emit("concat", results, axis=0)

    def _step(self, x: Value, h: Value, c: Value) -> tuple[Value, Value]:
        ctx = self.ctx
        forget = self._gate(FORGET, x, h, c)
        if INPUT in self.gates:
            enter = self._gate(INPUT, x, h, c)
        else:
            enter = ctx.emit("sub", [ctx.like(1, forget), forget])
        new = self._activated(self._sum(CELL, x, h, None))
        kept, added = ctx.emit("mul", [forget, c]), ctx.emit("mul", [enter, new])
        c = self._clipped(ctx.emit("add", [kept, added]), "cell_clip")
        h = ctx.emit("mul", [self._gate(OUTPUT, x, h, c), self._activated(c)])
        if self.projection is not None:
            h = ctx.emit("matmul", [h, ctx.transpose(self.projection, (1, 0))])
            if self.projection_bias is not None:
                h = ctx.emit("add", [h, self.projection_bias])
            h = self._clipped(h, "proj_clip")
        return h, c

    def _gate(self, gate: int, x: Value, h: Value, c: Value) -> Value:
        return self.ctx.emit("sigmoid", [self._sum(gate, x, h, c)])

    def _sum(self, gate: int, x: Value, h: Value, c: Value | None) -> Value:
        ctx = self.ctx
        parts = [ctx.emit("matmul", [v, ctx.transpose(w[gate], (1, 0))])
                 for v, w in ((x, self.w), (h, self.r))]  # fmt: skip
        total = ctx.emit("add", parts)
        if self.peepholes[gate] is not None and c is not None:
            total = ctx.emit("add", [total, ctx.emit("mul", [c, self.peepholes[gate]])])
        if self.norms[gate] is not None:
            total = ctx.emit(
                "layer_norm", [total, self.norms[gate], None], axis=1, epsilon=1e-8, centre=True
            )
        return ctx.emit("add", [total, self.bias[gate]])

    def _activated(self, x: Value) -> Value:
        names = {1: "relu", 4: "tanh"}
        code = self.ctx.options["act"]
        if code == 3:
            return self.ctx.clamp(x, 0, 6)
        if code not in (0, *names):
            raise UnsupportedError(f"activation number {code} of a recurrent layer")
        return x if code == 0 else self.ctx.emit(names[code], [x])

    def _clipped(self, x: Value, option: str) -> Value:
        bound = self.ctx.options[option]
        return self.ctx.clamp(x, -bound, bound) if bound > 0 else x

"""LSTM of bytes with gates and cells of 16 bits, written out step by step."""

from __future__ import annotations

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.ir import Value
from tvmrt.ir.multiplier import multiplier

from .context import OpContext
from .multipliers import f32, power_of_two, ratio
from .requantize import scaled
from .steps import step_by_step

INPUT, FORGET, CELL, OUTPUT = range(4)


def quantized_lstm(ctx: OpContext, x: Value) -> Value:
    """Operands as UNIDIRECTIONAL_SEQUENCE_LSTM has them, x in int8."""
    extra = [i for i in (9, 10, 11, 16, 17, 20, 21, 22, 23) if ctx.input(i) is not None]
    if extra or ctx.options["act"] != 4:
        raise UnsupportedError("peepholes, projections and norms of a layer of bytes")
    if not ctx.options["time_major"]:
        x = ctx.transpose(x, (1, 0, 2))
    y = _Cell(ctx).run(x)
    return y if ctx.options["time_major"] else ctx.transpose(y, (1, 0, 2))


class _Cell:
    """One cell; its gates side by side in the format's order."""

    def __init__(self, ctx: OpContext) -> None:
        self.ctx = ctx
        self.gates = range(4) if ctx.input(1) is not None else range(1, 4)
        self.x_scale, self.x_zero = ctx.per_tensor(ctx.tensor(0))
        self.h_scale, self.h_zero = ctx.per_tensor(ctx.tensor(18))
        cell = power_of_two(ctx.per_tensor(ctx.tensor(19))[0])
        if cell is None or not -15 <= cell <= -11:
            raise UnsupportedError("a cell state whose scale is no power of two from -15 to -11")
        self.cell = cell
        if len(ctx.op.intermediates) != 5 or ctx.op.intermediates[4] < 0:
            raise ValueError("it has no scale of its hidden state")
        hidden = ctx.subgraph.tensors[ctx.op.intermediates[4]]
        self.out_scale, self.out_zero = ctx.per_tensor(hidden)

    def _weights(self, first: int, scale: np.float32) -> tuple[Value, Value, Value]:
        """The matrix [K, gates * H], and a multiplier for each column."""
        ctx, parts, pairs = self.ctx, [], []
        for gate in self.gates:
            w = ctx.constant_of(first + gate, "the weights")
            if w.dtype != np.int8:
                raise UnsupportedError(f"weights of {w.dtype}")
            own = ctx.per_tensor(ctx.tensor(first + gate))[0]
            pair = multiplier(float(f32(f32(own * scale) / f32(2.0**-12))))
            parts.append(w.T)
            pairs += [pair] * len(w)
        m, e = (np.array(column, np.int32) for column in zip(*pairs))
        return ctx.const(np.concatenate(parts, axis=1)), ctx.const(m), ctx.const(e)

    def _shares(self, rows: Value, zero: int, weights: tuple, bias: Value | None) -> Value:
        ctx = self.ctx
        matrix, m, e = weights
        operands = [rows, matrix, ctx.const(1.0, np.float32), bias, None]
        sums = ctx.emit("qmatmul", operands, x_zero=zero, to="int32")
        return ctx.emit("fixed_scale", [sums, m, e])

    def run(self, x: Value) -> Value:
        ctx = self.ctx
        steps, batch, depth = x.shape
        bias = [ctx.constant_of(12 + gate, "the bias") for gate in self.gates]
        rows = ctx.reshape(x, (steps * batch, depth))
        weights = self._weights(1, self.x_scale)
        shares = self._shares(rows, self.x_zero, weights, ctx.const(np.concatenate(bias)))
        shares = self._saturated(shares)
        shares = ctx.reshape(shares, (steps, batch, shares.shape[1]))
        recurrent = self._weights(5, self.h_scale)
        h, c = ctx.required(18), ctx.cast(ctx.required(19), "int32")

        def step(now: Value, h: Value, c: Value) -> tuple[Value, Value, Value]:
            own = self._shares(h, self.h_zero, recurrent, None)
            h, c = self._step(self._saturated(ctx.emit("add", [now, own])), c)
            return h, h, c

        y, (h, c) = step_by_step(ctx, shares, (h, c), False, step)
        ctx.leave(18, h)
        ctx.leave(19, ctx.cast(c, "int16"))
        return y

    def _saturated(self, x: Value) -> Value:
        return self.ctx.clamp(x, -32768, 32767)

    def _step(self, sums: Value, c: Value) -> tuple[Value, Value]:
        ctx, units = self.ctx, c.shape[1]
        parts = {
            gate: ctx.slice_axis(sums, 1, i * units, units) for i, gate in enumerate(self.gates)
        }
        forget = ctx.emit("fixed_logistic16", [parts[FORGET]])
        if INPUT in parts:
            enter = ctx.emit("fixed_logistic16", [parts[INPUT]])
        else:
            enter = ctx.emit("sub", [ctx.const(32767, np.int32), forget])
        new = ctx.emit("fixed_tanh16", [parts[CELL], ctx.const(3, np.int32)])
        kept = self._product(forget, c, 15)
        c = self._saturated(ctx.emit("add", [kept, self._product(enter, new, 30 + self.cell)]))
        clip = ctx.options["cell_clip"]
        if clip > 0:
            bound = int(min(clip / 2.0**self.cell, 32767))
            c = ctx.clamp(c, -bound, bound)
        bent = ctx.emit("fixed_tanh16", [c, ctx.const(15 + self.cell, np.int32)])
        gate = ctx.emit("fixed_logistic16", [parts[OUTPUT]])
        h = scaled(ctx, ctx.emit("mul", [gate, bent]), ratio(2.0**-30, float(self.out_scale)))
        h = ctx.emit("add", [h, ctx.const(self.out_zero, np.int32)])
        return ctx.cast(ctx.clamp(h, -128, 127), "int8"), c

    def _product(self, a: Value, b: Value, by: int) -> Value:
        both = self.ctx.emit("mul", [a, b])
        return self.ctx.emit("fixed_shift", [both, self.ctx.const(by, np.int32)])

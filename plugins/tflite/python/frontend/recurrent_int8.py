"""int8 LSTM with 16-bit gates and cell state, unrolled step by step."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.sdk.arithmetic import multiplier
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.context import OpContext
from tvmrt.plugins.tflite.frontend.multipliers import f32, power_of_two, ratio
from tvmrt.plugins.tflite.frontend.requantize import scale_fixed_point
from tvmrt.plugins.tflite.frontend.sequence_loop import step_by_step

INPUT, FORGET, CELL, OUTPUT = range(4)


def quantized_lstm(ctx: OpContext, x: Value) -> Value:
    """Import UNIDIRECTIONAL_SEQUENCE_LSTM with an int8 input."""
    extra = [i for i in (9, 10, 11, 16, 17, 20, 21, 22, 23) if ctx.input(i) is not None]
    if extra or ctx.options["act"] != 4:
        raise UnsupportedError("peepholes, projections and normalisation of an int8 layer")
    if not ctx.options["time_major"]:
        x = ctx.transpose(x, (1, 0, 2))
    y = _Cell(ctx).run(x)
    return y if ctx.options["time_major"] else ctx.transpose(y, (1, 0, 2))


class _Cell:
    """One int8 LSTM cell; gates are concatenated in the format's order."""

    def __init__(self, ctx: OpContext) -> None:
        self.ctx = ctx
        self.gates = range(4) if ctx.input(1) is not None else range(1, 4)
        self.x_scale, self.x_zero = ctx.per_tensor(ctx.tensor(0))
        self.h_scale, self.h_zero = ctx.per_tensor(ctx.tensor(18))
        cell = power_of_two(ctx.per_tensor(ctx.tensor(19))[0])
        if cell is None or not -15 <= cell <= -11:
            raise UnsupportedError("a cell state whose scale is not a power of two from -15 to -11")
        self.cell = cell
        # TensorFlow Lite Micro does not support a coupled input gate (1 - forget gate)
        self.micro = ctx.micro and ctx.input(1) is not None
        if self.micro:
            self.out_scale, self.out_zero = self.h_scale, self.h_zero
            return
        if len(ctx.op.intermediates) != 5 or ctx.op.intermediates[4] < 0:
            raise ValueError("its hidden state has no scale")
        hidden = ctx.subgraph.tensors[ctx.op.intermediates[4]]
        self.out_scale, self.out_zero = ctx.per_tensor(hidden)

    def _weights(self, first: int, scale: np.float32) -> tuple[Value, Value, Value]:
        """Return the weights [K, gates * H], and a quantized multiplier for each column."""
        ctx, parts, pairs = self.ctx, [], []
        for gate in self.gates:
            w = ctx.constant_operand(first + gate, "the weights")
            if w.dtype != np.int8:
                raise UnsupportedError(f"weights of {w.dtype}")
            own = ctx.per_tensor(ctx.tensor(first + gate))[0]
            pair = multiplier(float(f32(f32(own * scale) / f32(2.0**-12))))
            parts.append(w.T)
            pairs += [pair] * len(w)
        m, e = (np.array(column, np.int32) for column in zip(*pairs))
        return ctx.const(np.concatenate(parts, axis=1)), ctx.const(m), ctx.const(e)

    def _project(self, rows: Value, zero: int, weights: tuple, bias: Value | None) -> Value:
        ctx = self.ctx
        matrix, m, e = weights
        operands = [rows, matrix, ctx.const(1.0, np.float32), bias, None]
        accumulators = ctx.emit("qmatmul", operands, x_zero=zero, to="int32")
        return ctx.emit("fixed_scale", [accumulators, m, e])

    def run(self, x: Value) -> Value:
        ctx = self.ctx
        steps, batch, depth = x.shape
        bias = [ctx.constant_operand(12 + gate, "the bias") for gate in self.gates]
        rows = ctx.reshape(x, (steps * batch, depth))
        weights = self._weights(1, self.x_scale)
        projected = self._project(rows, self.x_zero, weights, ctx.const(np.concatenate(bias)))
        projected = self._saturate_int16(projected)
        projected = ctx.reshape(projected, (steps, batch, projected.shape[1]))
        recurrent = self._weights(5, self.h_scale)
        h, c = ctx.required(18), ctx.cast(ctx.required(19), "int32")

        def step(now: Value, h: Value, c: Value) -> tuple[Value, Value, Value]:
            own = self._project(h, self.h_zero, recurrent, None)
            own = self._saturate_int16(own) if self.micro else own
            h, c = self._step(self._saturate_int16(ctx.emit("add", [now, own])), c)
            return h, h, c

        y, (h, c) = step_by_step(ctx, projected, (h, c), False, step)
        ctx.set_variable_operand(18, h)
        ctx.set_variable_operand(19, ctx.cast(c, "int16"))
        return y

    def _saturate_int16(self, x: Value) -> Value:
        return self.ctx.clamp(x, -32768, 32767)

    def _step(self, accumulators: Value, c: Value) -> tuple[Value, Value]:
        ctx, units = self.ctx, c.shape[1]
        parts = {
            gate: ctx.slice_axis(accumulators, 1, i * units, units)
            for i, gate in enumerate(self.gates)
        }
        forget = self._logistic(parts[FORGET])
        if INPUT in parts:
            enter = self._logistic(parts[INPUT])
        else:
            enter = ctx.emit("sub", [ctx.const(32767, np.int32), forget])
        new = self._tanh(parts[CELL], -12)
        remembered = self._product(forget, c, 15)
        c = self._saturate_int16(
            ctx.emit("add", [remembered, self._product(enter, new, 30 + self.cell)])
        )
        clip = ctx.options["cell_clip"]
        if clip > 0:
            bound = int(min(clip / 2.0**self.cell, 32767))
            c = ctx.clamp(c, -bound, bound)
        end = self._tanh(c, self.cell)
        gate = self._logistic(parts[OUTPUT])
        h = scale_fixed_point(
            ctx, ctx.emit("mul", [gate, end]), ratio(2.0**-30, float(self.out_scale))
        )
        h = ctx.emit("add", [h, ctx.const(self.out_zero, np.int32)])
        return ctx.cast(ctx.clamp(h, -128, 127), "int8"), c

    def _logistic(self, x: Value) -> Value:
        """Apply the logistic function to a gate with 12 fraction bits."""
        if self.micro:
            return self.ctx.emit("fixed_logistic_by_table", [self._table_index(x, 0)])
        return self.ctx.emit("fixed_logistic16", [x])

    def _tanh(self, x: Value, power: int) -> Value:
        """Apply tanh to int16 with the scale 2 ** power."""
        if self.micro:
            return self.ctx.emit("fixed_tanh_by_table", [self._table_index(x, 12 + power)])
        return self.ctx.emit("fixed_tanh16", [x, self.ctx.const(15 + power, np.int32)])

    def _table_index(self, x: Value, shift: int) -> Value:
        """Return 3 * x * 2 ** shift: the index scale of the logistic function's table."""
        ctx = self.ctx
        y = ctx.emit("mul", [x, ctx.const(3 << max(shift, 0), np.int32)])
        if shift >= 0:
            return y
        y = ctx.emit("add", [y, ctx.const(1 << (-shift - 1), np.int32)])
        return ctx.emit("shift_right", [y, ctx.const(-shift, np.int32)])

    def _product(self, a: Value, b: Value, by: int) -> Value:
        """Return a * b / 2 ** by; TensorFlow Lite Micro uses its fixed-point multiplication."""
        both = self.ctx.emit("mul", [a, b])
        if self.micro:
            return self._saturate_int16(scale_fixed_point(self.ctx, both, 2.0**-by))
        return self.ctx.emit("fixed_shift", [both, self.ctx.const(by, np.int32)])

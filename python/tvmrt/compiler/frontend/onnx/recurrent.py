"""LSTM, GRU and RNN: all directions, layouts, initial states, lengths and activations."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.recurrent import ACTIVATIONS
from tvmrt.error import UnsupportedError

from .context import NodeContext
from .registry import onnx_op

# default alpha and beta; None if the function does not take the parameter
_ACTIVATIONS: dict[str, tuple[float | None, float | None]] = {
    "affine": (1.0, 0.0),
    "elu": (1.0, None),
    "hardsigmoid": (0.2, 0.5),
    "leakyrelu": (0.01, None),
    "relu": (None, None),
    "scaledtanh": (1.0, 1.0),
    "sigmoid": (None, None),
    "softplus": (None, None),
    "softsign": (None, None),
    "tanh": (None, None),
    "thresholdedrelu": (1.0, None),
}


LSTM = "lstm"


@onnx_op("LSTM", "GRU", "RNN")
def recurrent(ctx: NodeContext) -> list[Value | None]:
    cell = ctx.op.lower()
    direction = ctx.attr("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    batch_first = bool(ctx.attr("layout", 0))
    x = ctx.required(0)
    ctx.require_float32(x)
    if batch_first:
        x = ctx.transpose(x, (1, 0, 2))
    ctx.required(1)
    ctx.required(2)
    lengths = sequence_lengths(ctx, x.shape[0])
    functions = parse_activations(ctx, cell, directions)
    results = []
    for d in range(directions):
        part = _Direction(ctx, cell, d, batch_first, x, lengths)
        reverse = direction == "reverse" or d == 1
        results.append(part.emit(reverse, functions[d]))
    return stack_directions(ctx, results, batch_first)


def stack_directions(
    ctx: NodeContext, results: list[list[Value]], batch_first: bool
) -> list[Value]:
    """Return Y [T, D, B, H] and the last states [D, B, H], or both with the batch first."""
    outputs = []
    for i, parts in enumerate(zip(*results)):
        axis = 1 if i == 0 else 0
        joined = ctx.concat([ctx.unsqueeze(v, axis) for v in parts], axis)
        if batch_first:
            joined = ctx.transpose(joined, (2, 0, 1, 3) if i == 0 else (1, 0, 2))
        outputs.append(joined)
    return outputs


def sequence_lengths(ctx: NodeContext, steps: int) -> Value | None:
    lengths = ctx.input(4)
    if lengths is None or (lengths.data is not None and bool(np.all(lengths.data == steps))):
        return None
    return ctx.cast(lengths, "int32")


def parse_activations(ctx: NodeContext, cell: str, directions: int) -> list[tuple]:
    """Return a (name, alpha, beta) for each function of the cell, per direction; ``cell``: the
    operator of the IR."""
    names = ctx.attr("activations") or ACTIVATIONS[cell] * directions
    alphas = list(ctx.attr("activation_alpha", []))
    betas = list(ctx.attr("activation_beta", []))
    rows = []
    for name in names:
        key = name.lower()
        if key not in _ACTIVATIONS:
            raise UnsupportedError(f"activation {name} is not one of ONNX's recurrent functions")
        alpha, beta = _ACTIVATIONS[key]
        if alpha is not None and alphas:
            alpha = alphas.pop(0)
        if beta is not None and betas:
            beta = betas.pop(0)
        rows.append((key, alpha, beta))
    count = len(ACTIVATIONS[cell])
    if len(rows) != count * directions:
        raise ValueError(f"{len(rows)} activations; {count} for each direction expected")
    return [tuple(rows[d * count : (d + 1) * count]) for d in range(directions)]


class _Direction:
    """One direction of a recurrent node: its slices of the weights and states."""

    def __init__(self, ctx: NodeContext, cell: str, d: int, batch_first, x, lengths) -> None:
        self.ctx = ctx
        self.cell = cell
        self.d = d
        self.batch_first = batch_first
        self.x = x
        self.lengths = lengths
        self.w, self.r = self._slice_direction(1), self._slice_direction(2)
        self.hidden = self.r.shape[-1]

    def _slice_direction(self, index: int, axis: int = 0) -> Value | None:
        """Return this direction's part of an input; None if the input is omitted."""
        value = self.ctx.input(index)
        return None if value is None else self.ctx.element(value, axis, self.d)

    def _state(self, index: int) -> Value | None:
        state = self._slice_direction(index, 1 if self.batch_first else 0)
        return None if state is None or _is_zero(state) else state

    def emit(self, reverse: bool, functions: tuple) -> list[Value]:
        ctx, op = self.ctx, self.cell
        before_reset = bool(ctx.attr("linear_before_reset", 0))
        bias, recurrent_bias = self._biases(before_reset)
        input_projection = ctx.emit("matmul", [self.x, ctx.transpose(self.w, (1, 0))])
        if bias is not None:
            input_projection = ctx.emit("add", [input_projection, bias])
        clip = ctx.attr("clip")
        attrs = {
            "reverse": reverse,
            "activations": functions,
            "clip": float("inf") if clip is None else float(clip),
        }
        initial = self._state(5)
        if op == "lstm":
            attrs["input_forget"] = bool(ctx.attr("input_forget", 0))
            optional_inputs = [initial, self._state(6), self._slice_direction(7), self.lengths]
        elif op == "gru":
            attrs["linear_before_reset"] = before_reset
            optional_inputs = [initial, recurrent_bias, self.lengths]
        else:
            optional_inputs = [initial, self.lengths]
        return ctx.emit_many(op, [input_projection, self.r, *optional_inputs], **attrs)

    def _biases(self, before_reset: bool) -> tuple[Value | None, Value | None]:
        """Return the bias added to the input's product, and the bias of the recurrent product."""
        biases = self._slice_direction(3)
        if biases is None:
            return None, None
        ctx, size = self.ctx, self.r.shape[0]
        of_input, of_state = (ctx.slice_axis(biases, 0, k * size, size) for k in (0, 1))
        if not before_reset:
            return ctx.emit("add", [of_input, of_state]), None
        hidden = ctx.slice_axis(of_state, 0, 2 * self.hidden, self.hidden)
        gates = ctx.slice_axis(of_state, 0, 0, 2 * self.hidden)
        none = ctx.const(np.zeros(self.hidden), biases.dtype.numpy)
        padded = ctx.emit("concat", [gates, none], axis=0)
        return ctx.emit("add", [of_input, padded]), hidden


def _is_zero(value: Value) -> bool:
    return value.data is not None and not np.any(value.data)

"""DynamicQuantizeLSTM: LSTM with int8 weights."""

from __future__ import annotations

from tvmrt.compiler.sdk.frontend import (
    LSTM,
    NodeContext,
    dequantize,
    dequantize_accumulator,
    dynamic_quantized,
    integer_matmul,
    parse_activations,
    sequence_lengths,
    stack_directions,
)
from tvmrt.compiler.sdk.graph import Value
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op


@ms_op(
    "DynamicQuantizeLSTM",
    takes=(
        "x: E=float[T B I], w: byte[D I 4*H], r: byte[D H 4*H], bias?: E[D 8*H], "
        "lengths?: int32[B], initial_h?: E[D B H], initial_c?: E[D B H], peepholes?: E[D 3*H], "
        "w_scale: E[*], w_zero: byte[*], r_scale: E[*], r_zero: byte[*]"
    ),
    attributes=(
        "activation_alpha?: floats, activation_beta?: floats, activations?: object, "
        "clip?: float 0.., direction?: forward|reverse|bidirectional, hidden_size?: int 1.., "
        "input_forget?: int 0..1"
    ),
)
def dynamic_quantize_lstm(ctx: NodeContext) -> list[Value]:
    """The input is quantised by its range, as in onnxruntime. The state, which onnxruntime also
    quantises at each step, stays in float32, so that results are closer to a float LSTM."""
    x, lengths = ctx.required(0), sequence_lengths(ctx, ctx.required(0).shape[0])
    ctx.require_float32(x)
    direction = ctx.attr("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    if ctx.required(1).shape[0] != directions:
        raise ValueError(f"weights of {ctx.required(1).shape[0]} directions, not {directions}")
    functions = parse_activations(ctx, LSTM, directions)
    clip = ctx.attr("clip")
    quantized = dynamic_quantized(ctx, x)
    results = []
    for d in range(directions):
        weights = _direction_weights(ctx, 2, d, directions)
        state = dequantize(ctx, weights[0], *weights[1:], axis=1)
        results.append(
            ctx.emit_many(
                "lstm",
                [
                    _input_projection(ctx, quantized, d, directions),
                    ctx.transpose(state, (1, 0)),
                    *(_slice_direction(ctx, ctx.input(i), d) for i in (5, 6, 7)),
                    lengths,
                ],
                reverse=direction == "reverse" or d == 1,
                activations=functions[d],
                clip=float("inf") if clip is None else float(clip),
                input_forget=bool(ctx.attr("input_forget", 0)),
            )
        )
    return stack_directions(ctx, results, False)


def _input_projection(
    ctx: NodeContext, quantized: tuple[Value, Value, Value], d: int, count: int
) -> Value:
    """Return the input's contribution to all gates of one direction, including biases."""
    q, scale, zero = quantized
    weights, w_scale, w_zero = _direction_weights(ctx, 1, d, count)
    both, bias = _slice_direction(ctx, ctx.input(3), d), None
    if both is not None:
        size = both.shape[0] // 2
        bias = ctx.emit("add", [ctx.slice_axis(both, 0, i * size, size) for i in (0, 1)])
    return dequantize_accumulator(
        ctx, integer_matmul(ctx, q, weights, zero, w_zero), scale, w_scale, bias
    )


def _direction_weights(
    ctx: NodeContext, index: int, d: int, count: int
) -> tuple[Value, Value, Value]:
    """Return weights, scale and zero point (scalars or per column) of one direction."""
    weights = _slice_direction(ctx, ctx.required(index), d)
    at = 8 if index == 1 else 10
    found = []
    for i in (at, at + 1):
        rows = ctx.reshape(ctx.required(i), (count, ctx.required(i).type.size // count))
        row = _slice_direction(ctx, rows, d)
        found.append(ctx.reshape(row, ()) if row.type.size == 1 else row)
    return (weights, *found)


def _slice_direction(ctx: NodeContext, value: Value | None, d: int) -> Value | None:
    return None if value is None else ctx.element(value, 0, d)

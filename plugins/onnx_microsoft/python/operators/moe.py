"""Mixture of experts: each token is computed by the k experts with the largest router values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np

from tvmrt.compiler.sdk.arithmetic import ceil_div
from tvmrt.compiler.sdk.frontend import (
    NodeContext,
    emit_gelu,
    emit_matmul,
    emit_swish,
    select_under_guard,
    softmax_along,
)
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_microsoft.operators.block_quantized import (
    multiply_by_blocks,
    unpack_constant,
)
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op, reject_inputs, require_attributes

Projection = Callable[[Value], Value]  # of the rows of x, by the weights of one expert

_ATTRIBUTES = (
    "activation_alpha?: float, activation_beta?: float, "
    "activation_type?: relu|gelu|silu|swiglu|identity|relu2|geglu, k?: int 1.., "
    "normalize_routing_weights?: int 0..1, swiglu_fusion?: int 0..2, swiglu_limit?: float, "
    "swiglu_limit_after_activation?: int, use_sparse_mixer?: int"
)


@ms_op(
    "MoE",
    takes=(
        "x: E=float[*X{2..3}], router_probs: E[_ N], fc1_weights: E[N F H], fc1_bias?: E[N F], "
        "fc2_weights: E[N H I], fc2_bias?: E[N H], fc3_weights?: E[N I H], fc3_bias?: E[N I]"
    ),
    attributes=_ATTRIBUTES,
)
def mixture_of_experts(ctx: NodeContext) -> Value:
    routes = _route(ctx, bool(ctx.attr("normalize_routing_weights", 0)))

    def projection(index: int, expert: int) -> Projection | None:
        weights, bias = ctx.input(index), ctx.input(index + 1)
        if weights is None:
            return None
        rows = ctx.swap_last_axes(ctx.element(weights, 0, expert))
        shift = None if bias is None else ctx.element(bias, 0, expert)
        return lambda x: ctx.add_optional(emit_matmul(ctx, x, rows), shift)

    return _mix(ctx, routes, lambda e: [projection(i, e) for i in (2, 4, 6)])


_NUMBERS = ("global_scale", "act_scale", "act_block_scale")


@ms_op(
    "QMoE",
    takes=(
        "x: E=float[*X{2..3}], router_probs: E[_ N], fc1_weights: uint8[N F _], fc1_scales: "
        "E[N F *], fc1_bias?: E[N F], fc2_weights: uint8[N H _], fc2_scales: E[N H *], "
        "fc2_bias?: E[N H], fc3_weights?: uint8[N I _], fc3_scales?: E[N I *], fc3_bias?: E[N I], "
        "fc1_zero_points?: uint8[N *], fc2_zero_points?: uint8[N *], fc3_zero_points?: uint8[N *], "
        "router_weights?: E[_ N], "
        + ", ".join(f"fc{i}_{name}?: any[*]" for name in _NUMBERS for i in (1, 2))
    ),
    attributes=(
        f"{_ATTRIBUTES}, accuracy_level?: int, block_size?: int, expert_weight_bits?: int, "
        "fc1_expert_weight_bits?: int, fc2_expert_weight_bits?: int, fc3_expert_weight_bits?: int, "
        "quant_type?: text, weights_prepacked?: int -1..1"
    ),
)
def quantized_mixture_of_experts(ctx: NodeContext) -> Value:
    """Weights stay packed in the library. Like onnxruntime on CPUs, router values are always
    normalised unless ``router_weights`` is given."""
    require_attributes(ctx, quant_type="int")
    if ctx.attr("weights_prepacked", -1) == 1:
        raise UnsupportedError("attribute weights_prepacked is 1; only -1 and 0 are supported")
    names = [f"fc{i}_{name}" for name in _NUMBERS for i in (1, 2)]
    reject_inputs(ctx, **{name: 15 + i for i, name in enumerate(names)})
    given = ctx.input(14)
    normalized = given is None or bool(ctx.attr("normalize_routing_weights", 0))
    routes = _route(ctx, normalized, given)
    layers = [_Layer.of(ctx, i) for i in (1, 2, 3)]
    return _mix(ctx, routes, lambda e: [f and f.projection(ctx, e) for f in layers])


@dataclass
class _Layer:
    """Quantised weights of one projection of all experts: packed [N, rows, bytes], scales and
    zero points [N, rows, blocks] in blocks of ``block``."""

    packed: np.ndarray
    scales: np.ndarray
    points: np.ndarray | None
    bias: Value | None
    bits: int
    block: int
    width: int

    @staticmethod
    def of(ctx: NodeContext, number: int) -> _Layer | None:
        """Return the layer with a number from 1 to 3; None if it is omitted."""
        index = 3 * number - 1
        packed = ctx.constant_operand(index, f"fc{number}_weights")
        if packed is None:
            return None
        scales = ctx.constant_operand(index + 1, f"fc{number}_scales")
        points = ctx.constant_operand(10 + number, f"fc{number}_zero_points")
        bits = ctx.attr(f"fc{number}_expert_weight_bits", ctx.attr("expert_weight_bits", 4))
        if bits not in (2, 4, 8):
            raise UnsupportedError(f"fc{number} has weights of {bits} bits; 2, 4, 8 are supported")
        if scales is None:
            raise ValueError(f"input {index + 1} (fc{number}_scales) is missing")
        experts, rows, size = packed.shape
        width, block = size * 8 // bits, ctx.attr("block_size", 0)
        blocks = ceil_div(width, block) if block > 0 else 1
        if scales.size != experts * rows * blocks:
            raise ValueError(
                f"{scales.size} scales of fc{number} for {rows} rows of {blocks} blocks"
            )
        if points is not None:
            by_row = (
                points.reshape(experts, rows, -1) if block > 0 else points.reshape(experts, 1, -1)
            )
            points = unpack_constant(by_row, bits)
            points = points[..., :blocks] if block > 0 else points[:, 0, :rows]
            points = points.reshape(experts, rows, blocks).astype(np.float32)
        scales = scales.reshape(experts, rows, blocks).astype(np.float32)
        bias = ctx.input(index + 2)
        return _Layer(packed, scales, points, bias, bits, block if block > 0 else width, width)

    def projection(self, ctx: NodeContext, expert: int) -> Projection:
        """Return the projection of one expert."""
        numbers = unpack_constant(self.packed[expert], self.bits)
        scales = self.scales[expert]
        points = None if self.points is None else self.points[expert]
        bias = None if self.bias is None else ctx.element(self.bias, 0, expert)
        return lambda x: ctx.add_optional(
            multiply_by_blocks(ctx, x, numbers, scales, points, self.bits, self.block), bias
        )


@dataclass
class _Routes:
    """Experts of each token, int64 [T, k], and their weights [T, k]."""

    experts: Value
    weights: Value

    def weights_of(self, ctx: NodeContext, expert: int) -> tuple[Value, Value]:
        """Return whether a token uses the expert, bool [], and its weight for each [T, 1]."""
        chosen = ctx.emit("equal", [self.experts, ctx.const(expert, np.int64)])
        any_token = ctx.emit("reduce_max", [ctx.cast(chosen, "int32")], axes=(0, 1), keepdims=0)
        weights = ctx.emit("where", [chosen, self.weights, ctx.like(0, self.weights)])
        column = ctx.emit("reduce_sum", [weights], axes=(1,), keepdims=1)
        return ctx.cast(any_token, "bool"), column


def _route(ctx: NodeContext, normalized: bool, given: Value | None = None) -> _Routes:
    """Select the experts by the router's logits. Their weights are softmax, of the selected ones if
    ``normalized``, or else the ``given`` ones."""
    require_attributes(ctx, use_sparse_mixer=0)
    logits, k = ctx.required(1), ctx.attr("k", 1)
    if k > logits.shape[1]:
        raise ValueError(f"attribute k is {k} for {logits.shape[1]} experts")
    if given is None and not normalized:
        logits = softmax_along(ctx, logits, 1)
    values, experts = ctx.emit_many("topk", [logits], k=k, axis=1, largest=1)
    if given is not None:
        values = ctx.emit("gather_elements", [given, experts], axis=1)
        if normalized:
            total = ctx.emit("reduce_sum", [values], axes=(1,), keepdims=1)
            values = ctx.emit("div", [values, total])
    elif normalized:
        values = softmax_along(ctx, values, 1)
    return _Routes(experts, values)


def _mix(
    ctx: NodeContext, routes: _Routes, layers: Callable[[int], list[Projection | None]]
) -> Value:
    """Return the weighted sum of the experts. An expert that no token uses is skipped; others
    compute all tokens."""
    x, count = ctx.required(0), ctx.required(1).shape[1]
    rows = ctx.reshape(x, (prod(x.shape[:-1]), x.shape[-1]))
    if ctx.required(1).shape[0] != rows.shape[0]:
        raise ValueError(f"router_probs is {ctx.required(1).type} for {rows.shape[0]} tokens")
    total = ctx.expand(ctx.like(0, rows), rows.shape)
    for expert in range(count):
        used, column = routes.weights_of(ctx, expert)
        first, second, third = layers(expert)

        def add_expert(total=total, column=column, first=first, second=second, third=third):
            y = second(_hidden(ctx, first(rows), None if third is None else third(rows)))
            return ctx.emit("add", [total, ctx.emit("mul", [y, column])])

        total = select_under_guard(ctx, used, add_expert, total)
    return ctx.reshape(total, x.shape)


def _hidden(ctx: NodeContext, h: Value, linear: Value | None) -> Value:
    """Apply the activation to the first projection; gated ones use a second or its other half."""
    require_attributes(ctx, swiglu_limit_after_activation=0)
    kind, fusion = ctx.attr("activation_type", "relu"), ctx.attr("swiglu_fusion", 0)
    if kind in ("swiglu", "geglu") and fusion:
        if linear is not None:
            raise ValueError(f"fc3 is given, but swiglu_fusion is {fusion}")
        size = h.shape[1] // 2
        starts, step = ((0, 1), 2) if fusion == 1 else ((0, size), 1)
        h, linear = (ctx.slice_axis(h, 1, start, size, step) for start in starts)
    elif kind in ("swiglu", "geglu") and (linear is None or kind == "geglu"):
        raise ValueError(f"activation_type={kind} needs swiglu_fusion=1 or 2, or swiglu also fc3")
    if kind == "swiglu":
        return _swiglu(ctx, h, linear)
    y = {
        "relu": lambda: ctx.emit("relu", [h]),
        "relu2": lambda: ctx.emit("mul", [h, ctx.emit("relu", [h])]),
        "gelu": lambda: emit_gelu(ctx, h, tanh=True),
        "geglu": lambda: emit_gelu(ctx, h, tanh=True),
        "silu": lambda: emit_swish(ctx, h, 1.0),
        "identity": lambda: h,
    }[kind]()
    return y if linear is None else ctx.emit("mul", [y, linear])


def _swiglu(ctx: NodeContext, gate: Value, linear: Value) -> Value:
    limit, beta = ctx.attr("swiglu_limit"), ctx.attr("activation_beta", 0.0)
    if limit is not None:
        gate, linear = ctx.clamp(gate, None, limit), ctx.clamp(linear, -limit, limit)
    if beta:
        linear = ctx.emit("add", [linear, ctx.like(beta, linear)])
    return ctx.emit("mul", [emit_swish(ctx, gate, ctx.attr("activation_alpha", 1.0)), linear])

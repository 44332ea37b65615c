"""Linear attention: a matrix of state per head that each token updates, instead of a cache."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from tvmrt.compiler.sdk.frontend import (
    NodeContext,
    Step,
    emit_matmul,
    retype,
    scale_by,
    scan_steps,
)
from tvmrt.compiler.sdk.graph import SourceType, SymInt, Value
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op, reject_inputs, require_attributes

_RULES = "linear|gated|delta|gated_delta"


@dataclass
class Recurrence:
    """State S [B, H, K, V] per head, updated for each token in order::

        S = decay * S;  S = S + key (beta * (value - key S));  output = query S

    query [B, T, Q, K], key [B, T, N, K], value [B, T, H, V]. Heads of the state share a key head,
    and a query head if there are fewer of these; otherwise query heads share a head of the state.
    ``decay`` [B, T, H, K or 1] is a factor, ``beta`` is [B, T, H or 1, 1]; None leaves it out, with
    beta also the term ``key S``.
    """

    query: Value
    key: Value
    value: Value
    decay: Value | None
    beta: Value | None

    def run(self, ctx: NodeContext, state: Value) -> tuple[Value, Value]:
        """Return the output [B, T, max(Q, H), V] and the last state."""
        heads = self.value.shape[2]
        shared = self.query.shape[2] // heads or 1  # query heads of a state
        batch, steps, count, width = self.query.shape
        query = ctx.reshape(self.query, (batch, steps, count // shared, shared, width))
        parts = [_repeat_heads(ctx, v, heads) for v in (query, ctx.unsqueeze(self.key, 3))]
        parts.append(ctx.unsqueeze(self.value, 3))
        parts += [ctx.unsqueeze(v, 4) for v in (self.decay, self.beta) if v is not None]
        by_step = [ctx.transpose(v, (1, 0, 2, 3, 4)) for v in parts]
        (state,), (rows,) = scan_steps(ctx, self._step(ctx), [state], by_step, 1)
        y = ctx.transpose(rows, (1, 0, 2, 3, 4))
        return ctx.reshape(y, (batch, steps, heads * shared, self.value.shape[3])), state

    def _step(self, ctx: NodeContext) -> Step:
        has_decay, has_beta = self.decay is not None, self.beta is not None

        def step(carried: list[Value], slices: list[Value]) -> tuple[list[Value], list[Value]]:
            (state,), (query, key, update, *gates) = carried, slices
            if has_decay:
                state = ctx.emit("mul", [state, gates[0]])
            if has_beta:
                error = ctx.emit("sub", [update, emit_matmul(ctx, key, state)])
                update = ctx.emit("mul", [gates[-1], error])
            outer = ctx.emit("mul", [ctx.swap_last_axes(key), update])
            state = ctx.emit("add", [state, outer])
            return [state], [emit_matmul(ctx, query, state)]

        return step


def _repeat_heads(ctx: NodeContext, x: Value, heads: int) -> Value:
    """Repeat each head of [B, T, N, R, D] for consecutive heads of the state."""
    batch, steps, count, rows, width = x.shape
    if count < 1 or heads % count:
        raise ValueError(f"{heads} heads do not share {count} query or key heads")
    if count == heads:
        return x
    x = ctx.reshape(x, (batch, steps, count, 1, rows, width))
    x = ctx.expand(x, (batch, steps, count, heads // count, rows, width))
    return ctx.reshape(x, (batch, steps, heads, rows, width))


def _gates(ctx: NodeContext, decay: Value | None, beta: Value | None) -> list[Value | None]:
    """Return the gates of the update rule; others are None."""
    rule = ctx.attr("update_rule", "gated_delta")
    uses = {"decay": (decay, rule.startswith("gated")), "beta": (beta, rule.endswith("delta"))}
    for name, (value, used) in uses.items():
        if used and value is None:
            raise ValueError(f"input {name} is missing; update_rule={rule} needs it")
    return [value if used else None for value, used in uses.values()]


def _split(ctx: NodeContext, x: Value, heads: int) -> Value:
    """Reshape [B, T, heads * D] to [B, T, heads, D]."""
    if x.shape[2] % heads:
        raise ValueError(f"{x.shape[2]} features are not divisible into {heads} heads")
    return ctx.reshape(x, (*x.shape[:2], heads, x.shape[2] // heads))


@ms_op(
    "LinearAttention",
    takes=(
        "query: E=float[B T _], key: E[B T _], value: E[B T _], past_state?: E[B _ _ _], "
        "decay?: E[B T _], beta?: E[B T _]"
    ),
    attributes=(
        f"chunk_size?: int, kv_num_heads: int 1.., q_num_heads: int 1.., scale?: float, "
        f"state_window?: int, update_rule?: {_RULES}"
    ),
)
def linear_attention(ctx: NodeContext) -> list[Value]:
    require_attributes(ctx, state_window=0)
    count, heads = ctx.attr("q_num_heads"), ctx.attr("kv_num_heads")
    if max(count, heads) % min(count, heads):
        raise ValueError(
            f"{count} query heads and {heads} heads of the state do not share each other"
        )
    query = _split(ctx, ctx.required(0), count)
    batch, _, _, width = query.shape
    if ctx.required(1).shape[2] % width:
        raise ValueError(f"keys {ctx.required(1).type} have no heads of {width} features")
    key = _split(ctx, ctx.required(1), ctx.required(1).shape[2] // width)
    value = _split(ctx, ctx.required(2), heads)
    decay, beta = _gates(ctx, ctx.input(4), ctx.input(5))
    if decay is not None:
        decay = ctx.emit("exp", [_split(ctx, decay, heads)])
    if beta is not None:
        beta = ctx.unsqueeze(beta, 3)
    state = _state(ctx, ctx.input(3), query, (batch, heads, width, value.shape[3]))
    query = scale_by(ctx, query, ctx.attr("scale", 0.0) or 1.0 / sqrt(width))
    y, state = Recurrence(query, key, value, decay, beta).run(ctx, state)
    return [ctx.reshape(y, (*y.shape[:2], y.shape[2] * y.shape[3])), state]


def _state(ctx: NodeContext, state: Value | None, like: Value, shape: tuple) -> Value:
    """Return the initial state, which is zero if it is omitted."""
    if state is not None and state.shape != shape:
        raise ValueError(f"the initial state is {state.type}, expected the shape {shape}")
    return ctx.expand(ctx.like(0, like), shape) if state is None else state


@ms_op(
    "LinearAttentionGate",
    takes="a: E=float[B T H], dt_bias: float32[H], decay_scale: float32[H], b?: E[B T H]",
)
def linear_attention_gate(ctx: NodeContext) -> list[Value | None]:
    a, b = ctx.required(0), ctx.input(3)
    shifted = ctx.emit("add", [ctx.cast(a, "float32"), ctx.required(1)])
    decay = ctx.emit("mul", [ctx.required(2), ctx.emit("softplus", [shifted])])
    beta = None if b is None else ctx.emit("sigmoid", [b])
    return [ctx.cast(decay, a.dtype.name), beta]


@ms_op(
    "GatedDeltaNet",
    takes=(
        "query: E=float[*Q{2..4}], key?: E[*K{3..4}], value?: E[*V{3..4}], cu_seqlens?: int32[_], "
        "decay?: float[*], beta?: float[*], initial_state?: float32[_ _ _ _], a_log?: float32[_], "
        "dt_bias?: float32[*], capture_count?: int32[_], state_update_active?: int32[_]"
    ),
    attributes=(
        "beta_activation?: none|sigmoid, chunk_size?: int, "
        "gate_activation?: none|softplus|qwen|sigmoid|kda, gate_lower_bound?: float, "
        f"qk_l2_norm?: int 0..1, scale?: float, state_update_capacity?: int, update_rule?: {_RULES}"
    ),
)
def gated_delta_net(ctx: NodeContext) -> list[Value]:
    """Compute in float32. The state of the operator is [B, H, V, K], that of the recurrence
    [B, H, K, V]."""
    require_attributes(ctx, state_update_capacity=0)
    reject_inputs(ctx, cu_seqlens=3)
    query, key, value = _query_key_value(ctx)
    lead, heads, width, size = value.shape[:-2], value.shape[-2], query.shape[-1], value.shape[-1]
    count = query.shape[-2]
    if key.shape[-2] != count or heads % count:
        raise ValueError(f"{count} query, {key.shape[-2]} key and {heads} value heads do not fit")
    state = ctx.input(6)
    if state is None and len(lead) == 1:
        raise ValueError("initial_state is missing; it gives the number of sequences")
    batch = lead[0] if state is None else state.shape[0]
    steps = lead[1] if len(lead) == 2 else lead[0] // batch
    state = _state(ctx, state, query, (batch, heads, size, width))
    decay, beta = _gates(ctx, ctx.input(4), ctx.input(5))
    if decay is not None:
        decay = ctx.emit("exp", [_decay(ctx, decay, len(lead), heads, width)])
    if beta is not None:
        beta = ctx.unsqueeze(ctx.cast(beta, "float32"), len(lead) + 1)
        beta = ctx.emit("sigmoid", [beta]) if ctx.attr("beta_activation") == "sigmoid" else beta
    if ctx.attr("qk_l2_norm", 0):
        query, key = _normalize(ctx, query), _normalize(ctx, key)
    query = scale_by(ctx, query, ctx.attr("scale", 0.0) or 1.0 / sqrt(width))
    by_sequence = (
        None if v is None else ctx.reshape(v, (batch, steps, *v.shape[-2:]))
        for v in (query, key, value, decay, beta)
    )
    y, state = Recurrence(*by_sequence).run(ctx, ctx.swap_last_axes(state))
    y = ctx.cast(ctx.reshape(y, (*lead, heads, size)), ctx.required(0).dtype.name)
    return [y, retype(ctx.swap_last_axes(state), SourceType("float32"))]


def _query_key_value(ctx: NodeContext) -> list[Value]:
    """Return query, key and value in float32, as [tokens, heads, D] or [B, S, heads, D]."""
    query, key, value, state = ctx.required(0), *(ctx.input(i) for i in (1, 2, 6))
    if key is None:
        if state is None or value is not None:
            raise ValueError("a packed query needs initial_state, and takes no value")
        _, heads, size, width = state.shape
        count = (query.shape[-1] - heads * size) // (2 * width)
        sizes, lead = [count * width, count * width, heads * size], query.shape[:-1]
        if sum(sizes) != query.shape[-1]:
            raise ValueError(f"query {query.type} does not fit initial_state {state.type}")
        parts = [ctx.slice_axis(query, len(lead), sum(sizes[:i]), n) for i, n in enumerate(sizes)]
        query, key = (ctx.reshape(v, (*lead, count, width)) for v in parts[:2])
        value = ctx.reshape(parts[2], (*lead, heads, size))
    elif value is None or {len(v.shape) for v in (query, key, value)} not in ({3}, {4}):
        raise ValueError("query, key and value must all have three or all have four axes")
    return [ctx.cast(v, "float32") for v in (query, key, value)]


def _decay(ctx: NodeContext, decay: Value, axes: int, heads: int, width: SymInt) -> Value:
    """Return the logarithm of the decay [..., H, K or 1] after its activation."""
    decay = ctx.cast(decay, "float32")
    if len(decay.shape) == axes + 1:
        decay = ctx.unsqueeze(decay, axes + 1)
    activation = ctx.attr("gate_activation", "none")
    if activation == "none":
        return decay
    rate, bias = ctx.input(7), ctx.input(8)
    if rate is None or bias is None:
        raise ValueError(f"a_log or dt_bias is missing; gate_activation={activation} needs both")
    rate = ctx.emit("exp", [ctx.reshape(rate, (heads, 1))])
    decay = ctx.emit("add", [decay, ctx.reshape(bias, (heads, bias.type.size // heads))])
    if activation in ("softplus", "qwen"):
        return ctx.emit("neg", [ctx.emit("mul", [rate, ctx.emit("softplus", [decay])])])
    gate = ctx.emit("sigmoid", [ctx.emit("mul", [rate, decay])])
    return scale_by(ctx, gate, ctx.attr("gate_lower_bound", -5.0))


def _normalize(ctx: NodeContext, x: Value) -> Value:
    """Divide each vector of the last axis by its length."""
    squares = ctx.emit("mul", [x, x])
    total = ctx.emit("reduce_sum", [squares], axes=(len(x.shape) - 1,), keepdims=1)
    root = ctx.emit("sqrt", [ctx.emit("add", [total, ctx.like(1e-12, x)])])
    return ctx.emit("div", [x, root])

"""Matmul operators with fused transpositions, scaling and activations."""

from __future__ import annotations

from tvmrt.compiler.sdk.frontend import (
    ACTIVATIONS,
    NodeContext,
    emit_gelu,
    emit_matmul,
    gemm,
    numpy_matmul,
    softmax_along,
)
from tvmrt.compiler.sdk.graph import Value
from tvmrt.error import UnsupportedError
from tvmrt.plugins.onnx_microsoft.operators.domain import ms_op

_TRANSPOSITIONS = "alpha?: float, transA?: int, transB?: int"
_FUSED = "transBatchA?: int, transBatchB?: int"
_OPERANDS = "a: E=float[*A], b: E[*B]"
_ACTIVATION_PARAMETERS = ("alpha", "beta", "gamma")  # parameters of an activation, in ONNX's order


@ms_op("FusedMatMul", "TransposeMatMul", takes=_OPERANDS, attributes=f"{_TRANSPOSITIONS}, {_FUSED}")
def fused_matmul(ctx: NodeContext) -> Value:
    operands = []
    for index, side in enumerate("AB"):
        x = ctx.required(index)
        rank = len(x.shape)
        if ctx.attr(f"transBatch{side}", 0) and rank > 2:
            # the batch axes are between the two axes of the matrix
            x = ctx.transpose(x, (*range(1, rank - 1), 0, rank - 1))
        if ctx.attr(f"trans{side}", 0) and rank > 1:
            x = ctx.swap_last_axes(x)
        operands.append(x)
    return numpy_matmul(ctx, *operands, ctx.attr("alpha", 1.0))


@ms_op(
    "FusedMatMulActivation",
    takes=_OPERANDS,
    attributes=(
        f"{_TRANSPOSITIONS}, {_FUSED}, activation: text, activation_alpha?: float, "
        "activation_beta?: float, activation_gamma?: float, activation_axis?: int"
    ),
)
def fused_matmul_activation(ctx: NodeContext) -> Value:
    y, name = fused_matmul(ctx), ctx.attr("activation")
    if name == "Softmax":
        return softmax_along(ctx, y, ctx.attr("activation_axis", -1) % len(y.shape))
    return apply_activation(ctx, y, name, _activation_parameters(ctx))


@ms_op(
    "FusedGemm",
    takes="a: E=float[_ _], b: E[_ _], c?: E[*]",
    attributes=(
        f"{_TRANSPOSITIONS}, beta?: float, activation?: text, activation_alpha?: float, "
        "activation_beta?: float, activation_gamma?: float"
    ),
)
def fused_gemm(ctx: NodeContext) -> Value:
    return apply_activation(ctx, gemm(ctx), ctx.attr("activation"), _activation_parameters(ctx))


def _activation_parameters(ctx: NodeContext) -> list[float | None]:
    """Return alpha, beta and gamma of an activation."""
    return [ctx.attr(f"activation_{name}") for name in _ACTIVATION_PARAMETERS]


@ms_op("GemmFastGelu", takes="x: E=float[*X], w: E[_ N], bias?: E[N]")
def gemm_fast_gelu(ctx: NodeContext) -> Value:
    y = ctx.add_optional(emit_matmul(ctx, ctx.required(0), ctx.required(1)), ctx.input(2))
    return emit_gelu(ctx, y, tanh=True)


@ms_op("MatMulInteger16", takes="a: int16[*A], b: int16[*B]")
def matmul_integer_16(ctx: NodeContext) -> Value:
    a, b = (ctx.cast(ctx.required(i), "int32") for i in (0, 1))
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise UnsupportedError("an integer matmul of vectors; reshape them to matrices")
    return emit_matmul(ctx, a, b)


_SIMPLE_ACTIVATIONS = {"Relu": "relu", "Sigmoid": "sigmoid", "Softplus": "softplus", "Tanh": "tanh"}


def apply_activation(
    ctx: NodeContext, x: Value, name: str | None, parameters: list[float | None]
) -> Value:
    """Apply the activation of a fused node. ``parameters`` are its parameters in ONNX's order, with
    None for ONNX's default."""

    def parameter(index: int, default: float) -> float:
        number = parameters[index] if index < len(parameters) else None
        return default if number is None else float(number)

    if not name:
        return x
    if name in _SIMPLE_ACTIVATIONS:
        return ctx.emit(_SIMPLE_ACTIVATIONS[name], [x])
    if name == "Clip":
        return ctx.clamp(
            x, parameter(0, -3.4028234663852886e38), parameter(1, 3.4028234663852886e38)
        )
    if name in ACTIVATIONS:
        of, defaults = ACTIVATIONS[name]
        given = {
            key: parameter(_ACTIVATION_PARAMETERS.index(key), n) for key, n in defaults.items()
        }
        return of(ctx, x, **given)
    raise UnsupportedError(f"fused activation {name}")

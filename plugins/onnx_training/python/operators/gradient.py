"""``Gradient`` of ``ai.onnx.preview.training``: gradients of the sum of a tensor's elements with
respect to other tensors of the network, by reverse-mode differentiation of its nodes."""

from __future__ import annotations

from collections.abc import Callable

from tvmrt.compiler.frontend.onnx.context import NodeContext
from tvmrt.compiler.frontend.onnx.matmul import emit_matmul
from tvmrt.compiler.frontend.onnx.registry import onnx_op
from tvmrt.compiler.frontend.onnx.tensor_expressions import TensorExpr
from tvmrt.compiler.ir import Node, Value
from tvmrt.error import UnsupportedError

# gradient of each operand of a node; None for an operand without one
OperandGradients = "list[Numbers | None]"


@onnx_op("Gradient", domain="ai.onnx.preview.training")
def gradient(ctx: NodeContext) -> list[Value]:
    names = [*ctx.attr("xs"), *(ctx.attr("zs") or [])]
    known = [ctx.scope.get(name) for name in [*names, ctx.attr("y")]]
    if len(ctx.inputs) != len(names) or None in known:
        raise ValueError(
            "xs, zs and y must name tensors of the network, and each of xs and zs needs one input"
        )
    *inputs, y = known
    if any(given is not own for given, own in zip(ctx.inputs, inputs)):
        raise UnsupportedError("derivatives are supported only at values that the network computes")
    wanted = inputs[: len(ctx.attr("xs"))]
    if not all(v.dtype.is_float for v in [*wanted, y]):
        raise ValueError("derivatives need floating-point types")
    found = _backpropagate(ctx, y, wanted)
    return [_gradient_of(ctx, found, x).value for x in wanted]


def _gradient_of(ctx: NodeContext, found: dict[Value, TensorExpr], x: Value) -> TensorExpr:
    """Return the gradient accumulated for a value, or zeros."""
    return found.get(x) or TensorExpr(ctx, ctx.expand(ctx.like(0, x), x.shape))


def _backpropagate(ctx: NodeContext, y: Value, wanted: list[Value]) -> dict[Value, TensorExpr]:
    """Return the gradients of all values on paths from ``wanted`` to y."""
    before = list(ctx.builder.graph.nodes)
    depends = set(wanted)
    for node in before:
        if any(v in depends for v in node.inputs):
            depends.update(node.outputs)
    found = {y: TensorExpr(ctx, ctx.expand(ctx.like(1, y), y.shape))}
    for node in reversed(before):
        (result, *others) = node.outputs or [None]
        if result not in found or result not in depends or result in wanted:
            continue
        if node.op not in _RULES or others or node.guard is not None:
            raise UnsupportedError(f"the derivative of {node.op} is not implemented")
        parts = _RULES[node.op](ctx, node, found[result])
        for operand, part in zip(node.inputs, parts):
            if operand in depends and part is not None:
                own = _sum_to_shape(ctx, part, operand)
                found[operand] = found[operand] + own if operand in found else own
    return found


def _sum_to_shape(ctx: NodeContext, part: TensorExpr, operand: Value) -> TensorExpr:
    """Sum a gradient over the axes along which the operand was broadcast."""
    more = len(part.shape) - len(operand.shape)
    own = (1,) * more + operand.shape
    axes = tuple(d for d, (a, b) in enumerate(zip(own, part.shape)) if a != b)
    value = part.value
    if axes:
        value = ctx.emit("reduce_sum", [value], axes=axes, keepdims=1)
    return TensorExpr(ctx, ctx.reshape(value, operand.shape))


def _rule(function: Callable) -> Callable:
    """Make a rule from a function of the result's gradient, the result and the operands."""

    def rule(ctx: NodeContext, node: Node, g: TensorExpr) -> OperandGradients:
        return function(
            g, TensorExpr(ctx, node.outputs[0]), *(TensorExpr(ctx, v) for v in node.inputs)
        )

    return rule


def _matmul_gradient(ctx: NodeContext, node: Node, g: TensorExpr) -> OperandGradients:
    a, b = node.inputs
    if len(a.shape) < 2 or len(b.shape) < 2:
        raise UnsupportedError("the derivative of a matmul of vectors is not implemented")

    pairs = ((g.value, ctx.swap_last_axes(b)), (ctx.swap_last_axes(a), g.value))
    return [TensorExpr(ctx, emit_matmul(ctx, *pair)) for pair in pairs]


def _reduce_sum_gradient(ctx: NodeContext, node: Node, g: TensorExpr) -> OperandGradients:
    """Return the gradient of a sum over axes: the result's gradient, broadcast."""
    x, axes = node.inputs[0], node.attrs["axes"]
    kept = tuple(1 if d in axes else n for d, n in enumerate(x.shape))
    return [TensorExpr(ctx, ctx.expand(ctx.reshape(g.value, kept), x.shape))]


_RULES: dict[str, Callable] = {
    "add": _rule(lambda g, y, a, b: [g, g]),
    "sub": _rule(lambda g, y, a, b: [g, g * -1]),
    "mul": _rule(lambda g, y, a, b: [g * b, g * a]),
    "div": _rule(lambda g, y, a, b: [g / b, g * y / b * -1]),
    "neg": _rule(lambda g, y, a: [g * -1]),
    "exp": _rule(lambda g, y, a: [g * y]),
    "log": _rule(lambda g, y, a: [g / a]),
    "sqrt": _rule(lambda g, y, a: [g / (y * 2)]),
    "tanh": _rule(lambda g, y, a: [g * (y * y * -1 + 1)]),
    "sigmoid": _rule(lambda g, y, a: [g * y * (y * -1 + 1)]),
    "relu": _rule(lambda g, y, a: [(a > 0).where(g, 0)]),
    "matmul": _matmul_gradient,
    "reduce_sum": _reduce_sum_gradient,
    "reshape": _rule(lambda g, y, a: [g.reshape(*a.shape)]),
}

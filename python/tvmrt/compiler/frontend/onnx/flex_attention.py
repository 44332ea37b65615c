"""FlexAttention of ``ai.onnx.preview``: attention with subgraphs of the node that modify scores and
probabilities."""

from __future__ import annotations

import numpy as np
import onnx

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.sizes.assumptions import are_equal, are_equal_shapes
from tvmrt.error import UnsupportedError

from .activation import softmax_along
from .context import NodeContext
from .elementwise import element_type
from .legalize_types import retype
from .matmul import emit_matmul
from .registry import onnx_op


@onnx_op("FlexAttention", domain="ai.onnx.preview")
def flex_attention(ctx: NodeContext) -> Value:
    q, k, v = (ctx.required(i) for i in range(3))
    if any(len(x.shape) != 4 for x in (q, k, v)):
        raise ValueError(f"queries {q.type}, keys {k.type} and values {v.type} must have rank 4")
    batch, heads, length, width = q.shape
    shared = k.shape[1]
    fits = are_equal_shapes(v.shape[:3], k.shape[:3]) and are_equal(k.shape[3], width)
    if shared < 1 or heads % shared or not fits:
        raise ValueError(f"keys {k.type} and values {v.type} do not fit queries {q.type}")
    scale = ctx.attr("scale")
    scale = 1 / np.sqrt(max(width, 1)) if scale is None else scale
    # the heads of a group read the same keys, so their queries are rows of one matrix
    rows = ctx.reshape(q, (batch, shared, heads // shared * length, width))
    scores = emit_matmul(ctx, rows, ctx.transpose(k, (0, 1, 3, 2)))
    scores = ctx.emit("mul", [scores, ctx.like(scale, scores)])
    scores = ctx.reshape(scores, (batch, heads, length, k.shape[2]))
    code = ctx.attr("softmax_precision", 0)
    wide = "float64" if q.dtype.name == "float64" else "float32"
    scores = ctx.convert(scores, element_type(code) if code else wide)
    scores = _apply_subgraph(ctx, "score_mod", scores)
    weights = retype(softmax_along(ctx, scores, 3), scores.type.source)
    probabilities = _apply_subgraph(ctx, "prob_mod", weights)
    probabilities = ctx.convert(probabilities, v.type.element)
    weights = ctx.reshape(probabilities, (batch, shared, heads // shared * length, k.shape[2]))
    y = emit_matmul(ctx, weights, v)
    return ctx.reshape(y, (batch, heads, length, v.shape[3]))


def _apply_subgraph(ctx: NodeContext, name: str, x: Value) -> Value:
    """Apply a subgraph of the node to a tensor; it must keep type and shape."""
    graph = ctx.attr(name)
    if graph is None:
        return x
    if not isinstance(graph, onnx.GraphProto) or (len(graph.input), len(graph.output)) != (1, 1):
        raise ValueError(f"{name} is not a graph with one input and one output")
    (result,) = ctx.importer.import_branch(graph, ctx.scope, inputs=[x])
    if result is None:
        raise UnsupportedError(f"a node of {name} cannot be compiled")
    if result.type != x.type:
        raise ValueError(f"{name} maps {x.type} to {result.type}; it must keep type and shape")
    return result

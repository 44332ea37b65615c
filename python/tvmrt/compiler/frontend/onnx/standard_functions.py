"""Operators that are imported as the functions of other operators that define them in ONNX."""

from __future__ import annotations

import onnx
from onnx import helper

from tvmrt.compiler.ir import DTYPES, Value

from .context import NodeContext
from .legalize_types import stored_type
from .model_functions import expand_call
from .operator_schemas import declared, find_schema, onnx_element_type
from .registry import onnx_op


@onnx_op(
    "CausalConvWithState", "CenterCropPad", "LinearAttention",
    "MeanVarianceNormalization", "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss",
)  # fmt: skip
@onnx_op("FlexAttention", domain="ai.onnx.preview")
def standard_function(ctx: NodeContext) -> list[Value | None]:
    schema = find_schema(ctx.op, ctx.opset, ctx.node.domain)
    assert schema is not None  # else the node would have been refused
    node = _with_defaults(ctx.node, schema)
    function = _function_of(ctx, node, schema)
    scope = dict(zip(function.input, [*ctx.inputs, *[None] * len(function.input)]))
    with ctx.importer.functions.call(function, is_standard=True):
        ctx.importer.import_nodes(expand_call(function, node), scope)
    return [scope.get(key) for key in function.output]


def _with_defaults(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> onnx.NodeProto:
    """Return the node with the default values of attributes that it leaves out."""
    result = onnx.NodeProto()
    result.CopyFrom(node)
    given = {attribute.name for attribute in node.attribute}
    defaults = (rule.default_value for rule in schema.attributes.values())
    result.attribute.extend(each for each in defaults if each.name and each.name not in given)
    return result


def _function_of(
    ctx: NodeContext, node: onnx.NodeProto, schema: onnx.defs.OpSchema
) -> onnx.FunctionProto:
    """Return the function of a node, in the newest opset that is not newer than the node's."""
    if schema.has_function:
        opset = max(n for n in schema.function_opset_versions if n <= ctx.opset)
        return onnx.FunctionProto.FromString(schema.get_function_with_opset_version(opset))
    opsets = schema.context_dependent_function_opset_versions
    types = [_type_of(value).SerializeToString() for value in ctx.inputs]
    return onnx.FunctionProto.FromString(
        schema.get_context_dependent_function_with_opset_version(
            max(n for n in opsets if n <= ctx.opset), node.SerializeToString(), types
        )
    )


def _type_of(value: Value | None) -> onnx.TypeProto:
    if value is None:
        return onnx.TypeProto()
    kind = stored_type(value)
    element = onnx_element_type(DTYPES[kind] if kind else value.dtype)
    return helper.make_tensor_type_proto(element, declared(value.shape))

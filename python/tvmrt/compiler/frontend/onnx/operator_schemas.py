"""Checks of nodes against the operator schemas of the onnx package.

Operators that it does not define are not checked here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import onnx
from onnx import checker, defs, helper, numpy_helper, shape_inference

from tvmrt.compiler.ir import DTYPES, HANDLE, DType, Value
from tvmrt.compiler.ir.extent import Extent, SymInt, extent_text

from .tensors import subgraphs


def _onnx_name(dtype: np.dtype) -> str:
    name = onnx.TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(dtype))
    return f"tensor({name.lower()})"


# ONNX's names of element types; half precision is imported as float32.
_ONNX_NAMES = {
    **{name: (_onnx_name(row.numpy),) for name, row in DTYPES.items()},
    HANDLE.name: ("tensor(string)",),
    "float64": ("tensor(double)",),
    "float32": ("tensor(float)", "tensor(float16)", "tensor(bfloat16)"),
}

# Operators whose inference wants scalars where runtimes also take vectors of one element.
_SCALARS_ONLY = ("Range",)

# Maximum size of constants passed to inference: the parts of shapes are small.
_MAX_INFERENCE_ELEMENTS = 1024


def onnx_element_type(dtype: DType) -> int:
    """Return ONNX's code of an element type; the address type stands for strings."""
    if dtype == HANDLE:
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(dtype.numpy)


@lru_cache(maxsize=512)
def find_schema(op: str, opset: int, domain: str) -> defs.OpSchema | None:
    """Return the schema of an operator in an opset; None if the onnx package lacks it."""
    try:
        return defs.get_schema(op, opset, _domain(domain))
    except defs.SchemaError:
        return None


def formal_parameter(rules: Sequence, index: int) -> defs.OpSchema.FormalParameter | None:
    """Return the schema of an operand by index; the last one may be variadic. None for an operator
    without operands, whose import then fails if it has some."""
    return rules[min(index, len(rules) - 1)] if rules else None


def formal_type(rules: Sequence, index: int) -> str | None:
    """Return the type of an operand by index, as the schema names it."""
    rule = formal_parameter(rules, index)
    return None if rule is None else rule.type_str


def check_node(node: onnx.NodeProto, opset: int) -> None:
    """Raise ValueError if a node's attributes or its numbers of inputs or outputs violate the
    operator's schema."""
    schema = find_schema(node.op_type, opset, node.domain)
    if schema is None:
        _check_opset(node, opset)
        return
    if schema.deprecated and find_schema(
        node.op_type, schema.since_version - 1, node.domain
    ):  # an operator withdrawn after its first version occurs in files that were valid then
        raise ValueError(f"opset {opset} no longer has this operator; convert the model")
    _check_count("input", node.input, schema.inputs, schema.min_input, schema.max_input)
    _check_count("output", node.output, schema.outputs, schema.min_output, schema.max_output)
    _check_attributes(node, schema)


def _check_opset(node: onnx.NodeProto, opset: int) -> None:
    """Raise ValueError for an operator that is newer than the opset of the network."""
    first = _first_opsets().get((_domain(node.domain), node.op_type))
    if first is not None and first > opset:
        raise ValueError(
            f"opset {opset} does not have this operator, which was added in opset {first}; "
            f"convert the model to opset {first} or later"
        )


@lru_cache(maxsize=1)
def _first_opsets() -> dict[tuple[str, str], int]:
    """Return the first opset of each operator of each domain."""
    result: dict[tuple[str, str], int] = {}
    for schema in defs.get_all_schemas_with_history():
        key = (schema.domain, schema.name)
        result[key] = min(result.get(key, schema.since_version), schema.since_version)
    return result


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _check_count(
    what: str, names: Sequence[str], formal: Sequence, minimum: int, maximum: int
) -> None:
    if not minimum <= len(names) <= maximum:
        if maximum > len(formal):  # the last one is variadic
            expected = f"{minimum} or more"
        else:
            expected = f"{minimum}" if minimum == maximum else f"{minimum} to {maximum}"
        listed = ", ".join(one.name for one in formal)
        raise ValueError(f"{len(names)} {what}s, expected {expected}: {listed}")
    single = defs.OpSchema.FormalParameterOption.Single
    for i, (name, one) in enumerate(zip(names, formal)):
        if not name and one.option == single:
            raise ValueError(f"{what} {i} ({one.name}) is missing")


def _check_attributes(node: onnx.NodeProto, schema: defs.OpSchema) -> None:
    twice = [name for name, n in Counter(a.name for a in node.attribute).items() if n > 1]
    if twice:
        raise ValueError(f"the attribute {twice[0]} is given twice")
    given = {attribute.name: attribute for attribute in node.attribute}
    for name, rule in schema.attributes.items():
        attribute = given.get(name)
        if attribute is None:
            if rule.required:
                raise ValueError(f"the attribute {name} is missing")
        elif attribute.type != int(rule.type.value):
            raise ValueError(f"the attribute {name} is not of type {rule.type.name.lower()}")
    for name in given.keys() - schema.attributes.keys():
        if not name.startswith("__"):  # reserved by ONNX for tools
            known = ", ".join(sorted(schema.attributes)) or "none"
            raise ValueError(f"unknown attribute {name}; there are {known}")


def check_inputs(
    node: onnx.NodeProto,
    opset: int,
    inputs: Sequence[Value | None],
    packed_type: Callable[[Value], str | None],
) -> None:
    """Raise ValueError if an input has an unsupported element type, or one that differs from an
    input with the same type parameter. Kernels rely on this check.

    ``packed_type`` returns the ONNX type of a packed tensor, which is stored in a wider type here.
    """
    schema = find_schema(node.op_type, opset, node.domain)
    if schema is None or not schema.inputs:
        return
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    bound: dict[str, tuple[str, Value]] = {}
    for i, value in enumerate(inputs):
        rule = formal_parameter(schema.inputs, i)
        if value is None:
            continue
        kind = packed_type(value) or value.dtype.name
        if not rule.types.intersection(_ONNX_NAMES[kind]):
            known = sorted(t.removeprefix("tensor(").removesuffix(")") for t in rule.types)
            raise ValueError(
                f"input {i} ({rule.name}) is {kind}; opset {opset} allows {', '.join(known)}"
            )
        if rule.type_str in variables and rule.is_homogeneous:
            first, other = bound.setdefault(rule.type_str, (rule.name, value))
            expected = packed_type(other) or other.dtype.name
            if kind != expected:
                raise ValueError(
                    f"input {i} ({rule.name}) is {kind}, expected {expected} as {first}"
                )


def check_inference(
    node: onnx.NodeProto,
    opsets: Mapping[str, int],
    opset: int,
    inputs: Sequence[Value | None],
    packed_type: Callable[[Value], str | None],
) -> None:
    """Raise ValueError if the types of the outputs cannot be inferred from the inputs.

    onnxruntime applies the same strict inference of the onnx package when it loads a model.
    """
    schema = find_schema(node.op_type, opset, node.domain)
    if schema is None or not schema.has_type_and_shape_inference_function:
        return
    if not node.input or node.op_type in _SCALARS_ONLY or any(subgraphs(node)):
        return
    types, data = {}, {}
    for key, value in zip(node.input, inputs):
        if value is not None:
            kind = packed_type(value)
            element = onnx_element_type(DTYPES[kind] if kind else value.dtype)
            types[key] = helper.make_tensor_type_proto(element, declared(value.shape))
            if value.data is not None and value.data.size <= _MAX_INFERENCE_ELEMENTS:
                data[key] = numpy_helper.from_array(value.data)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=imports)
    except (shape_inference.InferenceError, checker.ValidationError) as problem:
        raise ValueError(clean_error_text(str(problem))) from problem


def declared(shape: Sequence[SymInt]) -> list[int | str]:
    """Return a shape as ONNX declares it, with dynamic extents as text."""
    return [extent_text(n) if isinstance(n, Extent) else n for n in shape]


def clean_error_text(text: str) -> str:
    """Convert an error text of the onnx package to one line without tags and C++ locations."""
    text = re.sub(r"\[\w+Error\]|Inference error\(s\):|\(op_type:[^)]*\):", " ", text)
    text = text.partition("==> Context:")[0].partition("\n\n")[0]
    text = re.sub(r"\S*\.(?:cc|h|cpp):\d+:?", " ", text)
    text = " ".join(text.split()).rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text

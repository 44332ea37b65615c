"""Check of a node against its operator's definition: the part of the file gate for each node.

``checked_import`` checks attributes, operands and element types by the schema of the onnx package,
what ``operator_constraints`` adds to it, and after the import the package's strict inference.
Operators that the package does not define are not checked here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import onnx
from onnx import checker, defs, helper, numpy_helper, shape_inference

from tvmrt.compiler.ir import DTYPES, HANDLE, Value
from tvmrt.compiler.operator_key import domain_of
from tvmrt.error import UnsupportedError

from .operator_constraints import contract_of
from .operator_schemas import (
    attribute_value,
    declared,
    default_attributes,
    find_schema,
    first_opsets,
    formal_parameter,
    onnx_element_type,
)
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


# Attributes that are booleans in all operators.
_BOOLEAN_ATTRIBUTES = frozenset(
    (
        "align_corners allowzero antialias center_point_box ceil_mode count_include_pad "
        "detect_negative detect_positive exclude_outside exclusive fmod interleaved input_forget "
        "inverse is_causal keepdims largest layout linear_before_reset noop_with_empty_axes "
        "onesided reverse saturate select_last_index sorted storage_order training_mode transA "
        "transB upper"
    ).split()
)


@contextmanager
def checked_import(
    node: onnx.NodeProto,
    opsets: Mapping[str, int],
    inputs: Sequence[Value | None],
    packed_type: Callable[[Value], str | None],
) -> Iterator[None]:
    """Check a node before and after its import, which is the body of the ``with`` statement.

    ``packed_type`` returns the ONNX type of a packed tensor, which is stored in a wider type here.
    Raises ValueError with the input or attribute, the expectation and the actual value.
    """
    opset = opsets.get(domain_of(node.domain), 1)
    schema = find_schema(node.op_type, opset, node.domain)
    if schema is None:
        _check_opset(node, opset)
        yield
        return
    _check_schema(node, schema, opset)
    _check_inputs(schema, opset, inputs, packed_type)
    _check_constraints(node, schema, opset, inputs)
    try:
        yield
    except (UnsupportedError, ValueError, MemoryError):
        raise
    except Exception:  # the error of type inference is more specific
        _check_inference(node, schema, opsets, inputs, packed_type)
        raise
    _check_inference(node, schema, opsets, inputs, packed_type)


def _check_schema(node: onnx.NodeProto, schema: defs.OpSchema, opset: int) -> None:
    """Check the operator's version, the numbers of inputs and outputs, and the attributes."""
    if schema.deprecated and find_schema(
        node.op_type, schema.since_version - 1, node.domain
    ):  # an operator withdrawn after its first version occurs in files that were valid then
        raise ValueError(f"opset {opset} no longer has this operator; convert the model")
    _check_count("input", node.input, schema.inputs, schema.min_input, schema.max_input)
    _check_count("output", node.output, schema.outputs, schema.min_output, schema.max_output)
    _check_attributes(node, schema)


def _check_opset(node: onnx.NodeProto, opset: int) -> None:
    """Raise ValueError for an operator that is newer than the opset of the network."""
    first = first_opsets().get((domain_of(node.domain), node.op_type))
    if first is not None and first > opset:
        raise ValueError(
            f"opset {opset} does not have this operator, which was added in opset {first}; "
            f"convert the model to opset {first} or later"
        )


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
    attributes = {attribute.name: attribute for attribute in node.attribute}
    for name, rule in schema.attributes.items():
        attribute = attributes.get(name)
        if attribute is None:
            if rule.required:
                raise ValueError(f"the attribute {name} is missing")
        elif attribute.type != int(rule.type.value):
            raise ValueError(f"the attribute {name} is not of type {rule.type.name.lower()}")
    for name in attributes.keys() - schema.attributes.keys():
        if not name.startswith("__"):  # reserved by ONNX for tools
            names = ", ".join(sorted(schema.attributes)) or "none"
            raise ValueError(f"unknown attribute {name}; there are {names}")


def _check_inputs(
    schema: defs.OpSchema,
    opset: int,
    inputs: Sequence[Value | None],
    packed_type: Callable[[Value], str | None],
) -> None:
    """Raise ValueError if an input has an unsupported element type, or one that differs from an
    input with the same type parameter. Kernels rely on this check."""
    if not schema.inputs:
        return
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    bound: dict[str, tuple[str, Value]] = {}
    for i, value in enumerate(inputs):
        rule = formal_parameter(schema.inputs, i)
        if value is None:
            continue
        kind = packed_type(value) or value.dtype.name
        if not rule.types.intersection(_ONNX_NAMES[kind]):
            type_names = sorted(t.removeprefix("tensor(").removesuffix(")") for t in rule.types)
            raise ValueError(
                f"input {i} ({rule.name}) is {kind}; opset {opset} allows {', '.join(type_names)}"
            )
        if rule.type_str in variables and rule.is_homogeneous:
            first, other = bound.setdefault(rule.type_str, (rule.name, value))
            expected = packed_type(other) or other.dtype.name
            if kind != expected:
                raise ValueError(
                    f"input {i} ({rule.name}) is {kind}, expected {expected} as {first}"
                )


def _check_constraints(
    node: onnx.NodeProto, schema: defs.OpSchema, opset: int, inputs: Sequence[Value | None]
) -> None:
    given = {a.name: attribute_value(a) for a in node.attribute}
    for name in given.keys() & _BOOLEAN_ATTRIBUTES:
        if given[name] not in (0, 1):
            raise ValueError(f"attribute {name} is {given[name]}, expected 0 or 1")
    contract = contract_of(node.op_type, opset) if not domain_of(node.domain) else None
    if contract is None:
        return
    values = {**default_attributes(node.op_type, opset, ""), **given}
    attributes = {name: values[name] for name in contract.attributes if name in values}
    types = [None if value is None else value.type for value in inputs]
    contract.bind(types, attributes, [None if value is None else value.data for value in inputs])


def _check_inference(
    node: onnx.NodeProto,
    schema: defs.OpSchema,
    opsets: Mapping[str, int],
    inputs: Sequence[Value | None],
    packed_type: Callable[[Value], str | None],
) -> None:
    """Raise ValueError if the types of the outputs cannot be inferred from the inputs.

    onnxruntime applies the same strict inference of the onnx package when it loads a model.
    """
    if not schema.has_type_and_shape_inference_function:
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


def clean_error_text(text: str) -> str:
    """Convert an error text of the onnx package to one line without tags and C++ locations."""
    text = re.sub(r"\[\w+Error\]|Inference error\(s\):|\(op_type:[^)]*\):", " ", text)
    text = text.partition("==> Context:")[0].partition("\n\n")[0]
    text = re.sub(r"\S*\.(?:cc|h|cpp):\d+:?", " ", text)
    text = " ".join(text.split()).rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text

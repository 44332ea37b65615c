"""Check of a node against its operator's definition: the part of the file gate for each node.

``checked_import`` checks element types by the schema of the onnx package, what
``operator_constraints`` adds to it, and after the import the package's strict inference.
``check_model`` has checked attributes and the numbers of operands. Operators that the package does
not define are not checked here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import onnx
from onnx import checker, defs, helper, numpy_helper, shape_inference

from tvmrt.compiler.ir import DType, Value
from tvmrt.compiler.operator_key import domain_of
from tvmrt.error import UnsupportedError

from .legalize_types import onnx_dtype, type_proto
from .operator_constraints import contract_of
from .operator_schemas import (
    attribute_value,
    default_attributes,
    find_schema,
    first_opsets,
    formal_parameter,
    onnx_element_type,
)
from .tensors import subgraphs

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
) -> Iterator[None]:
    """Check a node before and after its import, which is the body of the ``with`` statement.

    Raises ValueError with the input or attribute, the expectation and the actual value.
    """
    opset = opsets.get(domain_of(node.domain), 1)
    schema = find_schema(node.op_type, opset, node.domain)
    if schema is None:
        _check_opset(node, opset)
        yield
        return
    is_withdrawn = schema.deprecated and find_schema(
        node.op_type, schema.since_version - 1, node.domain
    )  # an operator withdrawn after its first version occurs in files that were valid then
    if is_withdrawn:
        raise ValueError(f"opset {opset} no longer has this operator; convert the model")
    _check_inputs(schema, opset, inputs)
    _check_constraints(node, schema, opset, inputs)
    try:
        yield
    except (UnsupportedError, ValueError, MemoryError):
        raise
    except Exception:  # the error of type inference is more specific
        _check_inference(node, schema, opsets, inputs)
        raise
    _check_inference(node, schema, opsets, inputs)


def _check_opset(node: onnx.NodeProto, opset: int) -> None:
    """Raise ValueError for an operator that is newer than the opset of the network."""
    first = first_opsets().get((domain_of(node.domain), node.op_type))
    if first is not None and first > opset:
        raise ValueError(
            f"opset {opset} does not have this operator, which was added in opset {first}; "
            f"convert the model to opset {first} or later"
        )


def _check_inputs(
    schema: defs.OpSchema,
    opset: int,
    inputs: Sequence[Value | None],
) -> None:
    """Raise ValueError if an input has an unsupported element type, or one that differs from an
    input with the same type parameter. Kernels rely on this check."""
    if not schema.inputs:
        return
    variables = {constraint.type_param_str for constraint in schema.type_constraints}
    bound: dict[str, tuple[str, DType]] = {}
    for i, value in enumerate(inputs):
        rule = formal_parameter(schema.inputs, i)
        if value is None:
            continue
        kind = onnx_dtype(value)
        code = onnx.TensorProto.DataType.Name(onnx_element_type(kind))
        if f"tensor({code.lower()})" not in rule.types:
            type_names = sorted(t.removeprefix("tensor(").removesuffix(")") for t in rule.types)
            raise ValueError(
                f"input {i} ({rule.name}) is {kind}; opset {opset} allows {', '.join(type_names)}"
            )
        if rule.type_str in variables and rule.is_homogeneous:
            first, expected = bound.setdefault(rule.type_str, (rule.name, kind))
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
            types[key] = type_proto(value)
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

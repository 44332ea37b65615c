"""Nodes against the definitions of their operators in the onnx package.

Operators that it does not define are left to whoever imports them.
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
from tvmrt.compiler.ir.extent import Extent, Whole, shown

from .tensors import subgraphs


def _onnx_name(dtype: np.dtype) -> str:
    name = onnx.TensorProto.DataType.Name(helper.np_dtype_to_tensor_dtype(dtype))
    return f"tensor({name.lower()})"


# ONNX's names of element types; half precision is float32 inside.
_ONNX_NAMES = {
    **{name: (_onnx_name(row.numpy),) for name, row in DTYPES.items()},
    HANDLE.name: ("tensor(string)",),
    "float64": ("tensor(double)",),
    "float32": ("tensor(float)", "tensor(float16)", "tensor(bfloat16)"),
}

# Operators whose inference wants scalars where runtimes take vectors of one element, too.
_SCALARS_ONLY = ("Range",)

# Constants that inference may look into: what shapes are made of is small.
_LOOKED_INTO = 1024


def element_type_of(dtype: DType) -> int:
    """ONNX's number of an element type; addresses are those of strings."""
    if dtype == HANDLE:
        return onnx.TensorProto.STRING
    return helper.np_dtype_to_tensor_dtype(dtype.numpy)


@lru_cache(maxsize=512)
def definition_of(op: str, opset: int, domain: str) -> defs.OpSchema | None:
    """The definition that holds in an opset; None for operators that the onnx package lacks."""
    try:
        return defs.get_schema(op, opset, _domain(domain))
    except defs.SchemaError:
        return None


def rule_of(rules: Sequence, index: int) -> defs.OpSchema.FormalParameter | None:
    """What a definition says of an operand by position; the last may be repeated. None of an
    operator without operands that was given some: it is refused when it is imported."""
    return rules[min(index, len(rules) - 1)] if rules else None


def type_rule(rules: Sequence, index: int) -> str | None:
    """The type of an operand by position, as the definition names it."""
    rule = rule_of(rules, index)
    return None if rule is None else rule.type_str


def check_node(node: onnx.NodeProto, opset: int) -> None:
    """Raise ValueError if a node has other attributes, or another number of inputs or outputs,
    than its operator."""
    definition = definition_of(node.op_type, opset, node.domain)
    if definition is None:
        _check_old_enough(node, opset)
        return
    if definition.deprecated and definition_of(
        node.op_type, definition.since_version - 1, node.domain
    ):  # one whose first version was withdrawn afterwards is in files that were right then
        raise ValueError(f"opset {opset} no longer has this operator; convert the model")
    _check_count("input", node.input, definition.inputs, definition.min_input, definition.max_input)
    _check_count(
        "output", node.output, definition.outputs, definition.min_output, definition.max_output
    )
    _check_attributes(node, definition)


def _check_old_enough(node: onnx.NodeProto, opset: int) -> None:
    """Refuse an operator that came with a newer opset than the network says it is written in."""
    first = _first_opsets().get((_domain(node.domain), node.op_type))
    if first is not None and first > opset:
        raise ValueError(
            f"opset {opset} does not have this operator, which was added in opset {first}; "
            f"convert the model to opset {first} or later"
        )


@lru_cache(maxsize=1)
def _first_opsets() -> dict[tuple[str, str], int]:
    """The opset with which each operator of each domain came."""
    found: dict[tuple[str, str], int] = {}
    for schema in defs.get_all_schemas_with_history():
        key = (schema.domain, schema.name)
        found[key] = min(found.get(key, schema.since_version), schema.since_version)
    return found


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _check_count(what: str, names: Sequence[str], formal: Sequence, least: int, most: int) -> None:
    if not least <= len(names) <= most:
        if most > len(formal):  # the last one may be repeated, without end
            expected = f"{least} or more"
        else:
            expected = f"{least}" if least == most else f"{least} to {most}"
        listed = ", ".join(one.name for one in formal)
        raise ValueError(f"{len(names)} {what}s, expected {expected}: {listed}")
    single = defs.OpSchema.FormalParameterOption.Single
    for i, (name, one) in enumerate(zip(names, formal)):
        if not name and one.option == single:
            raise ValueError(f"{what} {i} ({one.name}) is missing")


def _check_attributes(node: onnx.NodeProto, definition: defs.OpSchema) -> None:
    twice = [name for name, n in Counter(a.name for a in node.attribute).items() if n > 1]
    if twice:
        raise ValueError(f"the attribute {twice[0]} is given twice")
    given = {attribute.name: attribute for attribute in node.attribute}
    for name, rule in definition.attributes.items():
        attribute = given.get(name)
        if attribute is None:
            if rule.required:
                raise ValueError(f"the attribute {name} is missing")
        elif attribute.type != int(rule.type.value):
            raise ValueError(f"the attribute {name} is not of type {rule.type.name.lower()}")
    for name in given.keys() - definition.attributes.keys():
        if not name.startswith("__"):  # which ONNX leaves to tools
            known = ", ".join(sorted(definition.attributes)) or "none"
            raise ValueError(f"unknown attribute {name}; there are {known}")


def check_inputs(
    node: onnx.NodeProto,
    opset: int,
    inputs: Sequence[Value | None],
    packed: Callable[[Value], str | None],
) -> None:
    """Raise ValueError if an input has an element type that the operator is not defined for, or
    another than an input that it must agree with.

    ``packed`` tells the type of a tensor that is wider here. Kernels rely on it.
    """
    definition = definition_of(node.op_type, opset, node.domain)
    if definition is None or not definition.inputs:
        return
    variables = {constraint.type_param_str for constraint in definition.type_constraints}
    bound: dict[str, tuple[str, Value]] = {}
    for i, value in enumerate(inputs):
        rule = rule_of(definition.inputs, i)
        if value is None:
            continue
        kind = packed(value) or value.dtype.name
        if not rule.types.intersection(_ONNX_NAMES[kind]):
            known = sorted(t.removeprefix("tensor(").removesuffix(")") for t in rule.types)
            raise ValueError(
                f"input {i} ({rule.name}) is {kind}; opset {opset} knows {', '.join(known)}"
            )
        if rule.type_str in variables and rule.is_homogeneous:
            first, twin = bound.setdefault(rule.type_str, (rule.name, value))
            expected = packed(twin) or twin.dtype.name
            if kind != expected:
                raise ValueError(
                    f"input {i} ({rule.name}) is {kind}, expected {expected} as {first}"
                )


def check_inference(
    node: onnx.NodeProto,
    opsets: Mapping[str, int],
    opset: int,
    inputs: Sequence[Value | None],
    packed: Callable[[Value], str | None],
) -> None:
    """Raise ValueError if the types of the outputs cannot be inferred from those of the inputs.

    What the onnx package infers strictly is what onnxruntime asks of a node when it loads it.
    """
    definition = definition_of(node.op_type, opset, node.domain)
    if definition is None or not definition.has_type_and_shape_inference_function:
        return
    if not node.input or node.op_type in _SCALARS_ONLY or any(subgraphs(node)):
        return
    types, data = {}, {}
    for key, value in zip(node.input, inputs):
        if value is not None:
            kind = packed(value)
            element = element_type_of(DTYPES[kind] if kind else value.dtype)
            types[key] = helper.make_tensor_type_proto(element, declared(value.shape))
            if value.data is not None and value.data.size <= _LOOKED_INTO:
                data[key] = numpy_helper.from_array(value.data)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        shape_inference.infer_node_outputs(definition, node, types, data, opset_imports=imports)
    except (shape_inference.InferenceError, checker.ValidationError) as problem:
        raise ValueError(in_words(str(problem))) from problem


def declared(shape: Sequence[Whole]) -> list[int | str]:
    """A shape as ONNX declares it, extents that a run chooses by their text."""
    return [shown(n) if isinstance(n, Extent) else n for n in shape]


def in_words(text: str) -> str:
    """What the onnx package complains about as one line without its tags and places in C++."""
    text = re.sub(r"\[\w+Error\]|Inference error\(s\):|\(op_type:[^)]*\):", " ", text)
    text = text.partition("==> Context:")[0].partition("\n\n")[0]
    text = re.sub(r"\S*\.(?:cc|h|cpp):\d+:?", " ", text)
    text = " ".join(text.split()).rstrip(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() else text

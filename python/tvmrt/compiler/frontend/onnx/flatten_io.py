"""Flatten inputs and outputs: sequences and optional values of a network become tensors.

A library has tensors only. An input that is a sequence with a declared length becomes that many
tensors, ``x[0]``, ``x[1]``, ...; a node at the start of the graph builds the sequence from them. An
input that is declared to be absent is left out. A map becomes a row, see ``map_inputs``. A
``Bundle`` describes the tensors of an output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx
from onnx import helper

from tvmrt.compiler.frontend.dims import Dims
from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.bundle import Bundle, part_name
from tvmrt.compiler.ir.limits import check_table
from tvmrt.compiler.ir.sizes import (
    SymInt,
    bounds,
    extent_text,
    is_unbounded,
    symbols_of,
    upper_bound,
)
from tvmrt.error import NameNotFoundError, UnsupportedError, suggestion
from tvmrt.option_syntax import option

from .import_state import ImportState
from .map_inputs import replace_map_inputs
from .sequence_values import (
    AbsentOptional,
    DynamicOptional,
    DynamicTensorList,
    OnnxValue,
    PackedSequence,
    StackedSequence,
    TensorList,
)
from .tensors import replace_nodes

Sequences = Mapping[str, "int | None"]


def sequences_to_tensors(
    model: onnx.ModelProto, sequences: Sequences, dims: Dims
) -> tuple[onnx.ModelProto, dict[str, Bundle]]:
    """Return the model with tensors as inputs, and bundles for its other inputs by name.

    ``sequences``: the length of each sequence, None for an absent optional value; for outputs the
    maximum length. Dimensions that elements share are kept if ``dims`` declares them. A model
    without such inputs is returned unchanged.

    Raises KeyError for a name that is not such an input, ValueError for a missing length, and
    UnsupportedError for sequences whose elements are not tensors.
    """
    model, bundles = replace_map_inputs(model)
    weights = {tensor.name for tensor in model.graph.initializer}
    infos = [info for info in model.graph.input if info.name not in weights]
    kinds = {info.name: info.type.WhichOneof("value") for info in infos}
    others = [name for name, kind in kinds.items() if kind in ("sequence_type", "optional_type")]
    results = [info.name for info in model.graph.output if not info.type.HasField("tensor_type")]
    for name in sequences:
        if name not in others and name not in results:
            hint = suggestion(name, others) if others else "it has none"
            raise NameNotFoundError(
                f"{option('sequences', {name: sequences[name]})}: the network has no sequence or "
                f"optional input {name}; {hint}"
            )
    if not others:
        return model, bundles
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    inputs, nodes = [], []
    for info in model.graph.input:
        if info.name not in others:
            inputs.append(info)
            continue
        made, makers, bundle = _flatten_input(info, sequences, dims)
        inputs += made
        nodes += makers
        if bundle is not None:
            bundles[info.name] = bundle
    del copy.graph.input[:]
    copy.graph.input.extend(inputs)
    replace_nodes(copy.graph.node, [*nodes, *model.graph.node])
    return copy, bundles


def _flatten_input(
    info: onnx.ValueInfoProto, sequences: Sequences, dims: Dims
) -> tuple[list[onnx.ValueInfoProto], list[onnx.NodeProto], Bundle | None]:
    """Return an input's tensors, the nodes that build the input from them, and its bundle."""
    name, type = info.name, info.type
    optional = type.HasField("optional_type")
    inner = type.optional_type.elem_type if optional else type
    if optional and name in sequences and sequences[name] is None:
        node = helper.make_node("Optional", [], [name], type=inner)
        return [], [node], Bundle(absent=True)
    if inner.HasField("tensor_type"):
        if name in sequences:
            raise ValueError(f"input {name} is an optional tensor: give it, or declare it as none")
        return [helper.make_value_info(name, inner)], [], None
    element = inner.sequence_type.elem_type
    if not inner.HasField("sequence_type") or not element.HasField("tensor_type"):
        raise UnsupportedError(f"input {name} is a {_type_text(type)}; only tensors, sequences of "
                               "tensors and optional ones of both are supported")  # fmt: skip
    count = sequences.get(name)
    if count is None:
        also = f", or omit it with {option('sequences', {name: None})}" if optional else ""
        raise ValueError(
            f"input {name} is a sequence; declare how many elements it has, for example with "
            f"{option('sequences', {name: 3})}{also}"
        )
    if not isinstance(count, int) or count < 0:
        raise ValueError(f"input {name} is a sequence of {count!r} elements; give a whole number")
    check_table(count, f"the sequence {name}")
    parts = [part_name(name, position) for position in range(count)]
    made = [_element(part, element, dims) for part in parts]
    inside = f"{name}[]" if optional else name
    if parts:
        nodes = [helper.make_node("SequenceConstruct", parts, [inside])]
    else:
        kind = element.tensor_type.elem_type
        nodes = [helper.make_node("SequenceEmpty", [], [inside], dtype=kind)]
    if optional:
        nodes.append(helper.make_node("Optional", [inside], [name]))
    return made, nodes, Bundle(tuple(parts))


def _element(name: str, type: onnx.TypeProto, dims: Dims) -> onnx.ValueInfoProto:
    """Declare an element as an input; each element has its own undeclared dimensions."""
    info = helper.make_value_info(name, type)
    for dim in info.type.tensor_type.shape.dim:
        if dim.dim_param and dim.dim_param not in dims:
            dim.ClearField("dim_param")
    return info


def _type_text(type: onnx.TypeProto) -> str:
    words = []
    while type.WhichOneof("value") in ("optional_type", "sequence_type"):
        kind = type.WhichOneof("value")
        words.append(kind.replace("_type", " of"))
        type = getattr(type, kind).elem_type
    return " ".join([*words, f"{(type.WhichOneof('value') or 'unknown').replace('_type', '')}s"])


def shapes_by_tensor(
    shapes: Mapping[str, Sequence[int | str]], bundles: Mapping[str, Bundle]
) -> dict[str, Sequence[int | str]]:
    """Return the shapes by tensor; the shape of a sequence applies to each of its elements."""
    result = {name: shape for name, shape in shapes.items() if name not in bundles}
    for name, bundle in bundles.items():
        for part in bundle.parts if name in shapes else ():
            result.setdefault(part, shapes[name])
    return result


def flatten_output(
    info: onnx.ValueInfoProto, onnx_value: OnnxValue
) -> tuple[Bundle, list[tuple[onnx.ValueInfoProto, Value]]]:
    """Return the bundle of an output and its tensors with their declared types. Raises
    UnsupportedError for a sequence whose elements are not tensors."""
    type = info.type
    if type.HasField("optional_type"):
        type = type.optional_type.elem_type
    element = type.sequence_type.elem_type
    if isinstance(onnx_value, AbsentOptional):
        return Bundle(absent=True), []
    if isinstance(onnx_value, DynamicOptional):
        return _flatten_optional(info, onnx_value)
    if isinstance(onnx_value, StackedSequence):
        kind = onnx.TypeProto()
        kind.tensor_type.elem_type = element.tensor_type.elem_type
        return Bundle((info.name,), stacked=True), [(helper.make_value_info(info.name, kind),
                                                     onnx_value.value)]  # fmt: skip
    if isinstance(onnx_value, PackedSequence):
        raise UnsupportedError(f"the elements of output {info.name} differ in size from run to run")
    if not isinstance(onnx_value, (TensorList, DynamicTensorList)) or not all(
        isinstance(v, Value) for v in onnx_value.values
    ):
        raise UnsupportedError(
            f"output {info.name} is a sequence of sequences or optional values; results are "
            "tensors and sequences of them"
        )
    parts = [part_name(info.name, position) for position in range(len(onnx_value.values))]
    made = [helper.make_value_info(part, element) for part in parts]
    tensors = list(zip(made, onnx_value.values))
    if isinstance(onnx_value, TensorList):
        return Bundle(tuple(parts)), tensors
    count = f"{info.name}.count"
    tensors.append((helper.make_empty_tensor_value_info(count), onnx_value.count))
    return Bundle(tuple(parts), count=count), tensors


def _flatten_optional(
    info: onnx.ValueInfoProto, onnx_value: DynamicOptional
) -> tuple[Bundle, list[tuple[onnx.ValueInfoProto, Value]]]:
    """Flatten an output that may be absent at run time: an extra tensor flags its presence."""
    if isinstance(onnx_value.value, Value):
        type = info.type.optional_type.elem_type
        bundle = Bundle((info.name,), is_sequence=False)
        tensors = [(helper.make_value_info(info.name, type), onnx_value.value)]
    else:
        bundle, tensors = flatten_output(info, onnx_value.value)
    there = f"{info.name}.there"
    flag = helper.make_empty_tensor_value_info(there)
    return replace(bundle, there=there), [*tensors, (flag, onnx_value.is_present)]


def limit_to_declared_bounds(
    importer: ImportState, info: onnx.ValueInfoProto, value: Value
) -> Value:
    """Return the output, limited to the declared bound (``--dim``) of its dimensions. A run that
    would exceed a bound ends with an error before the output is written.

    A dimension that an input has, too, is skipped: its extent comes from that input, even if the
    output's name for it is wrong. Zero elements are within any bound. Raises ValueError if every
    run would exceed a bound.
    """
    tensor = info.type.tensor_type
    names = [d.dim_param for d in tensor.shape.dim]
    if not info.type.HasField("tensor_type") or len(names) != len(value.shape):
        return value
    for axis, (name, extent) in enumerate(zip(names, value.shape)):
        if not name or name not in importer.dims:
            continue
        declared = importer.dims.extent_in_file(name)
        if (
            declared is None
            or is_unbounded(declared)
            or declared == extent
            or symbols_of(declared) & importer.declarations.symbols()
        ):
            continue
        low, high = bounds(extent)
        limit = upper_bound(declared)
        if low > limit:
            raise ValueError(
                f"output {info.name} has {extent_text(extent)} elements along axis {axis}, but "
                f"dimension {name} is declared up to {limit}; raise its bound"
            )
        if high > limit:
            value = _emit_bound_check(importer, info.name, name, (value, axis), limit)
    return value


def _emit_bound_check(
    importer: ImportState,
    output: str,
    dimension: str,
    axis_of_value: tuple[Value, int],
    limit: int,
) -> Value:
    value, axis = axis_of_value
    builder, dims = importer.builder, importer.dims
    builder.sources, builder.guard = (output,), None
    extent: SymInt = value.shape[axis]
    number = builder.emit("extents", [], output, values=(extent,), shape=())
    name = dims.unique_name(f"{output}_{dimension}")
    what = f"dimension {dimension} of output {output}"
    source = builder.emit("count", [number], output, extent=name, what=what, low=0, high=limit)
    sizes = list(value.shape)
    sizes[axis] = dims.declare_symbol(name, 0, limit, source, extent)
    starts, steps = (0,) * len(sizes), (1,) * len(sizes)
    return builder.emit("slice", [value], output, starts=starts, steps=steps, sizes=tuple(sizes))

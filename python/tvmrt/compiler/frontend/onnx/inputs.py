"""Inputs of a network: their types, with symbolic dimensions bound by the user, and names of axes
that a file leaves open."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from tvmrt.compiler.frontend.dims import Dims, parse_dim, unused_name
from tvmrt.compiler.ir import DTYPES, HANDLE, POINTWISE, TensorType, Value
from tvmrt.compiler.ir.op import ONNX_FORMS
from tvmrt.compiler.ir.sizes import Extent, linear_form, symbols_of
from tvmrt.compiler.ir.tensor_type import check_rank
from tvmrt.compiler.operator_key import domain_of, operator_name
from tvmrt.error import (
    NameNotFoundError,
    UnboundedDimensionsError,
    UnsupportedError,
    suggestion,
)
from tvmrt.option_syntax import Unquoted, option

from .tensors import declared_dims


def input_types(
    infos: Sequence[onnx.ValueInfoProto],
    shapes: Mapping[str, Sequence[int | str]],
    dims: Dims,
    results: Sequence[onnx.ValueInfoProto] = (),
) -> dict[str, TensorType]:
    """Return the types of inputs by name. Dimensions of ``results`` may be declared, too.

    Extents in ``shapes`` are numbers, names of declared dimensions, or declarations. Raises
    KeyError for an unknown input, ValueError for a missing or contradictory shape, and
    UnsupportedError for an input that is not a tensor of a supported element type.
    """
    names = [info.name for info in infos]
    for name in shapes:
        if name not in names:
            advice = suggestion(name, names) if names else "it has none"
            raise NameNotFoundError(
                f"{option('shapes', {name: shapes[name]})}: the network has no input {name}; "
                f"{advice}"
            )
    declared = {name: _declare_dims(shape, dims) for name, shape in shapes.items()}
    others = _open_names((info for info in infos if info.name not in declared), dims)
    types = {info.name: _input_type(info, declared.get(info.name), dims, others) for info in infos}
    _check_symbols(infos, types)
    _check_used([*infos, *results], declared, dims)
    _check_known(types)
    return types


def make_given_inputs(model: onnx.ModelProto, shapes: Iterable[str]) -> onnx.ModelProto:
    """Return the model, in which inputs with a default value, an initialiser, have none if their
    shape is given: the caller sets them in each run."""
    overridden = {info.name for info in model.graph.input}.intersection(shapes)
    initializers = [tensor for tensor in model.graph.initializer if tensor.name not in overridden]
    if len(initializers) == len(model.graph.initializer):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.initializer[:]
    copy.graph.initializer.extend(initializers)
    return copy


def _open_names(infos: Iterable[onnx.ValueInfoProto], dims: Dims) -> list[str]:
    """Return the named dimensions of inputs that are not declared."""
    names = (d.dim_param for info in infos for d in info.type.tensor_type.shape.dim)
    return [name for name in dict.fromkeys(names) if name and name not in dims]


def _check_known(types: Mapping[str, TensorType]) -> None:
    """Raise ValueError for a dimension that a run cannot compute from the extent of an axis.

    An axis determines ``height`` if its extent is ``height``, or ``32*height + 5``.
    """
    extents = [n for type in types.values() for n in type.shape]
    symbols = {form[0] for form in map(linear_form, extents) if form is not None}
    for symbol in symbols_of(extents) - symbols:
        found = next(n for n in extents if symbol in symbols_of(n))
        raise ValueError(
            f"no axis of an input determines the dimension {symbol.name}, which occurs only in "
            f"{found!r}; declare an axis that is {symbol.name} or a multiple of it"
        )


def _preserves_shape(node: onnx.NodeProto) -> bool:
    """Return whether the shape of the first operand is also the result's shape."""
    forms = ONNX_FORMS.get((domain_of(node.domain), node.op_type), ())
    is_plain = any(op.kind == POINTWISE and len(op.contract.operands) == 1 for op in forms)
    return is_plain or operator_name(node) in ("Cast", "CastLike", "Softmax")


def overrides_declared(
    infos: Iterable[onnx.ValueInfoProto], types: Mapping[str, TensorType]
) -> bool:
    """Whether an input has another extent than the fixed one that the network declares. Other
    declared extents may then be wrong, too."""
    return any(
        d.HasField("dim_value") and d.dim_value != extent
        for info in infos
        if info.name in types
        for d, extent in zip(info.type.tensor_type.shape.dim, types[info.name].shape)
    )


def declared_shapes(proto: onnx.GraphProto, dims: Dims) -> dict[str, tuple[int | Extent, ...]]:
    """Return the shapes that a graph declares of its tensors, propagated backwards, by name."""
    result: dict[str, tuple[int | Extent, ...]] = {}
    for info in (*proto.value_info, *proto.output):
        declared = declared_dims(info)
        if declared is not None and all(isinstance(d, int) or d in dims for d in declared):
            shape = [dims.extent_in_file(d) if isinstance(d, str) else d for d in declared]
            if None not in shape:
                result[info.name] = tuple(shape)
    for node in reversed(proto.node):
        if not node.input or not node.output:
            continue
        if _preserves_shape(node) and node.output[0] in result:
            result.setdefault(node.input[0], result[node.output[0]])
    return result


def _declare_dims(shape: Sequence[int | str], dims: Dims) -> tuple[int | str, ...]:
    """Declare the dimensions that a shape declares, and return it with their names."""
    found: list[int | str] = []
    for extent in shape:
        name = extent
        if isinstance(extent, str) and extent not in dims:
            name, bounds = parse_dim(extent)
            dims.declare(name, bounds)
        found.append(name)
    return tuple(found)


def _check_used(infos: Sequence[onnx.ValueInfoProto], given: Mapping, dims: Dims) -> None:
    known = {d.dim_param for info in infos for d in info.type.tensor_type.shape.dim}
    known |= {extent for shape in given.values() for extent in shape if isinstance(extent, str)}
    unused = dims.unused(known)
    if unused:
        names = sorted(filter(str.isidentifier, known)) or sorted(known - {""})
        hint = suggestion(unused[0], names) if names else "all of its dimensions are fixed"
        declared = option("dims", {unused[0]: dims.declaration(unused[0])})
        raise NameNotFoundError(
            f"{declared}: no input or output has a dimension {unused[0]}; {hint}"
        )


def element_name(element_type: int) -> str:
    """Return numpy's name of an ONNX element type, or "<number>, which ONNX does not define"."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(element_type)).name
    except KeyError:
        return f"{element_type}, which ONNX does not define"


def _input_type(
    info: onnx.ValueInfoProto,
    given: Sequence[int | str] | None,
    dims: Dims,
    others: Sequence[str],
) -> TensorType:
    if not info.type.HasField("tensor_type"):
        kind = info.type.WhichOneof("value")
        if kind is None:
            raise ValueError(f"input {info.name} has no type; export the model again")
        raise UnsupportedError(f"input {info.name} is a {kind}; only tensors are supported")
    name = element_name(info.type.tensor_type.elem_type)
    if name == "object":
        return TensorType(_extents(info, given, dims, others), HANDLE)  # a tensor of strings
    if name not in DTYPES:
        raise UnsupportedError(f"input {info.name} has element type {name}; it is not supported")
    return TensorType(_extents(info, given, dims, others), DTYPES[name])


def _extents(
    info: onnx.ValueInfoProto,
    given: Sequence[int | str] | None,
    dims: Dims,
    others: Sequence[str],
) -> tuple[int | Extent, ...]:
    check_rank(info.type.tensor_type.shape.dim, f"input {info.name}")
    declared = declared_dims(info)
    if declared is not None:
        declared = tuple("?" if d == "" else d for d in declared)
    if given is None:
        if declared is None or any(isinstance(d, str) and d not in dims for d in declared):
            raise _undeclared_dims_error(info.name, declared, dims, others)
        given = declared
    given = tuple(d if isinstance(d, str) else int(d) for d in given)
    if declared is not None and len(given) != len(declared):
        raise ValueError(
            f"{option('shapes', {info.name: given})} does not fit input {info.name} of shape "
            f"[{', '.join(map(str, declared))}]"
        )
    if any(isinstance(d, int) and d < 0 for d in given):
        raise ValueError(f"input {info.name}: shape {list(given)} has a negative extent")
    return tuple(dims.extent(d) if isinstance(d, str) else d for d in given)


def _undeclared_dims_error(
    name: str, declared: Sequence[int | str] | None, dims: Dims, others: Sequence[str]
) -> UnboundedDimensionsError:
    """Return the error for an input with undeclared dimensions; ``others``: those of all inputs."""
    if declared is None:
        return UnboundedDimensionsError(
            f"the file does not declare the rank of input {name}; give its shape, for example "
            + option("shapes", {name: [1]})
        )
    open_ = [d for d in dict.fromkeys(declared) if isinstance(d, str) and d not in dims]
    names = dims.undeclared(dict.fromkeys([*open_, *others]))
    text = ", ".join(map(str, declared))
    return UnboundedDimensionsError(
        f"input {name} has shape [{text}], where {', '.join(open_)} "
        f"{'is' if len(open_) == 1 else 'are'} open; declare the sizes, as in "
        + option("dims", {n: (Unquoted("LOW"), Unquoted("HIGH")) for n in names}),
        tuple(names),
    )


def _check_symbols(infos: Sequence[onnx.ValueInfoProto], types: Mapping[str, TensorType]) -> None:
    """Raise ValueError if a symbol stands for different extents in different inputs."""
    found: dict[str, tuple[int, str]] = {}
    for info in infos:
        for dim, extent in zip(info.type.tensor_type.shape.dim, types[info.name].shape):
            if not dim.dim_param:
                continue
            before, where = found.setdefault(dim.dim_param, (extent, info.name))
            if before != extent:
                raise ValueError(
                    f"the dimension {dim.dim_param} is {before!r} in input {where} and "
                    f"{extent!r} in input {info.name}; give both the same extent"
                )


def check_default(info: onnx.ValueInfoProto, weights: Value | None, element_type: int) -> None:
    """Raise ValueError if an input's declared type differs from its default weights."""
    tensor = info.type.tensor_type
    if weights is None:
        return
    if tensor.elem_type not in (0, element_type):
        raise ValueError(
            f"input {info.name} is declared {element_name(tensor.elem_type)}, "
            f"its weights are {element_name(element_type)}; export the model again"
        )
    if not tensor.HasField("shape"):
        return
    extents = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
    if len(extents) != len(weights.shape) or any(
        e is not None and e != n for e, n in zip(extents, weights.shape)
    ):
        raise ValueError(
            f"input {info.name} is declared [{', '.join(str(e or '?') for e in extents)}], "
            f"its weights are {weights.type}; export the model again"
        )


def name_symbolic_axes(
    model: onnx.ModelProto, shapes: Mapping[str, Sequence[int | str]]
) -> onnx.ModelProto:
    """Return a model in which each symbolic axis of an input has a name: ``x_2`` is axis 2 of
    ``x``.

    Inputs with a shape in ``shapes`` are left unchanged, and so is a model that needs no name.
    """
    if not any(_unnamed_axes(info, shapes) for info in model.graph.input):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    taken = {dim.dim_param for info in copy.graph.input for dim in info.type.tensor_type.shape.dim}
    for info in copy.graph.input:
        dims = info.type.tensor_type.shape.dim
        for axis in _unnamed_axes(info, shapes):
            name = re.sub(r"\W", "_", f"{info.name}_{axis}", flags=re.ASCII)
            dims[axis].dim_param = unused_name(name, taken.__contains__)
            taken.add(dims[axis].dim_param)
    return copy


def _unnamed_axes(info: onnx.ValueInfoProto, shapes: Mapping[str, object]) -> list[int]:
    if info.name in shapes:
        return []
    dims = info.type.tensor_type.shape.dim
    return [i for i, d in enumerate(dims) if not d.HasField("dim_value") and not d.dim_param]

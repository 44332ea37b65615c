"""The network's inputs: their types, with symbolic extents bound by whoever compiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper

from tvmrt.error import UnsupportedError
from tvmrt.ir import DTYPES, TensorType


def input_types(
    infos: Sequence[onnx.ValueInfoProto], shapes: Mapping[str, Sequence[int]]
) -> dict[str, TensorType]:
    """Types by name, of inputs that are no weights.

    Raises KeyError for a shape of something that is no input, ValueError for a shape that does
    not fit or is missing, and UnsupportedError for what is no tensor of a known element type.
    """
    names = [info.name for info in infos]
    for name in shapes:
        if name not in names:
            raise KeyError(
                f"a shape is given for {name}, which is not an input; "
                f"the inputs are {', '.join(names) or 'none'}"
            )
    types = {info.name: _input_type(info, shapes.get(info.name)) for info in infos}
    _check_symbols(infos, types)
    return types


def element_name(element_type: int) -> str:
    """numpy's name of an ONNX element type, or "<number>, which ONNX does not define"."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(element_type)).name
    except KeyError:
        return f"{element_type}, which ONNX does not define"


def _input_type(info: onnx.ValueInfoProto, given: Sequence[int] | None) -> TensorType:
    if not info.type.HasField("tensor_type"):
        kind = info.type.WhichOneof("value")
        if kind is None:
            raise ValueError(f"input {info.name} has no type; export the model again")
        raise UnsupportedError(f"input {info.name} is a {kind}; only tensors are supported")
    name = element_name(info.type.tensor_type.elem_type)
    if name not in DTYPES:
        raise UnsupportedError(f"input {info.name} has element type {name}; it is not supported")
    return TensorType(_extents(info, given), DTYPES[name])


def _extents(info: onnx.ValueInfoProto, given: Sequence[int] | None) -> tuple[int, ...]:
    tensor = info.type.tensor_type
    fixed = tensor.HasField("shape")
    declared = [
        d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim
    ]
    if given is None:
        if not fixed or any(isinstance(d, str) for d in declared):
            text = ",".join(map(str, declared)) if fixed else "unknown"
            raise ValueError(
                f"input {info.name} has symbolic shape [{text}]; "
                f"bind it, for example with --shape {info.name}="
                + (",".join("1" if isinstance(d, str) else str(d) for d in declared) or "1")
            )
        given = declared
    given = tuple(int(d) for d in given)
    if fixed and (
        len(given) != len(declared)
        or any(isinstance(d, int) and d != g for d, g in zip(declared, given))
    ):
        raise ValueError(
            f"shape {list(given)} does not fit input {info.name} of shape "
            f"[{', '.join(map(str, declared))}]"
        )
    if any(d < 0 for d in given):
        raise ValueError(f"input {info.name}: shape {list(given)} has a negative extent")
    return given


def _check_symbols(infos: Sequence[onnx.ValueInfoProto], types: Mapping[str, TensorType]) -> None:
    """Every symbol stands for one extent, in all inputs that carry it."""
    found: dict[str, tuple[int, str]] = {}
    for info in infos:
        for dim, extent in zip(info.type.tensor_type.shape.dim, types[info.name].shape):
            if not dim.dim_param:
                continue
            before, where = found.setdefault(dim.dim_param, (extent, info.name))
            if before != extent:
                raise ValueError(
                    f"the symbol {dim.dim_param} stands for {before} in input {where} and for "
                    f"{extent} in input {info.name}; give every input of the symbol one extent"
                )

"""Names of the axes of inputs that a file leaves open."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import onnx

from tvmrt.compiler.frontend.dims import unused_name


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

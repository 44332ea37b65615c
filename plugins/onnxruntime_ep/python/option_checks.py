"""Checks of the provider's options, and the dimensions that each part of a graph declares."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import onnx

from tvmrt.compiler import option_values
from tvmrt.compiler.codegen.target import get_target, target_names
from tvmrt.compiler.frontend.dims import Dims
from tvmrt.compiler.frontend.onnx.default_bounds import name_symbolic_axes
from tvmrt.compiler.request import Request
from tvmrt.error import suggestion

_SPACES = re.compile(r"\s*(<=|=|\.\.)\s*")  # around the operators; names may have some, too


def parse_dims(text: str) -> dict[str, Any]:
    """Return the bounds of a text like ``batch=1..8, seq <= 128`` by name. Raise ValueError if one
    is malformed."""
    words = option_values.parse_names([text])
    return option_values.parse_dims(_SPACES.sub(r"\1", word) for word in words)


def check(request: Request, model: onnx.ModelProto) -> None:
    """Raise ValueError if the target or the dimensions do not suit a whole network.

    After an error about an option, no nodes are left to onnxruntime silently.
    """
    if request.target is not None:
        _check_target(request.target, request)
    names = _dimensions(model)
    if unused := Dims(request.dims).unused(names):
        known = suggestion(unused[0], sorted(names)) if names else "all of its sizes are fixed"
        raise ValueError(
            f"the option dims has bounds of {unused[0]}, but the network has no dimension "
            f"{unused[0]}; {known}"
        )


def of_part(request: Request, part: onnx.ModelProto) -> Request:
    """Return the options without the bounds of dimensions that a part lacks."""
    unused = Dims(request.dims).unused(_dimensions(part, ends_only=True))
    if not unused or request.dims is None:
        return request
    kept = {name: bounds for name, bounds in request.dims.items() if name not in unused}
    return replace(request, dims=kept or None)


def _check_target(name: str, request: Request) -> None:
    try:
        target = get_target(name, request.levels)
    except ValueError:
        hint = suggestion(name, target_names())
        raise ValueError(
            f"the option target has the value {name}, no known target; {hint}"
        ) from None
    if not target.hosted:
        raise ValueError(
            f"the option target has the value {name}, for which no libraries can be made; choose "
            "a target with an operating system, such as native"
        )


def _dimensions(model: onnx.ModelProto, ends_only: bool = False) -> set[str]:
    """Return the names of dimensions of inputs, outputs and the values between them."""
    graph = model.graph
    inputs = onnx.ModelProto()
    inputs.graph.input.extend(graph.input)
    named = name_symbolic_axes(inputs, {}).graph.input
    infos = [*named, *graph.output, *(() if ends_only else graph.value_info)]
    names = {size.dim_param for info in infos for size in info.type.tensor_type.shape.dim}
    return names - {""}

"""Compile a graph of onnxruntime, or its parts, to libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import onnx

from tvmrt.compiler.sdk.codegen import get_target, target_names
from tvmrt.compiler.sdk.frontend import Dims, name_symbolic_axes
from tvmrt.compiler.sdk.pipeline import Request, make, parse_dims, parse_names
from tvmrt.compiler.sdk.pipeline import compile as compile_network
from tvmrt.error import UnsupportedError, suggestion
from tvmrt.option_syntax import command_line, option
from tvmrt.plugins.onnxruntime_ep import partition
from tvmrt.plugins.onnxruntime_ep.partition import NODE

_SPACES = re.compile(r"\s*(<=|=|\.\.)\s*")  # around the operators; names may have some, too


class ProviderOptionError(ValueError):
    """A provider option has a wrong value.

    The execution provider finds these errors by the beginning of their text (OPTION_ERROR of
    ``src/platform/command.c``) and lets the creation of the session fail.
    """

    def __init__(self, name: str, value: str, reason: str) -> None:
        super().__init__(f"the provider option {name} has the value '{value}': {reason}")


def make_request(dims: str, target: str | None) -> Request:
    """Return the options of a compilation, by default for this machine.

    ``dims`` is a text like ``batch=1..8, seq <= 128``. Raises ProviderOptionError if it is
    malformed, or if the target is unknown or for another machine.
    """
    words = (_SPACES.sub(r"\1", word) for word in parse_names([dims]))
    with _errors_of_dims(dims):
        bounds = parse_dims(words)
        declared = Dims(bounds)
        for name in bounds:
            declared.extent(name)  # those that depend on others are evaluated only now
    if target:
        _check_target(target)
    options = {"dims": bounds, "target": target}
    return make({name: value for name, value in options.items() if value}).for_here()


@contextmanager
def _errors_of_dims(dims: str) -> Iterator[None]:
    """Turn errors of bounds into those of the provider option."""
    with command_line():  # the option has its syntax
        try:
            yield
        except (ValueError, TypeError, UnsupportedError) as error:
            reason = str(error).replace(f"{option('dims')} ", "")
            raise ProviderOptionError("dims", dims, reason) from None


def _check_target(name: str) -> None:
    """Raise ProviderOptionError if there is no target of a name, or not for this machine."""
    if name not in target_names():
        local = [each for each in target_names() if get_target(each).runs_here]
        reason = f"there is no such target; {suggestion(name, local)}"
        raise ProviderOptionError("target", name, reason)
    if not get_target(name).runs_here:
        reason = "it is for another machine; choose one of this machine, such as native"
        raise ProviderOptionError("target", name, reason)


def check_dimensions(dims: str, request: Request, model: onnx.ModelProto) -> None:
    """Raise ProviderOptionError if the option has bounds of a dimension that a whole network
    lacks."""
    names = _dimensions(model)
    if unused := Dims(request.dims).unused(names):
        known = suggestion(unused[0], sorted(names)) if names else "all of its sizes are fixed"
        reason = f"the network has no dimension {unused[0]}; {known}"
        raise ProviderOptionError("dims", dims, reason)


def write_libraries(
    model: Path, output: Path, parts: bool, dims: str, min_nodes: int, target: str | None
) -> None:
    """Compile a model, or its parts, as ``libraries.write_libraries`` describes it."""
    request = make_request(dims, target)
    network = onnx.load(model)
    if not parts:
        write_library(network, request, output)
        return
    check_dimensions(dims, request, network)
    parts_of_graph = partition.find_parts(
        network,
        lambda part, first: write_library(part, request, output.with_name(f"{first}.so")),
        min_nodes,
    )
    output.write_text("".join(" ".join(map(str, each)) + "\n" for each in parts_of_graph))


def write_library(model: onnx.ModelProto, request: Request, to: Path) -> None:
    """Compile a model to a library.

    Bounds of dimensions that the model lacks are ignored. Raises the errors of ``tvmrt.compile``.
    """
    named = _with_node_names(model)
    unused = Dims(request.dims).unused(_dimensions(named))
    dims = {name: bounds for name, bounds in (request.dims or {}).items() if name not in unused}
    compile_network(named, replace(request, dims=dims or None)).export_library(to)


def _with_node_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy without value infos, whose nodes are named after their indices."""
    named = onnx.ModelProto()
    named.CopyFrom(model)
    named.graph.ClearField("value_info")
    for index, node in enumerate(named.graph.node):
        node.name = NODE.format(index)
    return named


def _dimensions(model: onnx.ModelProto) -> set[str]:
    """Return the names of dimensions of a model's values."""
    graph = name_symbolic_axes(model, {}).graph
    infos = (*graph.input, *graph.output, *graph.value_info)
    return {size.dim_param for info in infos for size in info.type.tensor_type.shape.dim} - {""}

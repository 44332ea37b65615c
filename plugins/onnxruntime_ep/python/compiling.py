"""Compile parts of graphs to libraries, with the cache of ``tvmrt.load``."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import onnx

from tvmrt.compiler.sdk.codegen import get_target, target_names
from tvmrt.compiler.sdk.frontend import Dims, name_symbolic_axes
from tvmrt.compiler.sdk.pipeline import Request, make, parse_dims, parse_names
from tvmrt.error import UnsupportedError, suggestion
from tvmrt.network import cache_key
from tvmrt.network.cache import Cache
from tvmrt.option_syntax import option

LIBRARY = "network.so"
NODE = "ort{}"
"""Name of a node while it is compiled, so that errors name it uniquely."""
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
    try:
        yield
    except (ValueError, TypeError, UnsupportedError) as error:
        # errors name the bounds after the flag of the command line
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


def write_library(model: onnx.ModelProto, request: Request, to: Path) -> None:
    """Write the library of a model, from the cache or compiled now.

    Bounds of dimensions that the model lacks are ignored. Raises the errors of ``tvmrt.compile``.
    """
    named = _with_node_names(model)
    unused = Dims(request.dims).unused(_dimensions(named))
    dims = {name: bounds for name, bounds in (request.dims or {}).items() if name not in unused}
    request = replace(request, dims=dims or None)

    def compile_to(folder: Path) -> None:
        from tvmrt.compiler.sdk.pipeline import compile as compile_network

        compile_network(named, request).export_library(folder / LIBRARY)

    content = cache_key.digest("onnxruntime_ep", named.SerializeToString(deterministic=True))
    try:
        cache, key = Cache(), cache_key.key_of(content, request)
        shutil.copyfile((cache.find(key) or cache.add(key, compile_to)) / LIBRARY, to)
    except OSError:  # no cache on this machine, or it cannot be written
        with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            compile_to(Path(folder))
            shutil.copyfile(Path(folder) / LIBRARY, to)


def _with_node_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy without value infos, whose constants are sorted and whose nodes are named after
    their indices, so that equal graphs have equal keys in the cache.

    onnxruntime does not name all nodes, and names its own after counters.
    """
    named = onnx.ModelProto()
    named.CopyFrom(model)
    named.graph.ClearField("value_info")
    named.graph.initializer.sort(key=lambda each: each.name)
    for index, node in enumerate(named.graph.node):
        node.name = NODE.format(index)
    return named


def _dimensions(model: onnx.ModelProto) -> set[str]:
    """Return the names of dimensions of a model's values."""
    graph = name_symbolic_axes(model, {}).graph
    infos = (*graph.input, *graph.output, *graph.value_info)
    return {size.dim_param for info in infos for size in info.type.tensor_type.shape.dim} - {""}

"""Compile parts of graphs to libraries, with the cache of ``tvmrt.load``."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import onnx

from tvmrt.compiler import option_values
from tvmrt.compiler.codegen.target import Target, get_target
from tvmrt.compiler.frontend.dims import Dims
from tvmrt.compiler.frontend.onnx.default_bounds import name_symbolic_axes
from tvmrt.compiler.request import Request, make
from tvmrt.error import suggestion
from tvmrt.network import cache_key
from tvmrt.network.cache import Cache

LIBRARY = "network.so"
NODE = "ort{}"
"""Name of a node while it is compiled, so that errors name it uniquely."""
_SPACES = re.compile(r"\s*(<=|=|\.\.)\s*")  # around the operators; names may have some, too


def make_request(dims: str, target: str | None) -> Request:
    """Return the options of a compilation, by default for this machine.

    ``dims`` is a text like ``batch=1..8, seq <= 128``. Raises ValueError if it is malformed.
    """
    words = (_SPACES.sub(r"\1", word) for word in option_values.parse_names([dims]))
    options = {"dims": option_values.parse_dims(words), "target": target}
    return make({name: value for name, value in options.items() if value}).for_here()


def check(request: Request, model: onnx.ModelProto) -> None:
    """Raise ValueError if the target or the dimensions do not suit a whole network."""
    if request.target is not None:
        _check_target(get_target(request.target, request.levels))
    names = _dimensions(model) | _names(model.graph.value_info)
    if unused := Dims(request.dims).unused(names):
        known = suggestion(unused[0], sorted(names)) if names else "all of its sizes are fixed"
        raise ValueError(
            f"the option dims has bounds of {unused[0]}, but the network has no dimension "
            f"{unused[0]}; {known}"
        )


def _check_target(target: Target) -> None:
    if target.runs_here:
        return
    if target.hosted:
        reason = "which is for another machine; create the session there, or choose native"
    else:
        reason = (
            "for which no libraries can be made; choose a target with an operating system, such as "
            "native"
        )
    raise ValueError(f"the option target has the value {target.name}, {reason}")


@contextmanager
def compiled_library(model: onnx.ModelProto, request: Request) -> Iterator[Path]:
    """Give the path of the library of a model: from the cache, or compiled now.

    Bounds of dimensions that the model lacks are ignored. Raises the errors of ``tvmrt.compile``.
    """
    named = _with_node_names(model)
    unused = Dims(request.dims).unused(_dimensions(named))
    kept = {name: bounds for name, bounds in (request.dims or {}).items() if name not in unused}
    request = replace(request, dims=kept or None)
    content = named.SerializeToString(deterministic=True)
    try:
        cache = Cache()
        key = cache_key.digest(
            "onnxruntime_ep", cache_key.key_of(cache_key.digest(content), request)
        )
        entry = cache.find(key)
        if entry is None:
            entry = cache.add(key, lambda folder: _compile(named, request, folder))
    except OSError:  # no cache on this machine, or it cannot be written
        with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
            _compile(named, request, Path(folder))
            yield Path(folder) / LIBRARY
        return
    yield entry / LIBRARY


def _compile(model: onnx.ModelProto, request: Request, folder: Path) -> None:
    from tvmrt.compiler.pipeline import compile as compile_network

    compile_network(model, request).export_library(folder / LIBRARY)


def _with_node_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy without value infos, whose nodes are named after their indices.

    onnxruntime does not name all nodes, and names its own after counters; with these names equal
    graphs have equal keys in the cache.
    """
    named = onnx.ModelProto()
    named.CopyFrom(model)
    named.graph.ClearField("value_info")
    for index, node in enumerate(named.graph.node):
        node.name = NODE.format(index)
    return named


def _dimensions(model: onnx.ModelProto) -> set[str]:
    """Return the names of dimensions of inputs and outputs."""
    inputs = onnx.ModelProto()
    inputs.graph.input.extend(model.graph.input)
    return _names([*name_symbolic_axes(inputs, {}).graph.input, *model.graph.output])


def _names(infos) -> set[str]:
    return {size.dim_param for info in infos for size in info.type.tensor_type.shape.dim} - {""}

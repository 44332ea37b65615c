"""Compile parts of graphs to libraries, with the cache of ``tvmrt.load``."""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

import onnx

from tvmrt.compiler import option_values
from tvmrt.compiler.codegen.target import get_target
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
        target = get_target(request.target, request.levels)
        if not target.runs_here:
            raise ValueError(
                f"the option target has the value {target.name}, which is for another machine; "
                "choose one of this machine, such as native"
            )
    names = _dimensions(model)
    if unused := Dims(request.dims).unused(names):
        known = suggestion(unused[0], sorted(names)) if names else "all of its sizes are fixed"
        raise ValueError(
            f"the option dims has bounds of {unused[0]}, but the network has no dimension "
            f"{unused[0]}; {known}"
        )


def write_library(model: onnx.ModelProto, request: Request, to: Path) -> None:
    """Write the library of a model, from the cache or compiled now.

    Bounds of dimensions that the model lacks are ignored. Raises the errors of ``tvmrt.compile``.
    """
    named = _with_node_names(model)
    unused = Dims(request.dims).unused(_dimensions(named))
    kept = {name: bounds for name, bounds in (request.dims or {}).items() if name not in unused}
    request = replace(request, dims=kept or None)

    def compile_to(folder: Path) -> None:
        from tvmrt.compiler.pipeline import compile as compile_network

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

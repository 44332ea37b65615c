"""Compile parts of graphs to libraries, with the cache of ``tvmrt.load``."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import onnx

from tvmrt.compiler.request import Request, make
from tvmrt.network import cache_key
from tvmrt.network.cache import Cache
from tvmrt.plugins.onnxruntime_ep.option_checks import of_part

LIBRARY = "network.so"
NODE = "ort{}"
"""Name of a node while it is compiled, so that errors name it uniquely."""


def make_request(dims: Mapping[str, Any] | None, target: str | None) -> Request:
    """Return the options of a compilation, by default for this machine."""
    options: dict[str, Any] = {"dims": dict(dims)} if dims else {}
    if target:
        options["target"] = target
    return make(options).for_here()


def with_node_names(model: onnx.ModelProto) -> onnx.ModelProto:
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


@contextmanager
def compiled_library(model: onnx.ModelProto, request: Request) -> Iterator[Path]:
    """Give the path of the library of a model: from the cache, or compiled now.

    Raises the errors of ``tvmrt.compile``.
    """
    named = with_node_names(model)
    request = of_part(request, named)
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

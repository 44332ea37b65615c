"""A network in any of the forms that are taken, as a graph."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tvmrt import plugin
from tvmrt.compiler.custom import GraphBuilder, gather
from tvmrt.compiler.devices import Device
from tvmrt.compiler.devices.ask import ask
from tvmrt.compiler.frontend import onnx, tflite
from tvmrt.compiler.ir import Graph, Node
from tvmrt.compiler.request import Request


def graph_of(model: Any, request: Request, chosen: Sequence[Device]) -> Graph:
    """The graph of a network; a file whose suffix a plug-in imports is read by that plug-in."""
    if isinstance(model, (str, os.PathLike)) and Path(model).suffix not in plugin.NETWORKS:
        importer = plugin.find("importers", Path(model).suffix)
        if importer is not None:
            model = importer().import_model(os.fspath(model), request)
    if isinstance(model, Graph):
        return model
    if isinstance(model, tflite.EveryTensor) or tflite.is_tflite(model):
        if request.sequences:
            raise KeyError("inputs of a .tflite network are tensors; give no sequences")
        return tflite.import_model(
            model, request.shapes, request.tflite_rounding or "reference", request.signature,
            gather(request.operators), request.dims,
        )  # fmt: skip
    if isinstance(model, (bytes, bytearray)):
        raise ValueError(
            f"these {len(model)} bytes are no .tflite file; give the path of a network's file, or "
            "an onnx.ModelProto"
        )
    if request.signature is not None:
        raise ValueError("a signature is chosen of .tflite files; other networks have none")
    if not isinstance(model, GraphBuilder):
        operators = gather(request.operators)
        adopters = {
            d.name: partial(ask, d, "adopt") for d in chosen if type(d).adopt is not Device.adopt
        }
        return onnx.import_model(
            model, request.shapes, operators, request.dims, request.sequences, adopters
        )
    if request.shapes or request.dims or request.operators or request.sequences:
        raise ValueError("a GraphBuilder has shapes and operators already; give them to it alone")
    return model.graph()


def claimed(graph: Graph, devices: Sequence[Device]) -> set[Node]:
    """The nodes that a device other than the CPU takes as they are."""
    said = [ask(device, "annotate", graph) for device in devices if device.name != "cpu"]
    return {node for answers in said for node, reason in answers.items() if reason is None}

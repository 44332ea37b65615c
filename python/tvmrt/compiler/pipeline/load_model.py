"""Load a network in any supported form as a graph."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tvmrt import plugin
from tvmrt.compiler.custom import GraphBuilder, gather
from tvmrt.compiler.devices import Device
from tvmrt.compiler.devices.device_calls import call_device
from tvmrt.compiler.frontend import onnx
from tvmrt.compiler.ir import Graph, Node
from tvmrt.compiler.request import Request
from tvmrt.git_lfs import check_is_no_pointer
from tvmrt.option_syntax import options
from tvmrt.optional_dependencies import with_install_advice


def import_graph(model: Any, request: Request, chosen: Sequence[Device], is_bounded: bool) -> Graph:
    """Return the graph of a network; plug-ins import files with their suffix and other models.
    ``is_bounded``: see ``onnx.import_model``."""
    if isinstance(model, (str, os.PathLike)):
        check_is_no_pointer(model)
    model = _by_plugin(model, request)
    if isinstance(model, Graph):
        return model
    if isinstance(model, (bytes, bytearray)):
        model = onnx.parse_bytes(bytes(model))
    is_file = isinstance(model, (str, os.PathLike))
    if not (is_file or isinstance(model, GraphBuilder) or hasattr(model, "opset_import")):
        if isinstance(model, Mapping):
            raise TypeError(
                "a dictionary has the weights of a module alone, not its graph; load them with "
                "load_state_dict() and give the module"
            )
        remedy = "export it to ONNX, for example with torch.onnx.export(), and give that file"
        if hasattr(model, "read") or isinstance(model, memoryview):
            remedy = "give the path of the file, or its bytes"
        raise TypeError(
            f"an object of type {type(model).__name__} is not a network that tvmrt reads; {remedy}"
        )
    for _, row, value in request.options():
        if row.other_networks and value != row.default:
            raise ValueError(options(row.other_networks))
    if not isinstance(model, GraphBuilder):
        operators = gather(request.operators)
        fallback_handlers = {
            d.name: partial(call_device, d, "adopt")
            for d in chosen
            if type(d).adopt is not Device.adopt
        }
        return onnx.import_model(
            model, request.shapes, operators, request.dims, request.sequences, fallback_handlers,
            is_bounded=is_bounded, values=request.values,
        )  # fmt: skip
    if any((request.shapes, request.dims, request.operators, request.sequences, request.values)):
        raise ValueError("a GraphBuilder already has shapes and operators; do not give them again")
    graph = model.graph()
    if not graph.outputs:
        raise ValueError(
            f"graph {graph.name} has no outputs, so it computes nothing; add one with output()"
        )
    return graph


def _by_plugin(model: Any, request: Request) -> Any:
    """Return the model after import by a plug-in, or unchanged if no plug-in reads it."""
    if isinstance(model, (Graph, GraphBuilder)) or hasattr(model, "SerializeToString"):
        return model
    importer = plugin.importer_of(model)
    if importer is None:
        return model
    source = os.fspath(model) if isinstance(model, os.PathLike) else model
    try:
        return importer.import_model(source, request)
    except ModuleNotFoundError as error:
        raise with_install_advice(error) from error


def supported_nodes(graph: Graph, devices: Sequence[Device]) -> set[Node]:
    """Return the nodes that a device other than the CPU supports."""
    others = [device for device in devices if device.name != "cpu"]
    annotations = [call_device(device, "annotate", graph) for device in others]
    return {node for answers in annotations for node, reason in answers.items() if reason is None}

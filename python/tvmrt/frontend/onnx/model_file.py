"""Reading an ONNX file that nobody vouches for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

MIN_OPSET = 7


def load_model(source: str | os.PathLike | onnx.ModelProto) -> tuple[onnx.ModelProto, str]:
    """The model and the folder of its external data.

    Raises OSError when the file cannot be read and ValueError when it is no ONNX model.
    """
    if isinstance(source, onnx.ModelProto):
        check_texts(source)
        return source, ""
    path = Path(source)
    data = path.read_bytes()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as problem:
        raise ValueError(
            f"{path} is not an ONNX model, or is cut short ({len(data)} bytes); "
            "export or copy it again"
        ) from problem
    if not model.HasField("graph") or not (model.graph.node or model.graph.output):
        raise ValueError(f"{path} holds no ONNX graph ({len(data)} bytes); export it again")
    check_texts(model)
    check_external_data(model, path)
    return model, str(path.parent)


def check_texts(model: onnx.ModelProto) -> None:
    """Every name is text: protobuf hands out bytes where a damaged file has no valid UTF-8."""
    for text in _texts(model):
        if not isinstance(text, str):
            raise ValueError(f"the model has a damaged name {text!r}; copy or export it again")


def _texts(model: onnx.ModelProto) -> Iterator[str | bytes]:
    for opset in model.opset_import:
        yield opset.domain
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output)
        yield from _texts_of_nodes(function.node)
    yield from _texts_of_graph(model.graph)


def _texts_of_graph(graph: onnx.GraphProto) -> Iterator[str | bytes]:
    yield graph.name
    for tensor in graph.initializer:
        yield tensor.name
    for info in (*graph.input, *graph.output):
        yield info.name
        for extent in info.type.tensor_type.shape.dim:
            yield extent.dim_param
    yield from _texts_of_nodes(graph.node)


def _texts_of_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[str | bytes]:
    for node in nodes:
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield attribute.name
            if attribute.HasField("g"):
                yield from _texts_of_graph(attribute.g)


def check_external_data(model: onnx.ModelProto, path: Path) -> None:
    """Every external tensor lies inside the model's folder and is there in full."""
    folder = path.parent.resolve()
    for tensor in _tensors(model.graph):
        if not uses_external_data(tensor):
            continue
        info = ExternalDataInfo(tensor)
        target = (folder / info.location).resolve()
        if folder not in target.parents:
            raise ValueError(
                f"{path}: weights of {tensor.name} point outside the model's folder "
                f"({info.location}); keep external data beside the model"
            )
        if not target.is_file():
            raise FileNotFoundError(
                f"{path}: weights of {tensor.name} are missing; "
                f"put {info.location} beside the model"
            )
        end = (info.offset or 0) + (info.length or 0)
        if end > target.stat().st_size:
            raise ValueError(
                f"{target}: weights of {tensor.name} end at byte {end}, "
                f"the file at {target.stat().st_size}; copy it again"
            )


def _tensors(graph: onnx.GraphProto):
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("g"):
                yield from _tensors(attribute.g)


def opsets(model: onnx.ModelProto) -> dict[str, int]:
    """Opset version per domain; the default domain is the empty name."""
    found = {("" if o.domain == "ai.onnx" else o.domain): o.version for o in model.opset_import}
    version = found.get("", 1 if not found else max(MIN_OPSET, onnx.defs.onnx_opset_version()))
    newest = onnx.defs.onnx_opset_version()
    if not MIN_OPSET <= version <= newest:
        hint = f"with onnx {onnx.__version__}; a newer onnx reads more " if version > newest else ""
        raise ValueError(
            f"the model is written in opset {version}; tvmrt reads {MIN_OPSET} to {newest} "
            f"{hint}(onnx.version_converter can translate it)"
        )
    found[""] = version
    return found

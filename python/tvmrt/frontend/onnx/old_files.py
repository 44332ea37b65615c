"""Models of opsets that are older than what importers read: ONNX's own translation, and faults of
it mended."""

from __future__ import annotations

import warnings

import onnx
import onnx.checker
import onnx.shape_inference
from onnx import helper, version_converter

from tvmrt.error import Remark

from .model_file import MIN_OPSET

TRANSLATED_TO = 13


def modernised(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model in an opset that importers read: itself where it is in one.

    Raises ValueError for an old one that is damaged or that ONNX cannot translate.
    """
    found = [o.version for o in model.opset_import if o.domain in ("", "ai.onnx")]
    written = found[0] if found else MIN_OPSET
    if not 1 <= written < MIN_OPSET:
        return model
    try:
        onnx.checker.check_model(model)  # translating trusts what it reads
        translated = version_converter.convert_version(_spread(model), TRANSLATED_TO)
    except Exception as problem:
        raise ValueError(
            f"the model is written in opset {written}; tvmrt reads {MIN_OPSET} and newer, and ONNX "
            f"cannot translate it ({' '.join(str(problem).split())}); export it again"
        ) from problem
    warnings.warn(
        f"the model is written in opset {written} and was translated to {TRANSLATED_TO} as "
        "onnx.version_converter does it; compare its results, or export it again",
        Remark,
        stacklevel=2,
    )
    return translated


def _spread(model: onnx.ModelProto) -> onnx.ModelProto:
    """Operands that lie along axes in the middle of others with extents of 1 behind, as numpy
    broadcasts them.

    These are slopes of PRelu for each channel, which the translation leaves as they are, and what
    ``axis`` says of sums and products, where it compares the last extents whatever ``axis`` is.
    """
    shaped = onnx.shape_inference.infer_shapes(model)
    graph = shaped.graph
    infos = (*graph.input, *graph.value_info, *graph.output)
    ranks = {info.name: len(info.type.tensor_type.shape.dim) for info in infos}
    ranks.update((tensor.name, len(tensor.dims)) for tensor in graph.initializer)
    nodes = []
    for number, node in enumerate(graph.node):
        first, second = ([ranks.get(name, 0) for name in node.input] + [0, 0])[:2]
        axis = _axis_of(node)
        missing = 0 if axis is None or not second else first - axis - second
        if missing > 0:
            name = f"{node.input[1]}_along_{axis}_of_{number}"
            axes = list(range(second, second + missing))
            nodes.append(helper.make_node("Unsqueeze", [node.input[1]], [name], axes=axes))
            node.input[1] = name
        nodes.append(node)
    kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)
    return onnx.shape_inference.infer_shapes(shaped)


def _axis_of(node: onnx.NodeProto) -> int | None:
    """The axis of the first operand at which the second one begins; None if it is its last ones."""
    if node.op_type == "PRelu" and len(node.input) == 2:
        return 1
    given = {a.name: a.i for a in node.attribute}
    return given["axis"] if given.get("broadcast") and given.get("axis", -1) >= 0 else None

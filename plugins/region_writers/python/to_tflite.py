"""Conversion of int8 regions to TensorFlow Lite models, for tools that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvmrt.error import UnsupportedError
from tvmrt.plugins.region_writers.fixed_point_binary import PAIRS, merge_binary_ops
from tvmrt.plugins.region_writers.fixed_point_matmul import OPERATORS, merge_matmul_chains
from tvmrt.plugins.region_writers.int8_quantization import INT8_TYPES
from tvmrt.plugins.region_writers.quantized_to_tflite import (
    BYTE_FORMS,
    SOFTMAX,
    check_move,
    merge_int8_chains,
    quantizations_of,
)
from tvmrt.plugins.region_writers.tflite_writer import FIRST, LAST, TfliteForm, TfliteWriter, refuse


def _reshape(w: TfliteWriter, node: Mapping) -> None:
    (x,), (y,) = node["inputs"], node["outputs"]
    operands = [w.read(x), w.integers(w.shape(y))]
    w.add("RESHAPE", operands, w.result(y), "ReshapeOptions", newShape=w.shape(y))


def _transpose(w: TfliteWriter, node: Mapping) -> None:
    (x,), (y,) = node["inputs"], node["outputs"]
    if len(w.shape(x)) > 5:
        raise refuse(node, "it has more than five axes")
    perm = tuple(node["attrs"]["perm"])
    inner = y not in w.region["outputs"]
    if inner and perm == FIRST:  # readers undo this transpose, which was added for ONNX
        w.rename(y, True, w.read(x))
        return
    if inner and perm == LAST and w.is_last(x):
        w.rename(y, False, w.read(x, True))
        return
    operands = [w.read(x), w.integers(node["attrs"]["perm"])]
    w.add("TRANSPOSE", operands, w.result(y), "TransposeOptions")


def _concat(w: TfliteWriter, node: Mapping) -> None:
    """Concatenate images in their current order, and other tensors along the region's axes."""
    (y,), axis = node["outputs"], node["attrs"]["axis"]
    last = all(w.is_last(i) for i in node["inputs"])
    operands = [w.read(i, last) for i in node["inputs"]]
    index = LAST_INDEX[axis] if last else axis
    w.add("CONCATENATION", operands, w.result(y, last), "ConcatenationOptions", axis=index)


LAST_INDEX = (0, 3, 1, 2)  # channels-last index of each axis of an image


def _alone(w: TfliteWriter, node: Mapping) -> None:
    raise refuse(node, f"{node['op']} is supported after matmuls only")


def _int8_operator(w: TfliteWriter, node: Mapping) -> None:
    raise refuse(node, "its multipliers do not fit the scales of its tensors")


def _float_softmax(w: TfliteWriter, node: Mapping) -> None:
    need = f"scale {SOFTMAX.scale:g} and zero point {SOFTMAX.zero} after it"
    raise refuse(node, f"it is supported along the last axis only, with {need}")


MOVES: dict[str, TfliteForm] = {"concat": _concat, "reshape": _reshape, "transpose": _transpose}
FORMS: dict[str, TfliteForm] = {
    **MOVES, **BYTE_FORMS, "softmax": _float_softmax, **dict.fromkeys(OPERATORS, _alone),
    **dict.fromkeys(PAIRS, _int8_operator),
}  # fmt: skip


def region_to_tflite(region: Mapping[str, Any], constants: bytes) -> bytes:
    """Convert a region to a ``.tflite`` file, with inputs and outputs in the same order, shapes and
    axes; between them, images are channels-last.

    Parameters
    ----------
    region
        JSON of the region, as passed to a device's ``pre_run``.
    constants
        Bytes that the offsets of the region's constants refer to.

    Raises
    ------
    UnsupportedError
        For tensors of dynamic shape or other types than int8 and uint8, except around the layers,
        and for an operator, or a use of it, that cannot be written. The text names the node, and
        ``place`` is its index.
    ImportError
        If the package ai-edge-litert is not installed.
    """
    return write_region(region, constants).model()


def write_region(
    region: Mapping[str, Any], constants: bytes, free_boundaries: bool = False
) -> TfliteWriter:
    """Build the model of a region without serialising it. ``origins`` has the index of the node
    that each tensor was added for, -1 for inputs and outputs. With ``free_boundaries``, images
    enter and leave in the axis order of the adjacent operators."""
    writer = TfliteWriter(region, constants, free_boundaries)
    region = merge_binary_ops(merge_matmul_chains(region, writer.arrays), writer.arrays)
    rest = [(i, node) for i, node in enumerate(region["nodes"]) if node is not None]
    indices, region = [i for i, _ in rest], {**region, "nodes": [node for _, node in rest]}
    writer.region = region
    writer.quantizations = quantizations_of(region, writer.arrays)
    for tensor_id in region["inputs"]:
        writer.enter(tensor_id)
    writer.made_by(-1)
    for index, node in merge_int8_chains(region, writer.arrays):
        try:
            _write_node(writer, node, region["tensors"])
        except UnsupportedError as problem:
            problem.node_index = indices[index]
            raise
        writer.made_by(indices[index])
    writer.close()
    writer.made_by(-1)
    return writer


def _write_node(writer: TfliteWriter, node: Mapping, tensors: Sequence[Mapping]) -> None:
    if node["op"] not in FORMS:
        raise refuse(node, f"{node['op']} cannot be written as TensorFlow Lite")
    for tensor_id in (*node["inputs"], *node["outputs"]):
        row = tensors[tensor_id] if tensor_id >= 0 else {"dtype": "int8"}
        if "least" in row:
            raise refuse(node, "it has tensors of dynamic shape")
        if 0 in row.get("shape", ()):
            raise refuse(node, "it has tensors without elements")
        if row["dtype"] not in INT8_TYPES and node["op"] in (*MOVES, *PAIRS):
            raise refuse(node, f"it has tensors of {row['dtype']}")
    if node["op"] in MOVES:
        check_move(writer, node)
    FORMS[node["op"]](writer, node)

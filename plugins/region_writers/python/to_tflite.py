"""Conversion of float and int8 regions to TensorFlow Lite models, for tools that read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmrt.error import UnsupportedError
from tvmrt.plugins.region_writers.fixed_point_binary import PAIRS, merge_binary_ops
from tvmrt.plugins.region_writers.fixed_point_matmul import OPERATORS, merge_matmul_chains
from tvmrt.plugins.region_writers.int8_quantization import INT8_TYPES
from tvmrt.plugins.region_writers.quantized_to_tflite import (
    BYTE_FORMS,
    check_move,
    merge_int8_chains,
    quantizations_of,
)
from tvmrt.plugins.region_writers.tflite_windows import convolution, images, pad_input, pool
from tvmrt.plugins.region_writers.tflite_writer import FIRST, LAST, TfliteForm, TfliteWriter, refuse

# Unary and binary operators that differ from TensorFlow Lite's in the name only.
UNARY = {
    "abs": "ABS", "ceil": "CEIL", "cos": "COS", "exp": "EXP", "floor": "FLOOR", "log": "LOG",
    "neg": "NEG", "relu": "RELU", "sigmoid": "LOGISTIC", "sin": "SIN", "sqrt": "SQRT",
    "tanh": "TANH",
}  # fmt: skip
BINARY = {
    "add": ("ADD", "AddOptions"), "sub": ("SUB", "SubOptions"), "mul": ("MUL", "MulOptions"),
    "div": ("DIV", "DivOptions"), "max": ("MAXIMUM", "MaximumMinimumOptions"),
    "min": ("MINIMUM", "MaximumMinimumOptions"),
}  # fmt: skip
REDUCTIONS = {
    "reduce_max": "REDUCE_MAX", "reduce_mean": "MEAN", "reduce_min": "REDUCE_MIN",
    "reduce_sum": "SUM",
}  # fmt: skip


def _unary(w: TfliteWriter, node: Mapping) -> None:
    (x,), (y,) = node["inputs"], node["outputs"]
    last = w.is_last(x)
    source = w.read(x, last)
    w.add(UNARY[node["op"]], [source], w.result(y, last))


def _binary(w: TfliteWriter, node: Mapping) -> None:
    """Use the axis order of the computed operands; transposing constants costs nothing."""
    (y,) = node["outputs"]
    if len(w.shape(y)) > 4:
        raise refuse(node, "it has more than four axes")
    computed = [i for i in node["inputs"] if i not in w.arrays]
    whole = all(len(w.shape(i)) == 4 for i in node["inputs"])
    last = whole and bool(computed) and all(w.is_last(i) for i in computed)
    operands = [w.read(i, last) for i in node["inputs"]]
    name, options = BINARY[node["op"]]
    w.add(name, operands, w.result(y, last), options)


def _conv(w: TfliteWriter, node: Mapping) -> None:
    attrs, (y,) = images(w, node), node["outputs"]
    x, kernel, bias = (*node["inputs"], -1)[:3]
    if kernel not in w.arrays or (bias >= 0 and bias not in w.arrays):
        raise refuse(node, "its weights are computed")
    weights = w.arrays[kernel]
    biases = w.arrays[bias] if bias >= 0 else np.zeros(weights.shape[0], np.float32)
    source = pad_input(w, x, attrs)
    name, options, fields, transposed = convolution(w, node, weights)
    operands = [source, w.constant(transposed), w.constant(biases)]
    w.add(name, operands, w.result(y, True), options, **fields)


def _pool(w: TfliteWriter, node: Mapping) -> None:
    if node["op"] == "avg_pool":
        pool(w, node, "AVERAGE_POOL_2D", 0.0)
    else:
        pool(w, node, "MAX_POOL_2D", float(np.finfo(np.float32).min))


def _matmul(w: TfliteWriter, node: Mapping) -> None:
    a, b, bias = (*node["inputs"], -1)[:3]
    (y,) = node["outputs"]
    if min(len(w.shape(a)), len(w.shape(b))) < 2 or len(w.shape(y)) > 4:
        raise refuse(node, "its operands have one axis, or more than four")
    if b in w.arrays and len(w.shape(b)) == 2:
        own = bias in w.arrays and w.shape(bias) == w.shape(y)[-1:]
        biases = w.arrays[bias] if own else np.zeros(w.shape(b)[1], np.float32)
        operands = [w.read(a), w.constant(w.arrays[b].T), w.constant(biases)]
        name, options = "FULLY_CONNECTED", "FullyConnectedOptions"
        fields: dict[str, Any] = {"keepNumDims": True}
    else:
        own, operands = False, [w.read(a), w.read(b)]
        name, options, fields = "BATCH_MATMUL", "BatchMatMulOptions", {}
    if bias < 0 or own:
        w.add(name, operands, w.result(y), options, **fields)
        return
    product = w.tensor(w.shape(y))
    w.add(name, operands, product, options, **fields)
    w.add("ADD", [product, w.read(bias)], w.result(y), "AddOptions")


def _softmax(w: TfliteWriter, node: Mapping) -> None:
    (x,), (y,), axis = node["inputs"], node["outputs"], node["attrs"]["axis"]
    rank = len(w.shape(x))
    last = rank == 4 and axis % rank == 1
    if not last and axis % max(rank, 1) != rank - 1:
        raise refuse(node, "its axis is not the last one")
    source, result = w.read(x, last), w.result(y, last)
    if node["attrs"].get("log"):
        w.add("LOG_SOFTMAX", [source], result, "LogSoftmaxOptions")
    else:
        w.add("SOFTMAX", [source], result, "SoftmaxOptions", beta=1.0)


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


def _reduce(w: TfliteWriter, node: Mapping) -> None:
    (x,), (y,), attrs = node["inputs"], node["outputs"], node["attrs"]
    if len(w.shape(x)) > 4:
        raise refuse(node, "it has more than four axes")
    operands = [w.read(x), w.integers(attrs["axes"])]
    keep = bool(attrs["keepdims"])
    w.add(REDUCTIONS[node["op"]], operands, w.result(y), "ReducerOptions", keepDims=keep)


def _alone(w: TfliteWriter, node: Mapping) -> None:
    raise refuse(node, f"{node['op']} is supported after matmuls only")


def _int8_operator(w: TfliteWriter, node: Mapping) -> None:
    raise refuse(node, "its multipliers do not fit the scales of its tensors")


FORMS: dict[str, TfliteForm] = {
    **dict.fromkeys(UNARY, _unary), **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(REDUCTIONS, _reduce), "avg_pool": _pool, "concat": _concat, "conv": _conv,
    "matmul": _matmul, "max_pool": _pool, "reshape": _reshape, "softmax": _softmax,
    "transpose": _transpose, **BYTE_FORMS, **dict.fromkeys(OPERATORS, _alone),
    **dict.fromkeys(PAIRS, _int8_operator),
}  # fmt: skip
MOVES = ("concat", "reshape", "transpose")


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
        For tensors with types other than float32, int8 and uint8 or with dynamic shapes, and for
        an operator, or a use of it, that cannot be written. The text names the node, and ``place``
        is its index.
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
        row = tensors[tensor_id] if tensor_id >= 0 else {"dtype": "float32"}
        if "least" in row:
            raise refuse(node, "it has tensors of dynamic shape")
        if 0 in row.get("shape", ()):
            raise refuse(node, "it has tensors without elements")
        types = ("float32", *INT8_TYPES) if node["op"] in MOVES else ("float32",)
        if row["dtype"] not in types and node["op"] not in (*BYTE_FORMS, *OPERATORS):
            raise refuse(node, f"it has tensors of {row['dtype']}")
    if node["op"] in MOVES:
        check_move(writer, node)
    FORMS[node["op"]](writer, node)

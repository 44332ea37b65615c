"""Quantised operators as int8 operators of TensorFlow Lite.

There, a tensor has one scale and one zero point, and weights have zero point 0. A tensor without a
known scale gets scale 1, and the scales of weights compensate for it. uint8 tensors are converted
to int8 after the region's inputs, and back before its outputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tvmrt.plugins.region_writers.int8_quantization import INT8_TYPES, operands, scales_of, zeros_of
from tvmrt.plugins.region_writers.tflite_windows import (
    convolution,
    dilated,
    images,
    pad_input,
    pool,
    pool_source,
)
from tvmrt.plugins.region_writers.tflite_writer import (
    SHIFT,
    TensorQuantization,
    TfliteForm,
    TfliteWriter,
    refuse,
)

INT8_MIN, INT8_MAX = -128, 127
SOFTMAX = TensorQuantization(1 / 256, INT8_MIN)  # quantisation of an int8 softmax's result


def quantizations_of(
    region: Mapping, arrays: Mapping[int, np.ndarray]
) -> dict[int, TensorQuantization]:
    """Return the quantisation of each 8-bit tensor, converted to int8."""
    scales, zeros = scales_of(region, arrays), zeros_of(region, arrays)
    result = {}
    for tensor_id, row in enumerate(region["tensors"]):
        if row["dtype"] in INT8_TYPES:
            shift = _shift(row["dtype"])
            result[tensor_id] = TensorQuantization(
                scales.get(tensor_id, 1.0), zeros.get(tensor_id, shift) - shift
            )
    return result


def _shift(kind: str) -> int:
    return SHIFT if kind == "uint8" else 0


def _scale_mismatch(w: TfliteWriter, node: Mapping, tensor_id: int) -> Any:
    name = w.region["tensors"][tensor_id]["name"]
    return refuse(node, f"{name} has another scale or zero point for another operator")


def _check(w: TfliteWriter, node: Mapping, tensor_id: int, zero: int, scale: Any = None) -> None:
    """Raise UnsupportedError if a node's zero point or scale differs from the tensor's."""
    params, shift = w.quantizations.get(tensor_id), _shift(w.region["tensors"][tensor_id]["dtype"])
    if params is None:
        raise refuse(node, "it has tensors that are not 8-bit")
    if params.zero != zero - shift or (scale is not None and scale != params.scale):
        raise _scale_mismatch(w, node, tensor_id)


def _check_operands(w: TfliteWriter, node: Mapping) -> None:
    attrs = node["attrs"]
    for tensor_id, name in operands(node):
        _check(w, node, tensor_id, attrs[f"{name}_zero"], float(attrs[f"{name}_scale"]))


def check_move(w: TfliteWriter, node: Mapping) -> None:
    """Raise UnsupportedError unless all tensors of a move have the same quantisation."""
    tensor_ids = [n for n in (*node["inputs"], *node["outputs"]) if n >= 0]
    for tensor_id in tensor_ids:
        if w.quantizations.get(tensor_id) != w.quantizations.get(tensor_ids[0]):
            raise _scale_mismatch(w, node, tensor_id)


def _add_bounded(
    w: TfliteWriter,
    node: Mapping,
    name: str,
    inputs: Sequence[int],
    last: bool,
    options: str,
    **fields: Any,
) -> None:
    """Add an operator and clamp its result; a lower bound at the zero point is a fused RELU."""
    attrs, (y,) = node["attrs"], node["outputs"]
    params = w.quantizations[y]
    shift = _shift(attrs["to"])
    low, high = attrs["low"] - shift, attrs["high"] - shift
    if low == params.zero > INT8_MIN and name != "QUANTIZE":
        fields["fusedActivationFunction"] = w.schema.ActivationFunctionType.RELU
        low = INT8_MIN
    bounds = [("MAXIMUM", low)] if low > INT8_MIN else []
    bounds += [("MINIMUM", high)] if high < INT8_MAX else []
    indices = [w.like(y, _transposed(w.shape(y), last)) for _ in bounds]
    indices.append(w.result(y, last))
    w.add(name, inputs, indices[0], options, **fields)
    for (bound, value), source, index in zip(bounds, indices, indices[1:]):
        limit = w.constant(np.full(1, value, np.int8), params)
        w.add(bound, [source, limit], index, "MaximumMinimumOptions")


def _transposed(shape: Sequence[int], last: bool) -> list[int]:
    return [shape[0], *shape[2:], shape[1]] if last else list(shape)


class _LayerWeights(NamedTuple):
    """Weights, with a scale and a bias per result channel; ``zero`` is the zero point of unsigned
    weights, and 0 for signed ones."""

    weights: np.ndarray
    scale: np.ndarray
    biases: np.ndarray
    zero: int = 0


def _layer_weights(w: TfliteWriter, node: Mapping) -> _LayerWeights:
    """Return the weights of a product, as int8 with zero point 0 if they fit."""
    attrs, (y,) = node["attrs"], node["outputs"]
    x, kernel, factor, bias, zero = (*node["inputs"], -1, -1)[:5]
    if attrs["to"] not in INT8_TYPES:
        raise refuse(node, f"its result has type {attrs['to']}")
    _check(w, node, x, attrs["x_zero"])
    _check(w, node, y, attrs["y_zero"])
    axis = 0 if node["op"] == "qconv" else 1
    weights = w.arrays[kernel]
    count = weights.shape[axis]
    zeros = w.arrays[zero].reshape(-1) if zero in w.arrays else np.zeros(1, np.int32)
    spread = tuple(-1 if i == axis else 1 for i in range(weights.ndim))
    centred = weights.astype(np.int32) - zeros.reshape(spread if zeros.size > 1 else ())
    gain = w.arrays[factor].reshape(-1).astype(np.float64) * w.quantizations[y].scale
    scale = (np.broadcast_to(gain, (count,)) / w.quantizations[x].scale).astype(np.float32)
    biases = w.arrays[bias].reshape(-1) if bias in w.arrays else np.zeros(1, np.int32)
    sums = np.broadcast_to(biases, (count,)).astype(np.int32)
    if np.abs(centred).max(initial=0) <= INT8_MAX:
        return _LayerWeights(centred.astype(np.int8), scale, sums)
    if np.any(zeros != zeros[0]) or np.any(scale != scale[0]):
        raise refuse(node, "its weights have several scales, and with zero point 0 some exceed 127")
    shift = SHIFT if weights.dtype == np.int8 else 0
    unsigned = (weights.astype(np.int32) + shift).astype(np.uint8)
    return _LayerWeights(unsigned, scale[:1], sums, int(zeros[0]) + shift)


def _qconv(w: TfliteWriter, node: Mapping) -> None:
    images(w, node)
    product = _layer_weights(w, node)
    x = node["inputs"][0]
    source = pad_input(w, x, node["attrs"], w.quantizations[x].zero)
    name, options, fields, transposed = convolution(w, node, product.weights)
    axis = 3 if name == "DEPTHWISE_CONV_2D" else 0
    parts = _parts(w, x, product._replace(weights=transposed), axis)
    _add_layer(w, node, name, [source, *parts], True, options, **fields)


def _qmatmul(w: TfliteWriter, node: Mapping) -> None:
    x, y = node["inputs"][0], node["outputs"][0]
    if not 2 <= len(w.shape(y)) <= 4:
        raise refuse(node, "its operands have one axis, or more than four")
    product = _layer_weights(w, node)
    if np.all(product.scale == product.scale[0]):
        product = product._replace(scale=product.scale[:1])
    parts = _parts(w, x, product._replace(weights=product.weights.T), 0)
    operands, fields = [w.read(x), *parts], {"keepNumDims": True}
    _add_layer(w, node, "FULLY_CONNECTED", operands, False, "FullyConnectedOptions", **fields)


def _parts(w: TfliteWriter, x: int, product: _LayerWeights, axis: int) -> list[int]:
    """Add weights and biases as constants; a bias has the scale of the accumulators."""
    sums = (product.scale.astype(np.float64) * w.quantizations[x].scale).astype(np.float32)
    return [
        w.constant(product.weights, TensorQuantization(product.scale, product.zero, axis)),
        w.constant(np.ascontiguousarray(product.biases), TensorQuantization(sums)),
    ]


def _add_layer(
    w: TfliteWriter,
    node: Mapping,
    name: str,
    operands: Sequence[int],
    last: bool,
    options: str,
    **fields: Any,
) -> None:
    """Add a product; one with unsigned weights also needs unsigned input and output."""
    (x,), (y,) = node["inputs"][:1], node["outputs"]
    source, weights, biases = operands
    if w.tensors[weights].type != w.schema.TensorType.UINT8:
        _add_bounded(w, node, name, operands, last, options, **fields)
        return
    shifted = w.unsigned(x, w.tensors[source].shape)
    w.add("QUANTIZE", [source], shifted)
    result = w.unsigned(y, _transposed(w.shape(y), last))
    w.add(name, [shifted, weights, biases], result, options, **fields)
    _add_bounded(w, node, "QUANTIZE", [result], last, "QuantizeOptions")


def _pair(w: TfliteWriter, node: Mapping) -> None:
    _check_operands(w, node)
    if len(w.shape(node["outputs"][0])) > 4:
        raise refuse(node, "it has more than four axes")
    last = any(w.is_last(i) for i in node["inputs"])
    name, options = ("ADD", "AddOptions") if node["op"] == "qadd" else ("MUL", "MulOptions")
    _add_bounded(w, node, name, [w.read(i, last) for i in node["inputs"]], last, options)


def _qavg_pool(w: TfliteWriter, node: Mapping) -> None:
    """Write MEAN for a window that covers the image, AVERAGE_POOL_2D for equal quantisation, and
    otherwise a convolution with ones, which rounds only once."""
    _check_operands(w, node)
    attrs, (x,), (y,) = images(w, node), node["inputs"], node["outputs"]
    zero = w.quantizations[x].zero
    whole = attrs["kernel"] == w.shape(x)[2:] and not any(attrs["pads_before"])
    if whole and w.shape(y)[2:] == [1, 1]:
        source = w.read(x, True)
        axes = w.integers([1, 2])
        _add_bounded(w, node, "MEAN", [source, axes], True, "ReducerOptions", keepDims=True)
    elif w.quantizations[x] == w.quantizations[y] and (attrs["low"], attrs["high"]) == _range(
        attrs["to"]
    ):
        pool(w, node, "AVERAGE_POOL_2D", zero)
    else:
        source = pool_source(w, node, zero, True)
        channels, window = w.shape(x)[1], attrs["kernel"]
        ones = np.ones((1, *window, channels), np.int8)
        scale = np.full(channels, 1 / np.prod(window), np.float32)
        parts = _parts(w, x, _LayerWeights(ones, scale, np.zeros(channels, np.int32)), 3)
        fields = {**dilated(w, attrs), "depthMultiplier": 1}
        options = "DepthwiseConv2DOptions"
        _add_bounded(w, node, "DEPTHWISE_CONV_2D", [source, *parts], True, options, **fields)


def _range(kind: str) -> tuple[int, int]:
    return INT8_MIN + _shift(kind), INT8_MAX + _shift(kind)


def _qmax_pool(w: TfliteWriter, node: Mapping) -> None:
    check_move(w, node)
    pool(w, node, "MAX_POOL_2D", INT8_MIN)


def _conversion(w: TfliteWriter, node: Mapping) -> None:
    (x, scale, zero), (y,) = node["inputs"], node["outputs"]
    arrays = [w.arrays.get(tensor_id) for tensor_id in (scale, zero)]
    if any(array is None or array.size != 1 for array in arrays):
        raise refuse(node, "it has several scales, or computed ones")
    name, tensor_id = ("QUANTIZE", y) if node["op"] == "quantize" else ("DEQUANTIZE", x)
    factor, origin = (array.reshape(-1)[0].item() for array in arrays if array is not None)
    _check(w, node, tensor_id, int(origin), float(factor))
    last = w.is_last(x)
    source = w.read(x, last)
    w.add(name, [source], w.result(y, last))


def _qsoftmax(w: TfliteWriter, node: Mapping) -> None:
    (x,), (y,) = node["inputs"], node["outputs"]
    w.add("SOFTMAX", [w.read(x)], w.result(y), "SoftmaxOptions", beta=1.0)


BYTE_FORMS: dict[str, TfliteForm] = {
    "dequantize": _conversion, "qadd": _pair, "qavg_pool": _qavg_pool, "qconv": _qconv,
    "qmatmul": _qmatmul, "qmax_pool": _qmax_pool, "qmul": _pair, "qsoftmax": _qsoftmax,
    "quantize": _conversion,
}  # fmt: skip


def merge_int8_chains(
    region: Mapping, arrays: Mapping[int, np.ndarray]
) -> list[tuple[int, Mapping[str, Any]]]:
    """Return the nodes with their indices. A float softmax between int8 tensors becomes an int8
    softmax if its result has the quantisation that TensorFlow Lite requires."""
    nodes, makers, readers = region["nodes"], {}, dict.fromkeys(region["outputs"], 1)
    for index, node in enumerate(nodes):
        makers.update(dict.fromkeys(node["outputs"], index))
        for tensor_id in node["inputs"]:
            readers[tensor_id] = readers.get(tensor_id, 0) + 1
    quantizations = quantizations_of(region, arrays)
    fused, merged = {}, set()
    for index, node in enumerate(nodes):
        before = [nodes[i] for i in _chain(node, makers, readers, nodes)]
        if [n["op"] for n in before] != ["softmax", "dequantize"] or node["op"] != "quantize":
            continue
        softmax, source = before
        rank = len(region["tensors"][source["inputs"][0]]["shape"])
        plain = not softmax["attrs"].get("log") and softmax["attrs"]["axis"] % rank == rank - 1
        if plain and quantizations.get(node["outputs"][0]) == SOFTMAX:
            fused[index] = {**node, "op": "qsoftmax", "inputs": source["inputs"][:1]}
            merged.update(_chain(node, makers, readers, nodes))
    return [(i, fused.get(i, node)) for i, node in enumerate(nodes) if i not in merged]


def _chain(
    node: Mapping, makers: Mapping[int, int], readers: Mapping[int, int], nodes: Sequence[Mapping]
) -> list[int]:
    """Return up to two preceding nodes whose results only flow into this node."""
    result: list[int] = []
    for _ in range(2):
        tensor_id = node["inputs"][0] if node["inputs"] else -1
        if tensor_id not in makers or readers.get(tensor_id) != 1:
            break
        result.append(makers[tensor_id])
        node = nodes[result[-1]]
    return result

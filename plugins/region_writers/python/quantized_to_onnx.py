"""Quantised operators as ONNX: float operators between DequantizeLinear and QuantizeLinear.

Libraries use integer kernels if all readers of a tensor have the same scale for it. A region's
nodes define only some scales, and the combined multipliers of convolutions and matmuls. A tensor
without a known scale gets scale 1, and the scales of weights compensate for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tvmrt.compiler.sdk.graph import DTYPES
from tvmrt.error import UnsupportedError
from tvmrt.plugins.region_writers.onnx_writer import Form, Writer, pool, window

MATMUL_OPERATORS = frozenset({"qconv", "qmatmul", "qmatmul_computed"})
Attrs = Mapping[str, Any]


def _refuse(node: Mapping, reason: str) -> UnsupportedError:
    return UnsupportedError(f"{node['name']}: {reason}")


def _range(kind: str) -> tuple[int, int]:
    info = np.iinfo(DTYPES[kind].numpy)
    return int(info.min), int(info.max)


def _dequantize(w: Writer, tensor: str, kind: str, scale: float, zero: int) -> str:
    """Dequantise a tensor, once for each scale and zero point."""
    key = (tensor, scale, zero)
    if key not in w.results:
        operands = [tensor, *_parameters(w, kind, scale, zero)]
        w.results[key] = w.add("DequantizeLinear", operands)
    return w.results[key]


def _parameters(w: Writer, kind: str, scale: Any, zero: Any) -> list[str]:
    return [
        w.constant(np.asarray(scale, np.float32)),
        w.constant(np.asarray(zero, DTYPES[kind].numpy)),
    ]


def _finish(w: Writer, floats: str, attrs: Attrs, scale: float, output: str) -> None:
    """Clamp and quantise a float tensor by ``to``, ``y_zero``, ``low`` and ``high``."""
    kind, zero = attrs["to"], attrs["y_zero"]
    least, greatest = _range(kind)
    if (attrs["low"], attrs["high"]) != (least, greatest):
        bounds = [(attrs[key] - zero) * scale for key in ("low", "high")]
        if attrs["low"] == zero and attrs["high"] == greatest:
            floats = w.add("Relu", [floats])
        else:
            rows = [w.constant(np.asarray(bound, np.float32)) for bound in bounds]
            floats = w.add("Clip", [floats, *rows])
    w.add("QuantizeLinear", [floats, *_parameters(w, kind, scale, zero)], output)


def _weights(w: Writer, node: Mapping, axis: int) -> tuple[str, str]:
    """Return the dequantised weights, scaled by the multiplier, and the bias ("" if none)."""
    tensor_ids = [*node["inputs"], -1, -1, -1]
    weights, factor = w.arrays[tensor_ids[1]], w.arrays[tensor_ids[2]].reshape(-1)
    bias, zeros = w.arrays.get(tensor_ids[3]), w.arrays.get(tensor_ids[4])
    zero = np.zeros(1, np.int32) if zeros is None else zeros.reshape(-1)
    spread = tuple(-1 if i == axis else 1 for i in range(weights.ndim))
    centred = weights.astype(np.int32) - zero.reshape(spread if zero.size > 1 else ())
    least, greatest = _range("int8")
    if centred.size and least <= centred.min() and centred.max() <= greatest:
        weights, zero = centred.astype(np.int8), np.zeros(1, np.int8)
    count = weights.shape[axis]
    low, high = np.iinfo(weights.dtype).min, np.iinfo(weights.dtype).max
    if zero.min(initial=0) < low or zero.max(initial=0) > high:
        raise _refuse(node, "a zero point of its weights is out of range")
    gain = np.broadcast_to(factor, (count,)).astype(np.float64) * _result_scale(w, node)
    scale = (gain / w.scales.get(tensor_ids[0], 1.0)).astype(np.float32)
    zeros = np.broadcast_to(zero, (count,)).astype(weights.dtype)
    parts = [w.constant(part) for part in (weights, scale, zeros)]
    output = w.add("DequantizeLinear", parts, axis=axis)
    if bias is None:
        return output, ""
    sums = np.broadcast_to(bias.reshape(-1), (count,)) * gain
    return output, w.constant(sums.astype(np.float32))


def _result_scale(w: Writer, node: Mapping) -> float:
    return 1.0 if node["attrs"]["to"] == "float32" else w.scales.get(node["outputs"][0], 1.0)


def _layer_result(w: Writer, node: Mapping, floats: str, output: str) -> None:
    if node["attrs"]["to"] == "float32":
        w.add("Identity", [floats], output)
    else:
        _finish(w, floats, node["attrs"], _result_scale(w, node), output)


def _check_layer(w: Writer, node: Mapping) -> None:
    if node["attrs"]["to"] == "int32":
        raise _refuse(node, "int32 accumulators cannot be written as ONNX")


def _operand(w: Writer, node: Mapping, x: str) -> str:
    tensor_id = node["inputs"][0]
    return _dequantize(
        w, x, w.kind(tensor_id), w.scales.get(tensor_id, 1.0), node["attrs"]["x_zero"]
    )


def _qconv(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    _check_layer(w, node)
    weights, bias = _weights(w, node, 0)
    attrs = node["attrs"]
    operands = [_operand(w, node, inputs[0]), weights, *([bias] if bias else [])]
    sums = w.add("Conv", operands, group=attrs["groups"], **window(attrs))
    _layer_result(w, node, sums, output)


def _qmatmul(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    _check_layer(w, node)
    weights, bias = _weights(w, node, 1)
    sums = w.add("MatMul", [_operand(w, node, inputs[0]), weights])
    if bias:
        sums = w.add("Add", [sums, bias])
    _layer_result(w, node, sums, output)


def _qmatmul_computed(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    _check_layer(w, node)
    attrs = node["attrs"]
    factor = float(w.arrays[node["inputs"][2]].reshape(-1)[0])
    scale = factor * _result_scale(w, node) / w.scales.get(node["inputs"][0], 1.0)
    a = _operand(w, node, inputs[0])
    b = _dequantize(w, inputs[1], w.kind(node["inputs"][1]), scale, attrs["w_zero"])
    _layer_result(w, node, w.add("MatMul", [a, b]), output)


def _pair(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    attrs, floats = node["attrs"], []
    for name, x, tensor_id in zip("ab", inputs, node["inputs"]):
        scale, zero = attrs[f"{name}_scale"], attrs[f"{name}_zero"]
        floats.append(_dequantize(w, x, w.kind(tensor_id), scale, zero))
    result = w.add("Add" if node["op"] == "qadd" else "Mul", floats)
    _finish(w, result, attrs, attrs["y_scale"], output)


def _qavg_pool(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    attrs = node["attrs"]
    kind = w.kind(node["inputs"][0])
    x, mean = _dequantize(w, inputs[0], kind, attrs["x_scale"], attrs["x_zero"]), w.fresh()
    pool(w, {**node, "op": "avg_pool"}, [x], mean)
    _finish(w, mean, attrs, attrs["y_scale"], output)


def _qmax_pool(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    pool(w, {**node, "op": "max_pool"}, inputs, output)


def _converted(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    """Write quantize or dequantize with per-tensor or per-axis parameters."""
    arrays = [w.arrays.get(tensor_id) for tensor_id in node["inputs"][1:]]
    if any(array is None for array in arrays):
        raise _refuse(node, "its scale or zero point is computed")
    rank = len(w.shape(node["inputs"][0]))
    axis, rows = _along_an_axis(arrays, rank)
    if rows is None or rank != len(w.shape(node["outputs"][0])):
        raise _refuse(node, "its scales vary along several axes")
    op = "QuantizeLinear" if node["op"] == "quantize" else "DequantizeLinear"
    parts = [w.constant(row) for row in rows]
    w.add(op, [inputs[0], *parts], output, **({} if axis is None else {"axis": axis}))


def _along_an_axis(
    arrays: Sequence[np.ndarray], rank: int
) -> tuple[int | None, list[np.ndarray] | None]:
    if all(array.size == 1 for array in arrays):
        return None, [array.reshape(()) for array in arrays]
    padded_shapes = [(1,) * (rank - array.ndim) + array.shape for array in arrays]
    axes = {i for shape in padded_shapes for i, n in enumerate(shape) if n != 1}
    if len(axes) != 1 or any(len(shape) != rank for shape in padded_shapes):
        return None, None
    count = max(array.size for array in arrays)
    return axes.pop(), [np.broadcast_to(array.reshape(-1), (count,)) for array in arrays]


def _table(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    """Write a table lookup; a signed operand's entries are reordered to begin at its minimum."""
    kind = w.kind(node["inputs"][0])
    least = _range(kind)[0]
    entries = w.arrays[node["inputs"][1]].view(DTYPES[node["attrs"]["to"]].numpy)
    rows = w.constant(np.roll(entries, least) if least else entries)
    index = w.add("Cast", [inputs[0]], to=6)  # int32
    if least:
        index = w.add("Sub", [index, w.constant(np.asarray(least, np.int32))])
    w.add("Gather", [rows, index], output)


QUANTIZED_FORMS: dict[str, Form] = {
    "dequantize": _converted, "qadd": _pair, "qavg_pool": _qavg_pool, "qconv": _qconv,
    "qmatmul": _qmatmul, "qmatmul_computed": _qmatmul_computed, "qmax_pool": _qmax_pool,
    "qmul": _pair, "quantize": _converted, "table": _table,
}  # fmt: skip

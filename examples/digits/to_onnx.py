"""Write the trained digits network as ONNX: in float, and in int8 as QDQ pairs.

Both files have the input ``image`` (float32 ``[1, 1, 8, 8]``, 0 to 1) and the output
``probabilities`` (float32 ``[1, 10]``), so that one can stand in for the other.

The int8 network keeps weights as int8 with one scale per output channel and zero point 0, biases as
int32 with the scale ``input scale * weight scale``, and every activation as int8 with one scale
and zero point, taken from the range that the activation has over the training images.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import network
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8


def _node(
    kind: str, name: str, inputs: list[str], output: str, **attributes: Any
) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, [output], name=name, **attributes)


def _layer_node(layer: network.Layer, inputs: list[str], output: str) -> list[onnx.NodeProto]:
    """Return the ONNX nodes of one layer; ``inputs`` are data, weight and bias as far as it has."""
    if isinstance(layer, network.Conv):
        weight = layer.params["weight"]
        return [
            _node(
                "Conv",
                layer.name,
                inputs,
                output,
                kernel_shape=list(weight.shape[2:]),
                strides=[layer.stride] * 2,
                pads=[layer.pad] * 4,
                group=len(weight) if layer.depthwise else 1,
            )
        ]
    if isinstance(layer, network.Relu):
        return [_node("Relu", layer.name, inputs, output)]
    if isinstance(layer, network.MaxPool):
        return [_node("MaxPool", layer.name, inputs, output, kernel_shape=[2, 2], strides=[2, 2])]
    return [_node("Gemm", layer.name, inputs, output, transB=1)]


def _model(
    graph_name: str, nodes: list[onnx.NodeProto], constants: dict[str, np.ndarray]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        graph_name,
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        producer_name="tvmrt examples/digits",
        ir_version=IR_VERSION,
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def float_model(layers: list[network.Layer]) -> onnx.ModelProto:
    """Return the network in float32."""
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    tensor = "image"
    for layer in layers:
        if isinstance(layer, network.Dense):
            nodes.append(_node("Flatten", "flatten", [tensor], "flatten_out", axis=1))
            tensor = "flatten_out"
        names = [f"{layer.name}_{key}" for key in layer.params]
        constants.update(zip(names, layer.params.values()))
        nodes += _layer_node(layer, [tensor, *names], f"{layer.name}_out")
        tensor = f"{layer.name}_out"
    nodes.append(_node("Softmax", "softmax", [tensor], "probabilities", axis=1))
    return _model("digits_f32", nodes, constants)


@dataclass(frozen=True)
class Scale:
    """How a float tensor maps to int8: ``value = scale * (integer - zero_point)``."""

    scale: np.float32
    zero_point: np.int8

    @staticmethod
    def of_range(values: np.ndarray) -> Scale:
        """Cover the range of ``values`` and zero with the 256 steps of int8."""
        low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
        scale = np.float32((high - low) / 255.0)
        return Scale(scale, np.int8(np.clip(round(-128 - low / float(scale)), -128, 127)))


class _QdqWriter:
    """Collects nodes and constants of the int8 network."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def requantise(self, tensor: str, name: str, scale: Scale) -> str:
        """Append a QuantizeLinear and DequantizeLinear pair; return the tensor after it."""
        self.constants[f"{name}_scale"] = np.array(scale.scale)
        self.constants[f"{name}_zero_point"] = np.array(scale.zero_point)
        pair = [f"{name}_scale", f"{name}_zero_point"]
        quantised, value = f"{name}_quantised", f"{name}_dequantised"
        self.nodes += [
            _node("QuantizeLinear", f"{name}_quantise", [tensor, *pair], quantised),
            _node("DequantizeLinear", f"{name}_dequantise", [quantised, *pair], value),
        ]
        return value

    def parameter(self, name: str, integers: np.ndarray, scale: np.ndarray) -> str:
        """Append an integer constant, one scale per output channel; return its float tensor."""
        self.constants[f"{name}_quantised"] = integers
        self.constants[f"{name}_scale"] = scale
        self.constants[f"{name}_zero_point"] = np.zeros(scale.shape, integers.dtype)
        inputs = [f"{name}_quantised", f"{name}_scale", f"{name}_zero_point"]
        self.nodes.append(
            _node("DequantizeLinear", f"{name}_dequantise", inputs, f"{name}_dequantised", axis=0)
        )
        return f"{name}_dequantised"

    def parameters(self, layer: network.Layer, input_scale: Scale) -> list[str]:
        """Append weight and bias of ``layer``; return their float tensors."""
        weight = layer.params["weight"]
        rows = np.abs(weight.reshape(len(weight), -1)).max(axis=1)
        scale = (np.maximum(rows, 1e-8) / 127.0).astype(np.float32)
        shaped = scale.reshape((-1,) + (1,) * (weight.ndim - 1))
        integers = np.clip(np.rint(weight / shaped), -127, 127).astype(np.int8)
        bias_scale = (input_scale.scale * scale).astype(np.float32)
        bias = np.rint(layer.params["bias"] / bias_scale).astype(np.int32)
        return [
            self.parameter(f"{layer.name}_weight", integers, scale),
            self.parameter(f"{layer.name}_bias", bias, bias_scale),
        ]


def int8_model(layers: list[network.Layer], calibration: np.ndarray) -> onnx.ModelProto:
    """Return the network in int8, activation ranges taken over ``calibration`` images."""
    ranges = network.activations(layers, calibration)
    writer = _QdqWriter()
    scale = Scale.of_range(calibration)
    tensor = writer.requantise("image", "image", scale)
    for position, layer in enumerate(layers):
        if isinstance(layer, network.Dense):
            writer.nodes.append(_node("Flatten", "flatten", [tensor], "flatten_out", axis=1))
            tensor = writer.requantise("flatten_out", "flatten", scale)
        names = writer.parameters(layer, scale) if layer.params else []
        writer.nodes += _layer_node(layer, [tensor, *names], f"{layer.name}_out")
        tensor = f"{layer.name}_out"
        followed_by_relu = isinstance(layers[min(position + 1, len(layers) - 1)], network.Relu)
        if followed_by_relu:
            continue  # the rectifier is part of the integer operator: it is quantised after it
        if not isinstance(layer, network.MaxPool):  # a maximum keeps the scale of its input
            scale = Scale.of_range(ranges[layer.name])
        tensor = writer.requantise(tensor, layer.name, scale)
    writer.nodes.append(_node("Softmax", "softmax", [tensor], "probabilities", axis=1))
    return _model("digits_int8", writer.nodes, writer.constants)

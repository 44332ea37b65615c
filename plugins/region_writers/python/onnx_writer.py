"""Builder of the nodes and constants of a region's ONNX model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmrt.compiler.sdk.devices import constants_of
from tvmrt.compiler.sdk.graph import DTYPES
from tvmrt.error import UnsupportedError


def tensor_info(region: Mapping[str, Any], tensor_id: int) -> onnx.ValueInfoProto:
    """Return the declaration of a region tensor, named ``t`` and its number."""
    row = region["tensors"][tensor_id]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(DTYPES[row["dtype"]].numpy))
    return helper.make_tensor_value_info(f"t{tensor_id}", kind, row["shape"])


class Writer:
    """ONNX model under construction; a region tensor is named ``t`` and its number.

    ``arrays`` has the region's constants by number.
    """

    def __init__(self, region: Mapping[str, Any], constants: bytes) -> None:
        self.region = region
        self.arrays = constants_of(region, constants)
        self.nodes: list[onnx.NodeProto] = []
        self.made: list[onnx.TensorProto] = []
        self._count = 0

    def shape(self, tensor_id: int) -> list[int]:
        return self.region["tensors"][tensor_id]["shape"]

    def fresh(self) -> str:
        """Return a new name for an intermediate result."""
        self._count += 1
        return f"v{self._count}"

    def constant(self, array: np.ndarray) -> str:
        """Add a constant that is not in the region; return its name."""
        name = self.fresh()
        self.made.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def integers(self, values: Sequence[int]) -> str:
        """Add a constant of integers; return its name."""
        return self.constant(np.array(values, np.int64))

    def add(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Add a node with one result; return its name, a new one if ``output`` is empty."""
        output = output or self.fresh()
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def constants(self) -> list[onnx.TensorProto]:
        """Return the constants that nodes read."""
        read = {name for node in self.nodes for name in node.input}
        own = [
            numpy_helper.from_array(array, f"t{tensor_id}")
            for tensor_id, array in self.arrays.items()
            if f"t{tensor_id}" in read
        ]
        return own + self.made


Form = Callable[[Writer, Mapping, "list[str]", str], None]


def window(attrs: Mapping) -> dict[str, list[int]]:
    """Return the attributes that convolutions and pools have in common."""
    pads = [*attrs["pads_before"], *attrs["pads_after"]]
    return {"strides": attrs["strides"], "dilations": attrs["dilations"], "pads": pads}


def pool(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    """Add MaxPool or AveragePool. Raises UnsupportedError if windows exceed the padding."""
    attrs = node["attrs"]
    attributes = {"kernel_shape": attrs["kernel"], **window(attrs)}
    if node["op"] == "avg_pool" and any(step != 1 for step in attributes.pop("dilations")):
        raise UnsupportedError(f"{node['name']}: its windows are dilated")
    x, indices = w.shape(node["inputs"][0])[2:], w.shape(node["outputs"][0])[2:]
    for i, (n, out) in enumerate(zip(x, indices)):
        reach = attrs["dilations"][i] * (attrs["kernel"][i] - 1) + 1
        room = n + attrs["pads_before"][i] + attrs["pads_after"][i] - reach
        if room // attrs["strides"][i] + 1 != out:
            raise UnsupportedError(f"{node['name']}: its last window exceeds the padding")
    if node["op"] == "max_pool":
        w.add("MaxPool", inputs, output, **attributes)
    else:
        w.add("AveragePool", inputs, output, count_include_pad=attrs["count_pads"], **attributes)

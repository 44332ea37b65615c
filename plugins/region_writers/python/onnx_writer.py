"""The nodes and constants of an ONNX model that a region becomes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmrt.compiler.devices.region_json import constants_of
from tvmrt.compiler.ir import DTYPES
from tvmrt.error import UnsupportedError


def tensor_info(region: Mapping[str, Any], number: int) -> onnx.ValueInfoProto:
    """The declaration of a tensor of a region, by its name ``t`` and number."""
    row = region["tensors"][number]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(DTYPES[row["dtype"]].numpy))
    return helper.make_tensor_value_info(f"t{number}", kind, row["shape"])


class Writer:
    """A model under construction; a tensor's name is ``t`` and its number in the region.

    ``arrays`` has the region's constants by their numbers, ``scales`` what is known of tensors of
    bytes, ``results`` the names of what forms share.
    """

    def __init__(self, region: Mapping[str, Any], constants: bytes) -> None:
        self.region = region
        self.arrays = constants_of(region, constants)
        self.scales: Mapping[int, float] = {}
        self.results: dict[Any, str] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.made: list[onnx.TensorProto] = []
        self._count = 0

    def shape(self, number: int) -> list[int]:
        return self.region["tensors"][number]["shape"]

    def kind(self, number: int) -> str:
        """The name of a tensor's element type."""
        return self.region["tensors"][number]["dtype"]

    def fresh(self) -> str:
        """A name for what is computed on the way."""
        self._count += 1
        return f"v{self._count}"

    def constant(self, array: np.ndarray) -> str:
        """A constant that the region does not have, by its name."""
        name = self.fresh()
        self.made.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def numbers(self, values: Sequence[int]) -> str:
        """A constant of integers, by its name."""
        return self.constant(np.array(values, np.int64))

    def add(self, op: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """A node of one result, by its name; without one it gets a fresh one."""
        output = output or self.fresh()
        self.add_many(op, inputs, [output], **attributes)
        return output

    def add_many(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> None:
        """A node of several results."""
        self.nodes.append(helper.make_node(op, inputs, outputs, **attributes))

    def constants(self) -> list[onnx.TensorProto]:
        """Those that the nodes read."""
        read = {name for node in self.nodes for name in node.input}
        own = [
            numpy_helper.from_array(array, f"t{number}")
            for number, array in self.arrays.items()
            if f"t{number}" in read
        ]
        return own + self.made


Form = Callable[[Writer, Mapping, "list[str]", str], None]


def window(attrs: Mapping) -> dict[str, list[int]]:
    """What convolutions and pools share."""
    pads = [*attrs["pads_before"], *attrs["pads_after"]]
    return {"strides": attrs["strides"], "dilations": attrs["dilations"], "pads": pads}


def pool(w: Writer, node: Mapping, inputs: list[str], output: str) -> None:
    """MaxPool or AveragePool, whose last windows must lie within the padding."""
    attrs = node["attrs"]
    given = {"kernel_shape": attrs["kernel"], **window(attrs)}
    if node["op"] == "avg_pool" and any(step != 1 for step in given.pop("dilations")):
        raise UnsupportedError(f"{node['name']}: its windows are dilated")
    x, places = w.shape(node["inputs"][0])[2:], w.shape(node["outputs"][0])[2:]
    for i, (n, out) in enumerate(zip(x, places)):
        reach = attrs["dilations"][i] * (attrs["kernel"][i] - 1) + 1
        room = n + attrs["pads_before"][i] + attrs["pads_after"][i] - reach
        if room // attrs["strides"][i] + 1 != out:
            raise UnsupportedError(f"{node['name']}: its last window lies beyond the padding")
    if node["op"] == "max_pool":
        w.add("MaxPool", inputs, output, **given)
    else:
        w.add("AveragePool", inputs, output, count_include_pad=attrs["count_pads"], **given)

"""A network that is offered to a device."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

OPSET = 17


@dataclass
class Case:
    """Network of a few nodes with its inputs. ``name`` begins with the operator.

    ``weights``: constants; those named ``w...`` may have any values. ``exact``: sums and scales are
    exact in float32, so that only one result is correct, even halfway between two integers.
    ``sizes`` names the dynamic axes of inputs; ``opens`` has the axes of all inputs that may be
    dynamic. ``card`` is the key of the card that drew it, ``golden`` its correct results.
    """

    name: str
    nodes: list[onnx.NodeProto]
    feeds: dict[str, np.ndarray]
    weights: dict[str, np.ndarray] = field(default_factory=dict)
    outputs: tuple[str, ...] = ("y",)
    exact: bool = False
    sizes: dict[str, dict[int, str]] = field(default_factory=dict)
    opens: tuple[int, ...] = ()
    card: str = ""
    golden: list[np.ma.MaskedArray] = field(default_factory=list)

    @property
    def operator(self) -> str:
        """The name up to its colon."""
        return self.name.partition(":")[0]

    @property
    def quantized_inside(self) -> bool:
        """Whether a quantised tensor is computed from another one."""
        return sum(node.op_type == "QuantizeLinear" for node in self.nodes) > 1

    def model(self) -> onnx.ModelProto:
        """Return the network as an ONNX model."""

        def info(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            names = self.sizes.get(name, {})
            shape = [names.get(axis, extent) for axis, extent in enumerate(array.shape)]
            return helper.make_tensor_value_info(name, kind, shape)

        graph = helper.make_graph(
            self.nodes,
            "case",
            [info(name, array) for name, array in self.feeds.items()],
            [helper.make_empty_tensor_value_info(name) for name in self.outputs],
            [numpy_helper.from_array(np.asarray(a), name) for name, a in self.weights.items()],
        )
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

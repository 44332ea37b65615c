"""dnnl: float32 convolutions and matmuls by oneDNN, with fused bias, activation and residual add.
The other half is ``plugins/dnnl/src``, which makes a oneDNN primitive of each region."""

from __future__ import annotations

from itertools import product

import numpy as np

from tvmrt.compiler.sdk.devices import Context, Device, register
from tvmrt.compiler.sdk.graph import CHANNELS_LAST_LAYOUT, DENSE_LAYOUT, Node, Region

MAX_RANK = 6  # maximum rank of a oneDNN matmul
OPERATORS = ("conv", "matmul", "add", "relu", "max", "min")
SUM = ((), ("add",))  # of another layer; a bias is an operand of conv and matmul
ACTIVATION = ((), ("relu",), ("max",), ("min",), ("max", "min"))


def _matmul(node: Node) -> str | None:
    if min(value.type.rank for value in (*node.inputs[:2], node.output)) < 2:
        return "oneDNN multiplies matrices"
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None or bias.type.size == 1 or bias.type.size == bias.shape[-1]:
        return None
    return "oneDNN adds a bias of one number, or of one a column"


def _add(node: Node) -> str | None:
    a, b = node.inputs
    if a is not b and a.shape == b.shape:
        return None
    return "oneDNN adds another tensor of the same shape"


def _bound(node: Node) -> str | None:
    bounds = [v for v in node.inputs if v.is_constant and v.type.size == 1]
    flows = [v for v in node.inputs if v not in bounds]
    if len(flows) == len(bounds) == 1 and flows[0].shape == node.output.shape:
        return "oneDNN's bounds are numbers" if np.isnan(bounds[0].data).any() else None
    return "oneDNN's bounds are constant numbers"


CHECKS = {"matmul": _matmul, "add": _add, "max": _bound, "min": _bound}


@register
class OneDnnDevice(Device):
    """oneDNN: convolutions and matmuls of float32, with fused add, relu and clip."""

    name = "dnnl"
    layout = CHANNELS_LAST_LAYOUT
    version = 2  # version of the regions' meaning, as in dnnl.c
    patterns = tuple(
        (op, *a, *f, *b) for op, a, f, b in product(("conv", "matmul"), SUM, ACTIVATION, SUM)
    )
    region_per_pattern = True

    def refuses(self, context: Context) -> str | None:
        return "oneDNN needs an operating system" if context.runtime == "crt" else None

    def supports(self, node: Node) -> str | None:
        if node.op not in OPERATORS:
            return f"oneDNN has no {node.op} here"
        for value in (*node.operands(), *node.outputs):
            if value.dtype.name != "float32":
                return f"oneDNN computes {node.op} in float32, not in {value.dtype}"
            if value.type.rank > MAX_RANK:
                return f"a tensor of rank {value.type.rank} is too large for oneDNN"
            if value.type.size == 0:
                return "there is nothing to compute"
        return CHECKS[node.op](node) if node.op in CHECKS else None

    def optimize(self, region: Region) -> Region:
        if region.nodes[0].op == "matmul":  # convolutions are faster with channels last
            region.layout = DENSE_LAYOUT
        return region

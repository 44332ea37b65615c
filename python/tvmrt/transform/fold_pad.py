"""Take a padding with zeros in front of a convolution into the convolution."""

from __future__ import annotations

from tvmrt.ir import Builder, Graph, Node, Value

from .rewrite import rewrite


def fold_pad(graph: Graph) -> None:
    rewrite(graph, _fold)


def _fold(b: Builder, node: Node) -> Value | None:
    if node.op != "conv":
        return None
    pad = node.inputs[0].producer
    if pad is None or pad.op != "pad" or pad.attrs["mode"] != "constant" or pad.guard != node.guard:
        return None
    value = pad.inputs[1] if len(pad.inputs) > 1 else None
    if value is not None and (value.data is None or value.data.any()):
        return None
    before, after = pad.attrs["before"], pad.attrs["after"]
    if any(before[:2]) or any(after[:2]) or min((*before, *after)) < 0:
        return None
    attrs = dict(node.attrs)
    attrs["pads_before"] = tuple(p + q for p, q in zip(attrs["pads_before"], before[2:]))
    attrs["pads_after"] = tuple(p + q for p, q in zip(attrs["pads_after"], after[2:]))
    b.sources = tuple(dict.fromkeys((*node.sources, *pad.sources)))
    return b.emit("conv", [pad.inputs[0], *node.inputs[1:]], node.name, **attrs)

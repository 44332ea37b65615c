"""Image windows in TensorFlow Lite: explicit padding first, then windows without padding."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tvmrt.plugins.region_writers.tflite_writer import TfliteWriter, refuse


def images(w: TfliteWriter, node: Mapping) -> Mapping:
    """Return the attributes of a two-dimensional window. Raises UnsupportedError for others."""
    attrs = node["attrs"]
    if len(w.shape(node["inputs"][0])) != 4:
        raise refuse(node, "its tensors are not images")
    if min(*attrs["pads_before"], *attrs["pads_after"]) < 0:
        raise refuse(node, "its padding is negative")
    return attrs


def pad_input(w: TfliteWriter, tensor_id: int, attrs: Mapping, value: float) -> int:
    """Return the padded input, channels-last."""
    x = w.read(tensor_id, True)
    pads = [[0, 0], *map(list, zip(attrs["pads_before"], attrs["pads_after"])), [0, 0]]
    if not np.any(pads):
        return x
    shape = [n + sum(pad) for n, pad in zip(w.tensors[x].shape, pads)]
    index = w.like(tensor_id, shape)
    filler = w.constant(np.full(1, value, w.kind(tensor_id)), w.quantizations.get(tensor_id))
    w.add("PADV2", [x, w.integers(pads), filler], index, "PadV2Options")
    return index


def strides(w: TfliteWriter, attrs: Mapping) -> dict[str, int]:
    """Return the fields that all window operators have."""
    high, wide = attrs["strides"]
    return {"strideH": high, "strideW": wide, "padding": w.schema.Padding.VALID}


def dilated(w: TfliteWriter, attrs: Mapping) -> dict[str, int]:
    """Return the window fields of a convolution."""
    down, across = attrs["dilations"]
    return {**strides(w, attrs), "dilationHFactor": down, "dilationWFactor": across}


def pool_source(w: TfliteWriter, node: Mapping, lowest: float, average: bool) -> int:
    """Return the input of a pool, with padding of value ``lowest``."""
    attrs, (x,), (y,) = images(w, node), node["inputs"], node["outputs"]
    if any(step != 1 for step in attrs["dilations"]):
        raise refuse(node, "its windows are dilated")
    inside = any((*attrs["pads_before"], *attrs["pads_after"]))
    if average and inside and not attrs["count_pads"]:
        raise refuse(node, "it excludes padding from averages")
    source = pad_input(w, x, attrs, lowest)
    reach = [
        (n - k) // s + 1
        for n, k, s in zip(w.tensors[source].shape[1:3], attrs["kernel"], attrs["strides"])
    ]
    if reach != w.shape(y)[2:]:
        raise refuse(node, "its last window exceeds the padding")
    return source


def pool(w: TfliteWriter, node: Mapping, name: str, lowest: float) -> None:
    """Write AVERAGE_POOL_2D or MAX_POOL_2D."""
    attrs, (y,) = node["attrs"], node["outputs"]
    source = pool_source(w, node, lowest, name == "AVERAGE_POOL_2D")
    high, wide = attrs["kernel"]
    fields = {**strides(w, attrs), "filterHeight": high, "filterWidth": wide}
    w.add(name, [source], w.result(y, True), "Pool2DOptions", **fields)


def convolution(
    w: TfliteWriter, node: Mapping, weights: np.ndarray
) -> tuple[str, str, dict[str, int], np.ndarray]:
    """Return operator name, options table, its fields, and the transposed weights. Result channels
    are the last axis of depthwise weights and the first axis of others."""
    attrs = node["attrs"]
    fields = dilated(w, attrs)
    channels = w.shape(node["inputs"][0])[1]
    if weights.shape[1] == 1 and attrs["groups"] == channels > 1:
        fields["depthMultiplier"] = weights.shape[0] // channels
        transposed = weights[:, 0].transpose(1, 2, 0)[None]
        return "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", fields, transposed
    return "CONV_2D", "Conv2DOptions", fields, weights.transpose(0, 2, 3, 1)

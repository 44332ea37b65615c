"""Regions at other shapes: inconsistent shapes are refused before the device is called."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tvmrt
from tvmrt.runtime import ShapeTuple

F32 = "float32"


class Anything(tvmrt.devices.PythonDevice):
    """Device that computes nothing and relies on the given shapes."""

    name = "trusting"

    def supports(self, node):
        return None

    def compute(self, node, inputs):
        raise AssertionError


@pytest.fixture(autouse=True)
def device():
    tvmrt.devices.register(Anything())
    yield
    tvmrt.devices.unregister("trusting")


def node(op, inputs, output, **attrs):
    return {"op": op, "name": op, "inputs": inputs, "outputs": [output], "attrs": attrs}


WINDOW = {"strides": [2, 1], "dilations": [1, 1], "pads_before": [1, 0], "pads_after": [0, 0]}
CHAIN = (
    [("x", (4, 64)), ("w", (64, 128)), ("b", (128,)), ("p", (4, 128)), ("y", (4, 128))],
    [node("matmul", [0, 1, 2], 3), node("relu", [3], 4)],
)
CONV = (
    [("x", (1, 4, 9, 8)), ("w", (6, 2, 3, 3)), ("b", (6,)), ("y", (1, 6, 4, 6))],
    [node("conv", [0, 1, 2], 3, groups=2, **WINDOW)],
)
QUANTIZE = (
    [("x", (2, 3)), ("w", (1,)), ("b", (1,)), ("y", (2, 3))],
    [node("quantize", [0, 1, 2], 3)],
)
ELU = (
    [("x", (2, 3)), ("p", (2, 3)), ("y", (2, 3))],
    [node("expm1", [0], 1), node("where", [0, 0, 1], 2)],
)
SUM = ([("x", (2, 3)), ("w", (3,)), ("z", (2, 1)), ("y", (2, 3))], [
    node("where", [0, 1, 2], 3)])  # fmt: skip
BATCHES = (
    [("x", (2, 1, 4, 8)), ("z", (3, 8, 5)), ("y", (2, 3, 4, 5))],
    [node("matmul", [0, 1], 2)],
)
FEW_STRIDES = (CONV[0], [node("conv", [0, 1, 2], 3, groups=2, **{**WINDOW, "strides": [2]})])
NEGATIVE_PAD = (
    CONV[0],
    [node("conv", [0, 1, 2], 3, groups=2, **{**WINDOW, "pads_after": [-1, 0]})],
)
OTHER_BIAS = ([*CONV[0][:2], ("b", (5,)), CONV[0][3]], CONV[1])
LARGER = {"x": (3, 4, 13, 5), "y": (3, 6, 6, 3)}
POOL = (
    [("x", (1, 4, 9, 8)), ("y", (1, 4, 4, 6))],
    [node("max_pool", [0], 1, kernel=[3, 3], out_spatial=[4, 6], **WINDOW)],
)


def loaded(network):
    """Return a module of one region; w and b are constants."""
    tensors, nodes = network
    rows, offset = [], 0
    for name, shape in tensors:
        row = {"name": name, "dtype": F32, "shape": list(shape)}
        if name in "wb":
            row.update(offset=offset, bytes=4 * int(np.prod(shape)))
            offset += -(-row["bytes"] // 64) * 64
        rows.append(row)
    names = [name for name, _ in tensors]
    region = {
        "symbol": "r", "name": "r", "tensors": rows, "nodes": nodes,
        "inputs": [i for i, name in enumerate(names) if name in "xz"],
        "outputs": [names.index("y")],
    }  # fmt: skip
    text = {"format": "tvmrt-regions", "version": 1, "device": "trusting", "regions": [region]}
    return tvmrt.get_global_func("tvmrt.device.load_regions")(json.dumps(text), bytes(offset))


def reshape(module, network, **shapes):
    names = [name for name, _ in network[0]]
    changes = []
    for name, shape in shapes.items():
        changes += [names.index(name), ShapeTuple(shape)]
    tvmrt.get_global_func("tvmrt.device.reshape")(module, "r", *changes)


RIGHT = {
    "product of more rows": (CHAIN, {"x": (9, 64), "p": (9, 128), "y": (9, 128)}),
    "convolution of a larger picture": (CONV, {"x": (3, 4, 13, 5), "y": (3, 6, 6, 3)}),
    "operands that broadcast": (SUM, {"x": (1, 3), "z": (5, 1), "y": (5, 3)}),
    "batches that broadcast": (BATCHES, {"x": (7, 1, 4, 8), "y": (7, 3, 4, 5)}),
    "batch of the other operand": (
        BATCHES,
        {"x": (2, 6, 4, 8), "z": (1, 8, 5), "y": (2, 6, 4, 5)},
    ),
    "nothing new": (POOL, {"x": (1, 4, 9, 8)}),
}
WRONG = {
    "input alone": (CHAIN, {"x": (1, 3)}),
    "inner extent": (CHAIN, {"x": (4, 63)}),
    "rows of the product": (CHAIN, {"x": (9, 64), "p": (8, 128), "y": (8, 128)}),
    "columns of the product": (CHAIN, {"p": (4, 129), "y": (4, 129)}),
    "output alone": (CHAIN, {"y": (4, 1)}),
    "too many elements": (CHAIN, {"p": (2**40, 128), "y": (2**40, 128)}),
    "channels": (CONV, {"x": (1, 5, 9, 8)}),
    "batch of the result": (CONV, {"x": (2, 4, 9, 8), "y": (1, 6, 4, 6)}),
    "place of the last window": (CONV, {"x": (1, 4, 8, 8), "y": (1, 6, 5, 6)}),
    "picture below the window": (CONV, {"x": (1, 4, 1, 8), "y": (1, 6, 1, 6)}),
    "result larger than its operands": (SUM, {"x": (1, 3), "y": (7, 3), "z": (1, 1)}),
    "operand larger than the result": (SUM, {"x": (5, 3)}),
    "batches of two sizes": (BATCHES, {"x": (2, 2, 4, 8)}),
    "batches below the result": (BATCHES, {"z": (1, 8, 5), "y": (2, 3, 4, 5)}),
    "strides of another rank": (FEW_STRIDES, LARGER),
    "negative pad": (NEGATIVE_PAD, LARGER),
    "bias of another size": (OTHER_BIAS, LARGER),
    "groups that are none": (
        (CONV[0], [node("conv", [0, 1, 2], 3, groups=0, **WINDOW)]),
        LARGER,
    ),
    "operator that is not known": (POOL, {"x": (2, 4, 9, 8), "y": (2, 4, 4, 6)}),
}


@pytest.mark.parametrize(("network", "shapes"), RIGHT.values(), ids=RIGHT)
def test_consistent_shapes(network, shapes):
    reshape(loaded(network), network, **shapes)


# Shapes of inputs only, and the shape inferred for the last tensor.
INFERRED = {
    "product": (CHAIN, {"x": (9, 64)}, (9, 128)),
    "convolution": (CONV, {"x": (3, 4, 13, 5)}, (3, 6, 6, 3)),
    "operands that broadcast": (SUM, {"x": (1, 3), "z": (5, 1)}, (5, 3)),
    "exponential linear unit": (ELU, {"x": (4, 5)}, (4, 5)),
    "quantisation": (QUANTIZE, {"x": (4, 5)}, (4, 5)),
    "batches": (BATCHES, {"z": (1, 8, 5)}, (2, 1, 4, 5)),
    "columns": (BATCHES, {"z": (3, 8, 7)}, (2, 3, 4, 7)),
}


@pytest.mark.parametrize(("network", "shapes", "last"), INFERRED.values(), ids=INFERRED)
def test_output_shapes_are_inferred(network, shapes, last):
    module = loaded(network)
    reshape(module, network, **shapes)
    now = {name: shapes.get(name, shape) for name, shape in network[0]}
    inputs = [tvmrt.nd.array(np.zeros(now[name], F32)) for name in now if name in "xz"]
    run = module.get_function("r", True)
    with pytest.raises(ValueError, match="tensor 'y' comes with another shape"):
        run(*inputs, tvmrt.nd.array(np.zeros(network[0][-1][1], F32)))
    with pytest.raises(tvmrt.TVMError, match="AssertionError"):  # compute was called
        run(*inputs, tvmrt.nd.array(np.zeros(last, F32)))


@pytest.mark.parametrize(("network", "shapes"), WRONG.values(), ids=WRONG)
def test_inconsistent_shapes(network, shapes):
    module = loaded(network)
    with pytest.raises(ValueError, match="are inconsistent or unknown"):
        reshape(module, network, **shapes)
    reshape(module, network, **{name: shape for name, shape in network[0] if name not in "wb"})

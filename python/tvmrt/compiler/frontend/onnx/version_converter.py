"""Upgrade models of opsets 1 to 6 to opset 7, the oldest one that the importers read.

Opset 7 replaced the attributes ``broadcast`` and ``axis`` by numpy's broadcasting. The other
differences are attributes that were renamed, dropped or became inputs. ``_UPGRADES`` has a row for
each operator that changed; all others are the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import onnx
import onnx.checker
from onnx import TensorProto, helper, numpy_helper

from tvmrt.compiler.frontend.dims import unused_name

from .check_model import label
from .model_file import MIN_OPSET, OLDEST_OPSET
from .tensors import constant_tensor, nodes, replace_nodes, subgraphs

_Nodes = list[onnx.NodeProto]


def upgrade_opset(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model if the importers read its opset, else a copy of it in opset 7.

    Raises ValueError if the model is not valid in its opset or cannot be upgraded.
    """
    declared = [o.version for o in model.opset_import if not o.domain]
    version = declared[0] if declared else MIN_OPSET
    if not OLDEST_OPSET <= version < MIN_OPSET:
        return model
    try:
        onnx.checker.check_model(model)
    except Exception as problem:
        raise ValueError(
            f"the model is not valid in its opset {version} ({' '.join(str(problem).split())}); "
            "export it again"
        ) from problem
    upgraded = onnx.ModelProto()
    upgraded.CopyFrom(model)
    for opset in upgraded.opset_import:
        if not opset.domain:
            opset.version = MIN_OPSET
    _Upgrade(upgraded).graph(upgraded.graph)
    return upgraded


class _Upgrade:
    """The upgrade of one model: types and constants of the tensors seen so far, by name."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.opsets = list(model.opset_import)
        self.ir_version = model.ir_version
        self.types: dict[str, onnx.TypeProto] = {}
        self.constants: dict[str, TensorProto] = {}
        self.weights: list[TensorProto] = []  # new weights of the current graph
        self.taken = {name for node in nodes(model) for name in (*node.input, *node.output)}

    def graph(self, graph: onnx.GraphProto) -> None:
        """Upgrade a graph in place; nested graphs see the names of the enclosing graphs."""
        for tensor in graph.initializer:
            self._note(tensor)
        self.types.update((info.name, info.type) for info in graph.input)
        upgraded: _Nodes = []
        for node in graph.node:
            for nested in subgraphs(node):
                self.graph(nested)
            self.weights = []
            for new in self.node(node):
                self.infer(new)
                upgraded.append(new)
            graph.initializer.extend(self.weights)
        replace_nodes(graph.node, upgraded)

    def node(self, node: onnx.NodeProto) -> _Nodes:
        """Return the equivalent nodes of opset 7 for a node of an older opset."""
        if node.domain:
            return [node]
        _remove_attributes(node, "consumed_inputs")
        if node.op_type == "Constant" and (value := constant_tensor(node)) is not None:
            self.constants[node.output[0]] = value
        upgrade = _UPGRADES.get(node.op_type)
        return upgrade(self, node) if upgrade else [node]

    def infer(self, node: onnx.NodeProto) -> None:
        """Note the types of a node's outputs if onnx can infer them."""
        try:
            schema = onnx.defs.get_schema(node.op_type, MIN_OPSET, node.domain)
            types = {name: self.types[name] for name in node.input if name in self.types}
            data = {name: self.constants[name] for name in node.input if name in self.constants}
            self.types.update(
                onnx.shape_inference.infer_node_outputs(
                    schema, node, types, data, None, self.opsets, self.ir_version
                )
            )
        except Exception:  # the importer reports the error
            return

    def rank(self, node: onnx.NodeProto, name: str) -> int:
        """Return the rank of an operand. Raises ValueError if it is unknown."""
        kind = self.types.get(name, onnx.TypeProto())
        if not kind.tensor_type.HasField("shape"):
            raise ValueError(
                f"{label(node)} cannot be upgraded to opset 7, as the rank of {name} is unknown; "
                "declare its shape among the model's value_info, or export the model again"
            )
        return len(kind.tensor_type.shape.dim)

    def constant(self, node: onnx.NodeProto, name: str) -> np.ndarray:
        """Return the value of an operand. Raises ValueError if it is computed at run time."""
        if name not in self.constants:
            raise ValueError(
                f"{label(node)} cannot be upgraded to opset 7, as {name} is computed at run time; "
                "make it a constant, or export the model again"
            )
        return numpy_helper.to_array(self.constants[name])

    def unused_name(self, like: str) -> str:
        """Return an unused name for a new tensor."""
        name = unused_name(f"{like}_opset7", self.taken.__contains__)
        self.taken.add(name)
        return name

    def add_weight(self, like: str, values: Sequence[int]) -> str:
        """Add int64 weights to the current graph and return their name."""
        name = self.unused_name(like)
        tensor = numpy_helper.from_array(np.array(values, np.int64), name)
        self.weights.append(tensor)
        self._note(tensor)
        return name

    def _note(self, tensor: TensorProto) -> None:
        self.constants[tensor.name] = tensor
        self.types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, tensor.dims)


def _attributes(node: onnx.NodeProto) -> dict:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _remove_attributes(node: onnx.NodeProto, *names: str) -> None:
    attributes = [a for a in node.attribute if a.name not in names]
    if len(attributes) < len(node.attribute):
        copies = [onnx.AttributeProto.FromString(a.SerializeToString()) for a in attributes]
        del node.attribute[:]
        node.attribute.extend(copies)


def _replace_attributes(
    node: onnx.NodeProto, old: Sequence[str], new: Mapping[str, object]
) -> None:
    _remove_attributes(node, *old)
    node.attribute.extend(helper.make_attribute(name, value) for name, value in new.items())


def _drop_attributes(*names: str) -> Callable[[_Upgrade, onnx.NodeProto], _Nodes]:
    def upgrade(_: _Upgrade, node: onnx.NodeProto) -> _Nodes:
        _remove_attributes(node, *names)
        return [node]

    return upgrade


def _broadcast(upgrade: _Upgrade, node: onnx.NodeProto) -> _Nodes:
    """Give the second operand extents of 1 after those that ``axis`` aligns, as numpy needs."""
    attributes = _attributes(node)
    _remove_attributes(node, "broadcast", "axis")
    if not attributes.get("broadcast") or attributes.get("axis", -1) < 0:
        return [node]
    return _unsqueeze_second_operand(upgrade, node, attributes["axis"])


def _unsqueeze_second_operand(upgrade: _Upgrade, node: onnx.NodeProto, axis: int) -> _Nodes:
    rank, second = (upgrade.rank(node, name) for name in node.input[:2])
    missing = rank - axis - second
    if missing <= 0 or not second:
        return [node]
    axes = list(range(second, second + missing))
    wide = helper.make_node(
        "Unsqueeze", [node.input[1]], [upgrade.unused_name(node.input[1])], axes=axes
    )
    node.input[1] = wide.output[0]
    return [wide, node]


def _cast(_: _Upgrade, node: onnx.NodeProto) -> _Nodes:
    to = _attributes(node)["to"]
    if isinstance(to, bytes):
        name = to.decode("utf-8", "replace")
        if name.upper() not in TensorProto.DataType.keys():
            raise ValueError(f"{label(node)} casts to {name!r}, which is not an element type")
        _replace_attributes(node, ["to"], {"to": TensorProto.DataType.Value(name.upper())})
    return [node]


def _concat(_: _Upgrade, node: onnx.NodeProto) -> _Nodes:
    if "axis" not in _attributes(node):
        _replace_attributes(node, [], {"axis": 1})
    return [node]


def _round_p(_: _Upgrade, node: onnx.NodeProto) -> _Nodes:
    p = _attributes(node).get("p", 2.0)
    if p != int(p):
        raise ValueError(f"{label(node)} has p = {p}; opset 7 and newer need an integer")
    _replace_attributes(node, ["p"], {"p": int(p)})
    return [node]


def _pad(_: _Upgrade, node: onnx.NodeProto) -> _Nodes:
    attributes = _attributes(node)
    if "paddings" in attributes:
        _replace_attributes(node, ["paddings"], {"pads": attributes["paddings"]})
    return [node]


def _reshape(upgrade: _Upgrade, node: onnx.NodeProto) -> _Nodes:
    if len(node.input) > 1:
        return [node]
    node.input.append(upgrade.add_weight(node.output[0], _attributes(node).get("shape", [])))
    _remove_attributes(node, "shape")
    return [node]


def _split(upgrade: _Upgrade, node: onnx.NodeProto) -> _Nodes:
    if len(node.input) > 1:
        sizes = [int(n) for n in upgrade.constant(node, node.input[1])]
        _replace_attributes(node, ["split"], {"split": sizes})
        del node.input[1:]
    return [node]


def _tile(upgrade: _Upgrade, node: onnx.NodeProto) -> _Nodes:
    """Make the repeats of all axes from the count and the axis of Tile-1."""
    if len(node.input) < 3:
        return [node]
    x, tiles, axis_name = node.input
    rank = upgrade.rank(node, x)
    axis = int(upgrade.constant(node, axis_name).reshape(()))
    if not -rank <= axis < rank:
        raise ValueError(f"{label(node)} repeats axis {axis} of {rank}")
    axis %= rank
    one = upgrade.add_weight(tiles, [1])
    integer, row, repeats = (upgrade.unused_name(tiles) for _ in range(3))
    parts = [one] * axis + [row] + [one] * (rank - axis - 1)
    node.input[1] = repeats
    del node.input[2:]
    return [
        helper.make_node("Cast", [tiles], [integer], to=TensorProto.INT64),
        helper.make_node("Reshape", [integer, one], [row]),
        helper.make_node("Concat", parts, [repeats], axis=0),
        node,
    ]


def _upsample(_: _Upgrade, node: onnx.NodeProto) -> _Nodes:
    attributes = _attributes(node)
    if "height_scale" in attributes:
        scales = [1.0, 1.0, attributes["height_scale"], attributes["width_scale"]]
        _replace_attributes(node, ["height_scale", "width_scale"], {"scales": scales})
    return [node]


_BINARY = "Add And Div Equal Greater Less Mul Or Pow Sub Xor"
_UPGRADES: dict[str, Callable[[_Upgrade, onnx.NodeProto], _Nodes]] = {
    **dict.fromkeys(_BINARY.split(), _broadcast),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _drop_attributes("output_sequence")),
    **dict.fromkeys(("GlobalLpPool", "LpPool"), _round_p),
    "BatchNormalization": _drop_attributes("is_test"),
    "Cast": _cast,
    "Concat": _concat,
    "Dropout": _drop_attributes("is_test"),
    "Gemm": _drop_attributes("broadcast"),
    "PRelu": partial(_unsqueeze_second_operand, axis=1),  # slopes lie along the channels
    "Pad": _pad,
    "Reshape": _reshape,
    "Split": _split,
    "Tile": _tile,
    "Upsample": _upsample,
}

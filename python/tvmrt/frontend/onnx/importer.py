"""A whole ONNX graph to a whole IR graph."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from tvmrt.error import UnsupportedError
from tvmrt.ir import DTYPES, Builder, Graph, TensorType, Value, constant

from . import fallback
from .context import HALF, NodeContext, in_float32
from .custom import importer_of
from .definitions import check_attributes, check_inputs
from .model_file import load_model, opsets
from .narrow import only_dequantized, widened
from .registry import Importer, find

# What an importer raises over numbers that contradict each other; the node's name is what helps.
_STUMBLES = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    StopIteration,
    MemoryError,
)


def import_model(
    source: str | os.PathLike | onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]] | None = None,
    operators: Any = None,
) -> Graph:
    """Read an ONNX model.

    ``shapes`` gives the extents of inputs by name, for inputs with symbolic dimensions.
    ``operators`` knows operators of the user's own by ``find(domain, name, version)``.
    Raises OSError (file), ValueError (damaged or contradictory), KeyError (a shape for an
    input that is not there) or UnsupportedError, which lists every unsupported node at once.
    """
    model, folder = load_model(source)
    importer = GraphImporter(model, folder, dict(shapes or {}), operators)
    return importer.run()


class GraphImporter:
    """State of one import. ``problems`` collects what is not supported, node by node."""

    def __init__(
        self, model: onnx.ModelProto, folder: str, shapes: dict, operators: Any = None
    ) -> None:
        self.operators = operators
        self.model = model
        self.folder = folder
        self.shapes = shapes
        self.opsets = opsets(model)
        self.open_functions: list[tuple[str, str]] = []
        self.functions = {(f.domain, f.name): f for f in model.functions}
        self.graph = Graph(model.graph.name or "graph")
        self.builder = Builder(self.graph)
        self.problems: list[str] = []

    def run(self) -> Graph:
        proto = self.model.graph
        scope: dict[str, Value | None] = {}
        self._add_initializers(proto, scope)
        self._add_inputs(proto, scope)
        self.import_nodes(proto.node, scope)
        self._raise_problems()
        for info in proto.output:
            if scope.get(info.name) is None:
                raise ValueError(f"output {info.name} of the graph is made by no node")
            self.graph.outputs.append(self._declared(info, scope[info.name]))
            self.graph.output_names.append(info.name)
        return self.graph

    def _declared(self, info: onnx.ValueInfoProto, value: Value) -> Value:
        """An output in the half precision that the network declares."""
        name = _element_name(info.type.tensor_type.elem_type or onnx.TensorProto.FLOAT)
        if name not in HALF or value.dtype.name == name:
            return value
        self.builder.sources, self.builder.guard = (info.name,), None
        return self.builder.emit("cast", [value], info.name, to=name)

    def _raise_problems(self) -> None:
        if self.problems:
            count = len(self.problems)
            raise UnsupportedError(
                f"{count} node{'s' if count > 1 else ''} of the network cannot be compiled: "
                + "; ".join(self.problems)
            )

    def _add_initializers(self, proto: onnx.GraphProto, scope: dict) -> None:
        dequantized = only_dequantized(proto)
        for tensor in proto.initializer:
            try:
                array = numpy_helper.to_array(tensor, self.folder)
            except Exception as problem:
                raise ValueError(
                    f"weights {tensor.name} cannot be read ({problem}); export the model again"
                ) from problem
            if tensor.name in dequantized:
                array = widened(array)
            scope[tensor.name] = self._constant(array, tensor.name)
        for sparse in proto.sparse_initializer:
            scope[sparse.values.name] = self._constant(_dense_array(sparse), sparse.values.name)

    def _constant(self, array: np.ndarray, name: str) -> Value | None:
        try:
            return constant(in_float32(array), name)
        except UnsupportedError as problem:
            self.problems.append(f"weights {name} ({problem})")
            return None

    def _add_inputs(self, proto: onnx.GraphProto, scope: dict) -> None:
        names = [info.name for info in proto.input if info.name not in scope]
        for name in self.shapes:
            if name not in names:
                raise KeyError(
                    f"a shape is given for {name}, which is not an input; "
                    f"the inputs are {', '.join(names) or 'none'}"
                )
        for info in proto.input:
            if info.name in scope:
                continue  # a default of an initialiser: we treat it as the constant it is
            value = Value(info.name, self._input_type(info))
            self.graph.inputs.append(value)
            if value.dtype.is_half:
                self.builder.sources = (info.name,)
                value = self.builder.emit("cast", [value], info.name, to="float32")
            scope[info.name] = value

    def _input_type(self, info: onnx.ValueInfoProto) -> TensorType:
        if not info.type.HasField("tensor_type"):
            kind = info.type.WhichOneof("value")
            raise UnsupportedError(f"input {info.name} is a {kind}; only tensors are supported")
        tensor = info.type.tensor_type
        declared = [
            d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim
        ]
        given = self.shapes.get(info.name)
        if given is None:
            if not tensor.HasField("shape") or any(isinstance(d, str) for d in declared):
                text = ",".join(map(str, declared)) if tensor.HasField("shape") else "unknown"
                raise ValueError(
                    f"input {info.name} has symbolic shape [{text}]; "
                    f"bind it, for example with --shape {info.name}="
                    + (",".join("1" if isinstance(d, str) else str(d) for d in declared) or "1")
                )
            given = declared
        given = tuple(int(d) for d in given)
        fixed = tensor.HasField("shape")
        if fixed and (
            len(given) != len(declared)
            or any(isinstance(d, int) and d != g for d, g in zip(declared, given))
        ):
            raise ValueError(
                f"shape {list(given)} does not fit input {info.name} of shape "
                f"[{', '.join(map(str, declared))}]"
            )
        if any(d < 0 for d in given):
            raise ValueError(f"input {info.name}: shape {list(given)} has a negative extent")
        name = _element_name(tensor.elem_type)
        if name not in DTYPES:
            raise UnsupportedError(
                f"input {info.name} has element type {name}; it is not supported"
            )
        return TensorType(given, DTYPES[name])

    def import_nodes(self, nodes: Sequence[onnx.NodeProto], scope: dict) -> None:
        """Import nodes in order; ``scope`` maps names to values and takes the results."""
        for index, node in enumerate(nodes):
            name = node.name or (f"{node.op_type}_{next((o for o in node.output if o), index)}")
            inputs: list[Value | None] = []
            missing = False
            for key in node.input:
                if key and key not in scope:
                    raise ValueError(
                        f"node {name} ({node.op_type}) reads {key}, which is not made before it"
                    )
                inputs.append(scope[key] if key else None)
                missing |= bool(key) and scope[key] is None
            if missing:
                outputs: Sequence[Value | None] = [None] * len(node.output)
                if self._importer_of(node) is None and not self._function(node):
                    self.problems.append(f"{name} ({_unknown(node)})")
            else:
                outputs = self._import_node(node, name, inputs, scope)
            for key, value in zip(node.output, outputs):
                if key:
                    scope[key] = value

    def import_branch(
        self,
        proto: onnx.GraphProto,
        outer: dict[str, Value | None],
        guard: tuple[Value, bool] | None = None,
        inputs: Sequence[Value | None] = (),
    ) -> list[Value | None]:
        """The nodes of a subgraph in place; with a guard they run only if it holds.

        ``inputs`` are bound to the subgraph's own inputs in order.
        """
        scope = dict(outer)
        scope.update(zip((info.name for info in proto.input), inputs))
        self._add_initializers(proto, scope)
        saved = self.builder.guard, self.builder.sources
        if guard is not None:
            self.builder.guard = guard
        self.import_nodes(proto.node, scope)
        self.builder.guard, self.builder.sources = saved
        return [scope.get(info.name) for info in proto.output]

    def _function(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        return self.functions.get((node.domain, node.op_type))

    def _importer_of(self, node: onnx.NodeProto, record: Any = None) -> Importer | None:
        """Who imports a node: an operator of the user's own goes before a built-in one."""
        builtin = find(node.domain, node.op_type)
        if record is None and self.operators is not None:
            record = self.operators.find(node.domain, node.op_type, self._opset(node))
        return builtin if record is None else importer_of(record, builtin)

    def _opset(self, node: onnx.NodeProto) -> int:
        return self.opsets.get("" if node.domain == "ai.onnx" else node.domain, 1)

    def add_node(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None], record: Any = None
    ) -> Sequence[Value]:
        """One node on values of this graph, by an operator of the user's own if that is given.

        Raises what importing a model with the node does.
        """
        outputs = self._import_node(node, node.name, list(inputs), {}, record)
        self._raise_problems()
        return outputs

    def _import_node(self, node, name, inputs, scope, record=None) -> Sequence[Value | None]:
        failed = [None] * len(node.output)
        self.builder.sources = (name,)
        self.graph.op_types[name] = node.op_type
        opset = self._opset(node)
        context = NodeContext(node, name, inputs, opset, self.builder, self)
        context.scope = scope
        count = len(self.graph.nodes)
        try:
            importer = self._importer_of(node, record)
            check_attributes(node, opset)
            if record is None and importer is not None:
                check_inputs(node, opset, inputs)
            if importer is not None:
                result = importer(context)
                outputs = result if isinstance(result, list) else [result]
            elif self._function(node) is not None:
                outputs = self._inline(self._function(node), node, inputs)
            else:
                outputs = None
            unknown = outputs is None or any(v is not None and v.data is None for v in outputs)
            # somebody's own operator may mean something else than ONNX's of that name
            own = any(made.op in ("custom", "composed") for made in self.graph.nodes[count:])
            if unknown and not own:
                folded = fallback.evaluate(node, inputs, self.model)
                if folded is not None:
                    del self.graph.nodes[count:]
                    return folded
        except UnsupportedError as problem:
            del self.graph.nodes[count:]
            folded = fallback.evaluate(node, inputs, self.model)
            if folded is not None:
                return folded
            self.problems.append(f"{name} ({_qualified(node)}: {problem})")
            return failed
        except _STUMBLES as problem:
            why = str(problem) or type(problem).__name__
            raise ValueError(f"node {name} ({_qualified(node)}): {why}") from problem
        if outputs is None:
            self.problems.append(f"{name} ({_unknown(node)})")
            return failed
        return outputs

    def _inline(self, function: onnx.FunctionProto, node, inputs) -> list[Value | None]:
        """The body of a function that the model itself defines, in place of its call."""
        key = (function.domain, function.name)
        if key in self.open_functions:
            raise ValueError(f"the function {function.name} calls itself")
        given = {a.name: a for a in node.attribute}
        given.update({a.name: a for a in function.attribute_proto if a.name not in given})
        scope = dict(zip(function.input, [*inputs, *[None] * len(function.input)]))
        nodes = []
        for inner in function.node:
            copy = onnx.NodeProto()
            copy.CopyFrom(inner)
            copy.name = f"{node.name or node.op_type}/{inner.name or inner.op_type}"
            del copy.attribute[:]
            for attribute in inner.attribute:
                if not attribute.ref_attr_name:
                    copy.attribute.add().CopyFrom(attribute)
                elif attribute.ref_attr_name in given:
                    bound = copy.attribute.add()
                    bound.CopyFrom(given[attribute.ref_attr_name])
                    bound.name = attribute.name
            nodes.append(copy)
        self.open_functions.append(key)
        saved = self.opsets
        self.opsets = {**saved, **_foreign_versions(function)}
        self.import_nodes(nodes, scope)
        self.opsets = saved
        self.open_functions.pop()
        return [scope.get(key) for key in function.output]


def _foreign_versions(function: onnx.FunctionProto) -> dict[str, int]:
    """The versions in which a function means other domains than ONNX's own, of which a model has
    one."""
    return {o.domain: o.version for o in function.opset_import if o.domain not in ("", "ai.onnx")}


def _element_name(element_type: int) -> str:
    """numpy's name of an ONNX element type, or "<number>, which ONNX does not define"."""
    try:
        return np.dtype(helper.tensor_dtype_to_np_dtype(element_type)).name
    except KeyError:
        return f"{element_type}, which ONNX does not define"


def _qualified(node: onnx.NodeProto) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _unknown(node: onnx.NodeProto) -> str:
    what = f"{_qualified(node)} is not a known operator"
    if node.domain in ("", "ai.onnx"):
        return what
    return f"{what}; give its declaration, operators= in Python or --operators of the command"


def _dense_array(sparse: onnx.SparseTensorProto) -> np.ndarray:
    values = numpy_helper.to_array(sparse.values)
    indices = numpy_helper.to_array(sparse.indices)
    out = np.zeros(tuple(sparse.dims), values.dtype)
    if indices.ndim == 1:
        out.reshape(-1)[indices] = values
    else:
        out[tuple(indices.T)] = values
    return out

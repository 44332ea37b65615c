"""Import of a complete ONNX graph to an IR graph."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import onnx

from tvmrt import plugin
from tvmrt.compiler.frontend.size_constraints import emit_size_checks
from tvmrt.compiler.ir import Graph, Value
from tvmrt.compiler.ir.sizes import Extent
from tvmrt.compiler.ir.sizes.assumptions import enter_node, try_other_answers
from tvmrt.compiler.operator_key import domain_of, operator_name
from tvmrt.error import UnexpectedImportError, UnsupportedError, UnsupportedSizes
from tvmrt.option_syntax import option

from . import alternatives, computed_sizes, fixed_values, sequences, string_tensors
from .check_model import check_complete_model, name_of
from .check_node import checked_import
from .context import NodeContext
from .custom_operators import custom_importer
from .device_fallback import emit_device_node
from .flatten_io import flatten_output, limit_to_declared_bounds
from .import_state import Checkpoint, ImportState
from .inputs import check_default, element_name
from .legalize_types import (
    HALF,
    legalize_types,
    packed_type,
    propagate_types,
    restore_type,
    stored_type,
    typed_constant,
)
from .model_functions import expand_call
from .registry import Importer, find, why_missing
from .sequence_values import Alternatives
from .tensors import read_weights


class GraphImporter(ImportState):
    """Imports one network, node by node."""

    def run(self) -> Graph | None:
        """Return the graph; None if there are unsupported nodes, which ``problems`` lists."""
        request, proto = self.request, self.request.model.graph
        if not proto.output:
            raise ValueError("the graph has no outputs, so it computes nothing; export it again")
        scope: dict[str, Value | None] = {}
        string_tensors.reserve(self)
        self._add_initializers(proto, scope)
        self._add_inputs(proto, scope)
        self._check_known_sizes()
        self.import_nodes(proto.node, scope)
        if self.problems.texts:
            return None
        for info in proto.output:
            if scope.get(info.name) is None:
                raise ValueError(f"output {info.name} of the graph is not produced by any node")
            if isinstance(scope[info.name], Alternatives):
                scope[info.name] = alternatives.select_output(self, info, scope[info.name])
            if not isinstance(scope[info.name], Value):
                self._add_bundle(info, scope[info.name])
                continue
            self._add_output(info, scope[info.name])
            if scope[info.name].type.labels:
                self.graph.labels[info.name] = list(scope[info.name].type.labels)
        check_complete_model(
            request.model,
            self.declarations.inputs,
            self.functions.opsets,
            self._is_custom,
            self.problems.is_partial,
        )
        return self.graph

    def _check_known_sizes(self) -> None:
        """Add checks of the conditions whose sizes are known by now. Each follows the last of its
        sizes, so that a run does not allocate memory for a wrong one."""
        decided = [c for c in self.unchecked if all(self.dims.is_known(s) for s in c.counts)]
        if decided:
            self.unchecked = [c for c in self.unchecked if c not in decided]
            current = [replace(c, zero=self.dims.current(c.zero)) for c in decided]
            current = [c for c in current if isinstance(c.zero, Extent)]
            nodes, count = self.graph.nodes, len(self.graph.nodes)
            emit_size_checks(self.builder, current)
            sources = {symbol.source.producer for c in current for symbol in c.counts}
            last = max((i for i in range(count) if nodes[i] in sources), default=count - 1)
            nodes[last + 1 :] = [*nodes[count:], *nodes[last + 1 : count]]

    def _add_output(self, info: onnx.ValueInfoProto, value: Value) -> None:
        self.graph.outputs.append(limit_to_declared_bounds(self, info, self._declared(info, value)))
        self.graph.output_names.append(info.name)

    def _add_bundle(self, info: onnx.ValueInfoProto, onnx_value: sequences.OnnxValue) -> None:
        bundle, tensors = flatten_output(info, onnx_value)
        self.graph.bundles[info.name] = bundle
        for part, value in tensors:
            self._add_output(part, value)

    def _declared(self, info: onnx.ValueInfoProto, value: Value) -> Value:
        """Convert an output to its declared element type."""
        code = info.type.tensor_type.elem_type
        if value.type.is_string and code in (0, onnx.TensorProto.STRING):
            self.builder.sources, self.builder.guard = (info.name,), None
            is_text = value.type.labels is None
            return self.builder.emit("text_out", [value], info.name) if is_text else value
        if info.type.HasField("tensor_type") and not code:
            raise ValueError(
                f"output {info.name} is declared as a tensor without element type; "
                "export the model again"
            )
        name = element_name(code) if code else stored_type(value) or value.dtype.name
        dtype = packed_type(value) or value.dtype.name
        if name not in HALF and name != dtype:
            raise ValueError(
                f"output {info.name} is declared {name}, its elements are {dtype}; "
                "export the model again"
            )
        self.builder.sources, self.builder.guard = (info.name,), None
        return restore_type(self.builder, value, name, info.name)

    def _add_initializers(self, proto: onnx.GraphProto, scope: dict) -> None:
        for tensor in proto.initializer:
            array = read_weights(tensor, self.request.detached)
            scope[tensor.name] = self._constant(array, tensor.name)

    def _constant(self, array: np.ndarray, name: str) -> Value | None:
        self.builder.budget.add_weights(array.nbytes)
        try:
            return legalize_types(self.builder, typed_constant(array, name), name)
        except UnsupportedError as problem:
            self.problems.add(f"weights {name} ({problem})")
            return None

    def _add_inputs(self, proto: onnx.GraphProto, scope: dict) -> None:
        # an initialiser may give a default for an input: it is treated as a constant
        infos = [info for info in proto.input if info.name not in scope]
        dtypes = {tensor.name: tensor.data_type for tensor in proto.initializer}
        for info in proto.input:
            if info.name in dtypes:
                check_default(info, scope[info.name], dtypes[info.name])
        for name, type in self.declarations.bind_inputs(infos).items():
            value = Value(name, type)
            self.graph.inputs.append(value)
            self.graph.open_axes[name] = list(self.declarations.axis_names(name))
            self.builder.sources = (name,)
            value = legalize_types(self.builder, value, name)
            if name in self.request.values:
                value = fixed_values.fix_value(self.builder, value, self.request.values[name])
            scope[name] = value

    def import_nodes(self, nodes: Sequence[onnx.NodeProto], scope: dict) -> None:
        """Import nodes in order; ``scope`` maps names to values and receives the results."""
        for node in nodes:
            name = name_of(node)
            inputs: list[Value | None] = []
            missing = False
            for key in node.input:
                if key and key not in scope:
                    raise ValueError(
                        f"node {name} ({node.op_type}) reads {key}, which no earlier node produces"
                    )
                inputs.append(scope[key] if key else None)
                missing |= bool(key) and scope[key] is None
            if missing:
                outputs: Sequence[Value | None] = [None] * len(node.output)
                if self._importer_of(node) is None and not self.functions.find(node):
                    unknown = _unknown_operator(node, self.functions.opset(node))
                    self.problems.add(f"{name} ({unknown})")
            else:
                context = self._context(node, name, inputs, scope)
                outputs = self._import_node(context)
                if self.functions.find(node) is None:  # else its nodes have given the types
                    propagate_types(node, context.opset, context.inputs, outputs)
            for key, value in zip(node.output, outputs):
                if key:
                    scope[key] = value
            if self.unchecked and self.graph is self.whole:
                self._check_known_sizes()

    def import_body(self, proto: onnx.GraphProto, scope: dict) -> None:
        """Import the constants and nodes of a subgraph in a scope that has its inputs."""
        self._add_initializers(proto, scope)
        self.import_nodes(proto.node, scope)

    def import_branch(
        self,
        proto: onnx.GraphProto,
        outer: dict[str, Value | None],
        guard: tuple[Value, bool] | None = None,
        inputs: Sequence[Value | None] = (),
    ) -> list[Value | None]:
        """Import the nodes of a subgraph inline; with a guard they run only if it holds.

        ``inputs`` are bound to the subgraph's own inputs in order.
        """
        scope = dict(outer)
        scope.update(zip((info.name for info in proto.input), inputs))
        with self.builder.guarded(guard or self.builder.guard):
            self.import_body(proto, scope)
        return [scope.get(info.name) for info in proto.output]

    def _is_custom(self, node: onnx.NodeProto) -> bool:
        """Return whether a node's operator is user-defined."""
        return self._custom_operator(node) is not None

    def _custom_operator(self, node: onnx.NodeProto) -> Any:
        """Return the user-defined operator of a node; None if there is none."""
        operators = self.request.operators
        if operators is None:
            return None
        return operators.find(node.domain, node.op_type, self.functions.opset(node))

    def _importer_of(self, node: onnx.NodeProto, record: Any = None) -> Importer | None:
        """Return the importer of a node; user-defined operators precede built-in ones."""
        if node.overload and self.functions.find(node):
            return None  # an overload names a function only
        builtin = find(node.domain, node.op_type)
        if record is None:
            record = self._custom_operator(node)
        return builtin if record is None else custom_importer(record, builtin)

    def add_node(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None], record: Any = None
    ) -> Sequence[Value]:
        """Import one node on values of this graph, with a user-defined operator if given.

        Raises the same errors as the import of a model with this node.
        """
        outputs = self._import_node(self._context(node, node.name, list(inputs), {}), record)
        self.problems.raise_error()
        return outputs

    def _context(self, node: onnx.NodeProto, name: str, inputs: list, scope: dict) -> NodeContext:
        context = NodeContext(node, name, inputs, self.functions.opset(node), self)
        context.scope = scope
        return context

    def _import_node(self, context: NodeContext, record: Any = None) -> Sequence[Value | None]:
        node, name, inputs, scope = context.node, context.name, context.inputs, context.scope
        self.builder.sources = (name,)
        enter_node(name, self.builder.guard is not None, self.graph is not self.whole)
        self.graph.op_types[name] = node.op_type
        alternatives_read = alternatives.first_alternatives(node, inputs, scope)
        if alternatives_read is not None:
            return alternatives.import_alternatives(context, alternatives_read)
        where = f"node {name} ({operator_name(node)})"
        try:
            outputs = self._outputs(context, record)
        except UnsupportedError as problem:
            return self._fall_back(context, f"{operator_name(node)}: {problem}", problem)
        except (ValueError, MemoryError) as problem:
            why = str(problem) or "there is not enough memory for it"
            raise ValueError(f"{where}: {why}") from problem
        except RecursionError:
            raise  # about the network, not this node
        except Exception as problem:
            what = f"it cannot be read ({type(problem).__name__}: {problem})"
            raise UnexpectedImportError(f"{where}: {what}; check its operands") from problem
        if outputs is None:
            return self._fall_back(context, _unknown_operator(node, context.opset))
        return outputs

    def _fall_back(
        self, context: NodeContext, problem: str, error: UnsupportedError | None = None
    ) -> Sequence[Value | None]:
        """Pass an unsupported node to a device, or record why no device takes it; ``error``: of the
        node's importer."""
        node, inputs = context.node, context.inputs
        for device, handler in self.request.fallback_handlers.items():
            try:
                if not all(v is None or _is_plain(v) for v in inputs):
                    raise UnsupportedError("its operands are not tensors of ONNX types")
                return emit_device_node(self.builder, handler, node, self.functions.opsets, inputs)
            except UnsupportedError as reason:
                problem += f"; {device}: {reason}"
        if not self.request.fallback_handlers and domain_of(node.domain):
            device = plugin.find("hooks", "unknown operators")
            problem += f"; or use the device {device}" if device else ""
        about_sizes = isinstance(error, UnsupportedSizes)
        self.problems.add(f"{context.name} ({problem})", about_sizes)
        return [None] * len(node.output)

    def _outputs(self, context: NodeContext, record: Any) -> Sequence[Value | None] | None:
        """Return the results of a node; None for an unknown operator."""
        node, inputs, count = context.node, context.inputs, len(self.graph.nodes)
        has_strings = any(map(string_tensors.is_string, inputs))
        if has_strings and not (self._importer_of(node, record) or self.functions.find(node)):
            return None
        # user-defined operators may differ from ONNX operators of the same name
        inputs = context.inputs = string_tensors.prepare_inputs(self, node, context.opset, inputs)
        # onnx would read string handles as numbers, and does not know our sequence values
        has_strings_or_sequences = has_strings or sequences.is_sequence_node(
            operator_name(node), inputs
        )
        checked = record is None and not has_strings_or_sequences and not self._is_custom(node)
        # half precision is checked as float32, except where its bits are read
        wide_type = stored_type if operator_name(node) == "BitCast" else packed_type
        gate = (
            checked_import(node, self.functions.opsets, inputs, wide_type)
            if checked
            else nullcontext()
        )
        with gate:
            outputs = self._import_by_rule(context, record)
            if checked and outputs is not None:
                outputs = computed_sizes.track(context, outputs, count)
        return outputs

    def _import_by_rule(self, context: NodeContext, record: Any) -> list[Value | None] | None:
        """Import a node by its importer or by the model's function of that name."""
        importer = self._importer_of(context.node, record)
        if importer is not None:
            results = try_other_answers(lambda: importer(context), Checkpoint(self).undo)
            return results if isinstance(results, list) else [results]
        function = self.functions.find(context.node)
        return function and self._inline(function, context.node, context.inputs)

    def _inline(self, function: onnx.FunctionProto, node, inputs) -> list[Value | None]:
        """Import the body of a model's own function in place of its call."""
        scope = dict(zip(function.input, [*inputs, *[None] * len(function.input)]))
        with self.functions.call(function):
            self.import_nodes(expand_call(function, node), scope)
        return [scope.get(key) for key in function.output]


def _is_plain(value: Any) -> bool:
    """Return whether it is a tensor with the same contents as in ONNX."""
    return isinstance(value, Value) and value.type.source is None


def _unknown_operator(node: onnx.NodeProto, version: int) -> str:
    what = f"unknown operator {operator_name(node)}, version {version}"
    if (reason := why_missing(node.domain, node.op_type)) is not None:
        return f"{what}; {reason}"
    if not domain_of(node.domain):
        return what
    return f"{what}; declare it with {option('operators')}"

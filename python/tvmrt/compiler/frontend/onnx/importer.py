"""Import of a complete ONNX graph to an IR graph."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from traceback import clear_frames
from typing import Any

import numpy as np
import onnx

from tvmrt import plugin
from tvmrt.compiler.frontend.dims import Dims
from tvmrt.compiler.frontend.size_constraints import (
    SizeConstraints,
    emit_size_checks,
    import_at_valid_sizes,
)
from tvmrt.compiler.ir import HANDLE, Graph, Value, constant
from tvmrt.compiler.ir.assumptions import enter_node
from tvmrt.error import UnexpectedImportError, UnsupportedError

from . import (
    alternatives,
    constant_folding,
    data_propagation,
    float_data_propagation,
    sequences,
    shape_operands,
    string_tensors,
)
from .check_model import check_complete_model
from .check_ssa import check_ssa_form, name_of
from .context import NodeContext
from .custom_operators import custom_importer
from .default_bounds import name_symbolic_axes
from .device_fallback import FallbackHandler, emit_device_node
from .flatten_io import flatten_output, sequences_to_tensors, shapes_by_tensor
from .half_precision import (
    HALF,
    STORAGE_TYPES,
    result_onnx_types,
    to_onnx_type,
    to_storage_type,
    widen_half,
)
from .import_state import ImportState, Known
from .inputs import check_default, element_name, input_types, overrides_declared
from .model_file import load_lazily
from .model_functions import expand_call, foreign_versions
from .operator_constraints import check_constraints
from .operator_schemas import check_inference, check_inputs, check_node
from .output_bounds import limit_to_declared_bounds
from .registry import Importer, find, why_missing
from .sanitize_model import sanitize_model
from .sequence_values import Alternatives
from .speculative_import import run_importer
from .tensors import dense, read_weights
from .version_converter import upgrade_opset


def import_model(
    source: str | os.PathLike | onnx.ModelProto,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    operators: Any = None,
    dims: Mapping[str, int | str | Sequence[int]] | None = None,
    sequences: Mapping[str, int | None] | None = None,
    fallback_handlers: Mapping[str, FallbackHandler] | None = None,
) -> Graph:
    """Import an ONNX model.

    ``shapes``: the shape of each input with symbolic dimensions. ``dims``: the maximum, or
    (minimum, maximum), of each dynamic dimension. ``operators``: user-defined operators, by
    ``find(domain, name, version)``. ``sequences``: the lengths of sequence inputs, see
    ``border.sequences_to_tensors``. ``adopters``: by device, the function that takes nodes without
    an operator. Raises OSError (file), ValueError (damaged or contradictory), KeyError (a shape for
    an unknown input) or UnsupportedError, which lists all unsupported nodes.
    """
    model, folder, lazy_weights = load_lazily(source)
    model, bundles = sequences_to_tensors(sanitize_model(model), dict(sequences or {}), Dims(dims))
    check_ssa_form(model)
    given = shapes_by_tensor(shapes or {}, bundles)
    model = upgrade_opset(name_symbolic_axes(model, given))

    unsupported_nodes: list[onnx.NodeProto] = []
    constraints = SizeConstraints()

    def attempt(known: Known) -> Graph:
        zeros = [condition.zero for condition in constraints.checked]
        sizes = Dims(dims, constraints.narrowed, zeros)
        importer = GraphImporter(model, folder, given, operators, sizes, known)
        importer.checked = constraints.checked
        importer.lazy_weights = lazy_weights
        importer.graph.bundles.update(bundles)
        importer.unsupported_nodes = unsupported_nodes
        importer.fallback_handlers = dict(fallback_handlers or {})
        importer.max_sequence_lengths = {n: most for n, most in (sequences or {}).items() if most}
        return importer.run()

    def attempt_at(sizes: SizeConstraints) -> Graph:
        nonlocal constraints
        constraints = sizes
        return attempt({})

    try:
        return import_at_valid_sizes(attempt_at)
    except UnsupportedError as problem:
        # release the frames, which hold the weights of that import
        clear_frames(problem.__traceback__)
        known = shape_operands.infer_shape_operands(model, list(unsupported_nodes), attempt)
        if not known:
            raise
        return attempt(known)


class GraphImporter(ImportState):
    """Imports one network, node by node."""

    def run(self) -> Graph:
        proto = self.model.graph
        scope: dict[str, Value | None] = {}
        string_tensors.reserve(self)
        self._add_initializers(proto, scope, self.lazy_weights)
        self._add_inputs(proto, scope)
        emit_size_checks(self.builder, self.checked)
        self.import_nodes(proto.node, scope)
        self._raise_problems()
        for info in proto.output:
            if scope.get(info.name) is None:
                raise ValueError(f"output {info.name} of the graph is not produced by any node")
            if isinstance(scope[info.name], Alternatives):
                scope[info.name] = alternatives.select_output(self, info, scope[info.name])
            if not isinstance(scope[info.name], Value):
                self._add_bundle(info, scope[info.name])
                continue
            self._add_output(info, scope[info.name])
            labels = self.string_tables.get(scope[info.name]) or self.columns.get(scope[info.name])
            if labels:
                self.graph.labels[info.name] = labels
        check_complete_model(self.model, self.types, self.opsets, self._is_custom, self.is_partial)
        return self.graph

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
        if value in self.string_tables and code in (0, onnx.TensorProto.STRING):
            return value
        if value in self.texts and code in (0, onnx.TensorProto.STRING):
            self.builder.sources, self.builder.guard = (info.name,), None
            return self.builder.emit("text_out", [value], info.name)
        if info.type.HasField("tensor_type") and not code:
            raise ValueError(
                f"output {info.name} is declared as a tensor without element type; "
                "export the model again"
            )
        name = element_name(code) if code else self.onnx_types.get(value, value.dtype.name)
        given = self.packed(value) or value.dtype.name
        if name not in HALF and name != given:
            raise ValueError(
                f"output {info.name} is declared {name}, its elements are {given}; "
                "export the model again"
            )
        self.builder.sources, self.builder.guard = (info.name,), None
        return to_onnx_type(self.builder, value, name, info.name)

    def _raise_problems(self) -> None:
        if self.problems:
            count = len(self.problems)
            raise UnsupportedError(
                f"{count} node{'s' if count > 1 else ''} of the network cannot be compiled: "
                + "; ".join(self.problems)
            )

    def _add_initializers(
        self, proto: onnx.GraphProto, scope: dict, lazy_weights: Mapping[str, np.ndarray]
    ) -> None:
        for tensor in proto.initializer:
            array = read_weights(tensor, self.folder, lazy_weights)
            scope[tensor.name] = self._constant(array, tensor.name)
        for sparse in proto.sparse_initializer:
            scope[sparse.values.name] = self._constant(dense(sparse), sparse.values.name)

    def _constant(self, array: np.ndarray, name: str) -> Value | None:
        if array.dtype.kind in "OSU":
            return self.string_tables.constant(array, name)
        try:
            value = constant(widen_half(array), name)
        except UnsupportedError as problem:
            self.problems.append(f"weights {name} ({problem})")
            return None
        if array.dtype.name in STORAGE_TYPES:
            value = to_storage_type(self.builder, value, name)
            self.onnx_types[value] = array.dtype.name
        return value

    def _add_inputs(self, proto: onnx.GraphProto, scope: dict) -> None:
        # an initialiser may give a default for an input: it is treated as a constant
        infos = [info for info in proto.input if info.name not in scope]
        given = {tensor.name: tensor.data_type for tensor in proto.initializer}
        for info in proto.input:
            if info.name in given:
                check_default(info, scope[info.name], given[info.name])
        self.types = input_types(infos, self.shapes, self.dims, [*proto.output, *proto.value_info])
        if overrides_declared(infos, self.types):
            self._declared_shapes = {}
        for name, type in self.types.items():
            value = Value(name, type)
            self.graph.inputs.append(value)
            if value.dtype == HANDLE:
                self.builder.sources = (name,)
                value = string_tensors.mark_strings(
                    self, self.builder.emit("text_in", [value], name)
                )
            elif value.dtype.name in STORAGE_TYPES:
                self.builder.sources = (name,)
                value = to_storage_type(self.builder, value, name)
                self.onnx_types[value] = type.dtype.name
            if name in self.known:
                self.builder.sources = (name,)
                value = shape_operands.require_values(self, value, self.known[name])
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
                if self._importer_of(node) is None and not self._function(node):
                    self.problems.append(f"{name} ({_unknown_operator(node, self._opset(node))})")
            else:
                outputs = self._import_node(node, name, inputs, scope)
                if all(v is None or isinstance(v, Value) for v in (*inputs, *outputs)):
                    opset = self._opset(node)
                    self.onnx_types.update(
                        result_onnx_types(node, opset, inputs, outputs, self.onnx_types)
                    )
                    self.string_tables.propagate_strings(node, inputs, outputs)
            for key, value in zip(node.output, outputs):
                if key:
                    scope[key] = value

    def import_body(self, proto: onnx.GraphProto, scope: dict) -> None:
        """Import the constants and nodes of a subgraph in a scope that has its inputs."""
        self._add_initializers(proto, scope, {})
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
        saved = self.builder.guard, self.builder.sources
        if guard is not None:
            self.builder.guard = guard
        try:
            self.import_body(proto, scope)
        finally:
            self.builder.guard, self.builder.sources = saved
        return [scope.get(info.name) for info in proto.output]

    def _function(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        return self.functions.get((node.domain, node.op_type))

    def _is_custom(self, node: onnx.NodeProto) -> bool:
        """Return whether a node's operator is user-defined."""
        found = self.operators and self.operators.find(node.domain, node.op_type, self._opset(node))
        return found is not None

    def _importer_of(self, node: onnx.NodeProto, record: Any = None) -> Importer | None:
        """Return the importer of a node; user-defined operators precede built-in ones."""
        builtin = find(node.domain, node.op_type)
        if record is None and self.operators is not None:
            record = self.operators.find(node.domain, node.op_type, self._opset(node))
        return builtin if record is None else custom_importer(record, builtin)

    def _opset(self, node: onnx.NodeProto) -> int:
        return self.opsets.get("" if node.domain == "ai.onnx" else node.domain, 1)

    def add_node(
        self, node: onnx.NodeProto, inputs: Sequence[Value | None], record: Any = None
    ) -> Sequence[Value]:
        """Import one node on values of this graph, with a user-defined operator if given.

        Raises the same errors as the import of a model with this node.
        """
        outputs = self._import_node(node, node.name, list(inputs), {}, record)
        self._raise_problems()
        return outputs

    def _import_node(self, node, name, inputs, scope, record=None) -> Sequence[Value | None]:
        self.builder.sources = (name,)
        enter_node(name, self.builder.guard is not None)
        self.graph.op_types[name] = node.op_type
        context = NodeContext(node, name, inputs, self._opset(node), self.builder, self)
        context.scope = scope
        alternatives_read = alternatives.first_alternatives(node, inputs, scope)
        if alternatives_read is not None:
            return alternatives.import_alternatives(context, alternatives_read)
        where = f"node {name} ({_qualified_name(node)})"
        try:
            outputs = self._outputs(context, record)
        except UnsupportedError as problem:
            return self._fall_back(
                context, f"{_qualified_name(node)}: {problem}", is_unsupported=True
            )
        except (ValueError, MemoryError) as problem:
            why = str(problem) or "there is not enough memory for it"
            raise ValueError(f"{where}: {why}") from problem
        except Exception as problem:
            what = f"it cannot be read ({type(problem).__name__}: {problem})"
            raise UnexpectedImportError(f"{where}: {what}; check its operands") from problem
        if outputs is None:
            return self._fall_back(context, _unknown_operator(node, self._opset(node)))
        return outputs

    def _fall_back(
        self, context: NodeContext, problem: str, is_unsupported: bool = False
    ) -> Sequence[Value | None]:
        """Pass an unsupported node to a device, or record why no device takes it."""
        node, inputs = context.node, context.inputs
        for device, handler in self.fallback_handlers.items():
            try:
                if not all(v is None or self._is_plain(v) for v in inputs):
                    raise UnsupportedError("its operands are not tensors of ONNX types")
                return emit_device_node(self.builder, handler, node, self.opsets, inputs)
            except UnsupportedError as reason:
                problem += f"; {device}: {reason}"
        if not self.fallback_handlers and node.domain not in ("", "ai.onnx"):
            device = plugin.find("hooks", "unknown operators")
            problem += f"; or use the device {device}" if device else ""
        self.problems.append(f"{context.name} ({problem})")
        if is_unsupported:
            self.unsupported_nodes.append(node)
        return [None] * len(node.output)

    def _is_plain(self, value: Any) -> bool:
        """Return whether it is a tensor with the same contents as in ONNX."""
        special = self.onnx_types, self.string_tables, self.texts
        return isinstance(value, Value) and not any(value in table for table in special)

    def _outputs(self, context: NodeContext, record: Any) -> Sequence[Value | None] | None:
        """Return the results of a node; None for an unknown operator."""
        node, inputs, count = context.node, context.inputs, len(self.graph.nodes)
        has_strings = self.string_tables.indices_of(inputs) or string_tensors.indices_of(
            self, inputs
        )
        if has_strings and not (self._importer_of(node, record) or self._function(node)):
            return None
        # user-defined operators may differ from ONNX operators of the same name
        inputs = context.inputs = string_tensors.prepare_inputs(self, node, context.opset, inputs)
        # onnx would read string handles as numbers, and does not know our sequence values
        has_strings_or_sequences = self.string_tables.indices_of(
            inputs
        ) or string_tensors.indices_of(self, inputs)
        has_strings_or_sequences = has_strings_or_sequences or sequences.is_sequence_node(
            node.op_type, inputs
        )
        checked = record is None and not has_strings_or_sequences and not self._is_custom(node)
        if checked:
            check_node(node, context.opset)
            check_inputs(node, context.opset, inputs, self.packed)
            check_constraints(node, context.opset, inputs)
        try:
            followed = checked and (
                data_propagation.propagate(context) or float_data_propagation.propagate(context)
            )
            outputs = followed or self._import_by_rule(context, record)
            if checked and not followed:
                outputs = float_data_propagation.record_sizes(context, outputs)
            string_tensors.propagate_strings(self, node, context.opset, inputs, outputs or ())
        except UnsupportedError:
            del self.graph.nodes[count:]
            folded = (
                None
                if has_strings_or_sequences
                else constant_folding.fold_node(node, inputs, self.model)
            )
            if folded is None:
                raise
            return folded
        except (ValueError, MemoryError):
            raise
        except Exception:
            if checked:  # the error of type inference is more specific
                check_inference(node, self.opsets, context.opset, inputs, self.packed)
            raise
        if outputs is not None and not all(v is None or isinstance(v, Value) for v in outputs):
            return outputs
        if checked:
            check_inference(node, self.opsets, context.opset, inputs, self.packed)
            if outputs is None or any(v is not None and v.data is None for v in outputs):
                folded = constant_folding.fold_node(node, inputs, self.model, outputs or ())
                if folded is not None:
                    del self.graph.nodes[count:]
                    return folded
        return outputs

    def _import_by_rule(self, context: NodeContext, record: Any) -> list[Value | None] | None:
        """Import a node by its importer or by the model's function of that name."""
        importer = self._importer_of(context.node, record)
        if importer is not None:
            return run_importer(importer, context)
        function = self._function(context.node)
        return function and self._inline(function, context.node, context.inputs)

    def _inline(self, function: onnx.FunctionProto, node, inputs) -> list[Value | None]:
        """Import the body of a model's own function in place of its call."""
        key = (function.domain, function.name)
        if key in self.active_functions:
            raise ValueError(f"the function {function.name} calls itself")
        if not self.active_functions:
            self.unroll_budget.add(self.unroll_budget.size(function.node))
        scope = dict(zip(function.input, [*inputs, *[None] * len(function.input)]))
        self.active_functions.append(key)
        saved = self.opsets
        self.opsets = {**saved, **foreign_versions(function)}
        try:
            self.import_nodes(expand_call(function, node), scope)
        finally:
            self.opsets = saved
            self.active_functions.pop()
        return [scope.get(key) for key in function.output]


def _qualified_name(node: onnx.NodeProto) -> str:
    return f"{node.domain}::{node.op_type}" if node.domain else node.op_type


def _unknown_operator(node: onnx.NodeProto, version: int) -> str:
    what = f"unknown operator {_qualified_name(node)}, version {version}"
    if (reason := why_missing(node.domain, node.op_type)) is not None:
        return f"{what}; {reason}"
    if node.domain in ("", "ai.onnx"):
        return what
    return f"{what}; declare it with operators= (Python) or --operators (command line)"

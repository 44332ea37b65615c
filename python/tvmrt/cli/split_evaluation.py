"""Run a network in parts: some nodes run in a runtime, the others in the ONNX evaluator.

The evaluator runs the nodes that the caller chooses, and nodes that the runtime cannot run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

Values = dict[str, Any]
Runtime = Callable[["onnx.ModelProto", Mapping[str, Any]], Values]
NO_RESULT = "gives no result"  # the reason for a node that the runtime cannot run


def run_with_reference(
    model: onnx.ModelProto,
    inputs: Mapping[str, Any],
    runtime: Runtime,
    chosen: dict[int, str],
    operators: Sequence[type] = (),
) -> Values:
    """Return every output by name, computed by ``runtime`` and the evaluator.

    ``runtime(model, inputs)`` returns the outputs of a model by name, and raises ValueError if it
    lacks a kernel or refuses the values. ``chosen``: nodes for the evaluator, with the reason, by
    index in ``model.graph.node``; nodes that the runtime cannot run are added, and those that the
    evaluator cannot run removed. ``operators``: see :func:`evaluate`. Raises ValueError if the
    network cannot be split, for example because a sequence of unknown type connects two parts, and
    the error of the runtime or of the evaluator if neither can run a node.
    """
    import onnx
    from onnx import numpy_helper

    if not chosen:
        try:
            return runtime(model, inputs)
        except ValueError:
            if len(model.graph.node) == 0:
                raise
    graph = onnx.shape_inference.infer_shapes(model).graph
    constants = {each.name: each for each in model.graph.initializer}
    run = _SplitRun(model, graph, runtime, chosen, operators, dict(inputs))
    run.finish()
    return {
        each.name: run.values[each.name]
        if each.name in run.values
        else numpy_helper.to_array(constants[each.name])
        for each in model.graph.output
    }


@dataclass
class _SplitRun:
    """State of a run in parts; ``inferred`` is the graph with the inferred types."""

    model: onnx.ModelProto
    inferred: onnx.GraphProto
    runtime: Runtime
    chosen: dict[int, str]
    operators: Sequence[type]
    values: Values
    required: set[str] = field(default_factory=set)

    def finish(self) -> None:
        """Run all nodes in their order, in parts by the runtime and by the evaluator."""
        nodes = self.model.graph.node
        outputs = {each.name for each in self.model.graph.output}
        parts = [(k, list(g)) for k, g in groupby(range(len(nodes)), self.chosen.__contains__)]
        for by_evaluator, places in parts:
            self.required = outputs | names_read(nodes[places[-1] + 1 :])
            (self._by_evaluator if by_evaluator else self._by_runtime)(places)

    def _by_runtime(self, places: Sequence[int]) -> None:
        """Run nodes by the runtime; if it cannot, one by one."""
        part, feeds = self._part(places)
        try:
            self.values.update(self.runtime(part, feeds))
            return
        except ValueError as problem:
            refusal = problem
        if len(places) > 1:
            self._one_by_one(places, self._by_runtime)
            return
        try:
            self.values.update(evaluate(*self._part(places), self.operators))
        except ValueError:
            raise refusal from None
        self.chosen[places[0]] = NO_RESULT

    def _by_evaluator(self, places: Sequence[int]) -> None:
        """Run nodes by the evaluator; those that it cannot run by the runtime."""
        try:
            self.values.update(evaluate(*self._part(places), self.operators))
        except ValueError:
            if len(places) > 1:
                self._one_by_one(places, self._by_evaluator)
                return
            del self.chosen[places[0]]
            self._by_runtime(places)

    def _one_by_one(self, places: Sequence[int], run: Callable[[Sequence[int]], None]) -> None:
        after = self.required
        for number, place in enumerate(places):
            later = places[number + 1 :]
            self.required = after | names_read(self.model.graph.node[i] for i in later)
            run([place])

    def _part(self, places: Sequence[int]) -> tuple[onnx.ModelProto, Values]:
        """Return some nodes as a model whose inputs are known values, and these values."""
        part = _part(self.model, self.inferred, places, self.values, self.required)
        return part, {each.name: self.values[each.name] for each in part.graph.input}


def evaluate_node(model: onnx.ModelProto, place: int, values: Values) -> Values:
    """Return the results of one node by the evaluator. Raises ValueError if it cannot run it."""
    required = set(model.graph.node[place].output)
    part = _part(model, model.graph, [place], values, required)
    return evaluate(part, {each.name: values[each.name] for each in part.graph.input})


def names_read(nodes: Any) -> set[str]:
    """Return the names that nodes read, including those of their bodies."""
    names: set[str] = set()
    for node in nodes:
        names.update(filter(None, node.input))
        for attribute in node.attribute:
            names |= names_read(attribute.g.node)
            names.update(each.name for each in attribute.g.output)
    return names


def _part(
    model: onnx.ModelProto,
    inferred: onnx.GraphProto,
    places: Sequence[int],
    values: Values,
    required: set[str],
) -> onnx.ModelProto:
    """Return some nodes of a model as a model whose inputs are known values."""
    import onnx
    from onnx import helper

    part = onnx.ModelProto(ir_version=model.ir_version, functions=model.functions)
    part.opset_import.extend(model.opset_import)
    graph = part.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node[place] for place in places)
    read = names_read(graph.node)
    for kind in ("initializer", "sparse_initializer"):
        weights = getattr(model.graph, kind)
        needed = [each for each in weights if _name(each) in read and _name(each) not in values]
        getattr(graph, kind).extend(needed)
    types = {each.name: each for each in (*inferred.input, *inferred.value_info)}
    for name in sorted(read & values.keys()):
        graph.input.append(_input(name, values[name], types))
    computed = {name for node in graph.node for name in node.output if name}
    for name in sorted(computed & required):
        graph.output.append(helper.make_empty_tensor_value_info(name))
    return part


def _name(tensor: Any) -> str:
    return tensor.values.name if hasattr(tensor, "values") else tensor.name


def _input(name: str, value: Any, types: Mapping[str, Any]) -> onnx.ValueInfoProto:
    from onnx import helper

    if hasattr(value, "dtype"):
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        return helper.make_tensor_value_info(name, kind, value.shape)
    if name not in types:
        raise ValueError(f"the type of {name} is unknown")
    return types[name]


def evaluate(
    model: onnx.ModelProto, inputs: Mapping[str, Any], operators: Sequence[type] = ()
) -> Values:
    """Run a model in the ONNX reference evaluator with exact operators, and ``operators``; return
    outputs by name.

    Raises ValueError if it cannot run the network.
    """
    from onnx.inliner import inline_local_functions
    from onnx.reference import ReferenceEvaluator

    from tvmrt.cli.exact_operators import evaluators  # imports numpy

    if model.functions:  # functions may not use additional operators in it
        model = inline_local_functions(model)
    try:
        own = [*operators, *evaluators()]
        outputs = ReferenceEvaluator(model, new_ops=own).run(None, dict(inputs))
    except Exception as error:  # its operators raise exceptions of any type
        reason = " ".join(str(error).split())
        raise ValueError(
            f"the reference evaluator of onnx cannot run the network ({reason})"
        ) from None
    return dict(zip((each.name for each in model.graph.output), outputs))

"""Inlining of a model's own functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from itertools import count

import onnx
from onnx.inliner import inline_local_functions

from tvmrt.compiler.operator_key import FunctionKey, functions_by_key

from .check_ssa import name_of
from .model_functions import bind_attributes, foreign_versions
from .tensors import replace_nodes, subgraphs, with_nested_graphs
from .unroll_limits import UnrollBudget

MAX_DEPTH = 32  # maximum nesting of calls: importers and the inliner of the onnx package recurse

_Functions = dict[FunctionKey, onnx.FunctionProto]


def inline_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model without functions. It is returned unchanged if it has none, if they are
    recursive, or if they expand to too many nodes."""
    functions = functions_by_key(model)
    order = _callees_first(functions)
    if not order or _expand_too_much(functions, order, model):
        return model
    try:
        return inline_local_functions(model)
    except Exception:  # damaged functions, or too many levels: the importer reports the node
        return model


def has_deep_calls(model: onnx.ModelProto) -> bool:
    """Return whether functions call each other more than ``MAX_DEPTH`` deep."""
    depth: dict[FunctionKey, int] = {}
    if len(model.functions) <= MAX_DEPTH:
        return False
    functions = functions_by_key(model)
    for key in _callees_first(functions):
        depth[key] = 1 + _deepest(functions[key].node, depth)
    return max(depth.values(), default=0) > MAX_DEPTH


def flatten_deep_calls(model: onnx.ModelProto) -> None:
    """Inline functions in each other, in place, until calls are at most ``MAX_DEPTH`` deep.

    Calls in nested graphs remain. So do all calls if the functions expand to too many nodes, which
    the importer reports.
    """
    functions = functions_by_key(model)
    order = _callees_first(functions)
    if _expand_too_much(functions, order, model):
        return
    depth: dict[FunctionKey, int] = {}
    for key in order:
        depth[key] = 1 + _deepest(functions[key].node, depth)
        if depth[key] > MAX_DEPTH:
            _inline_in(functions[key], functions)
            depth[key] = 1 + _deepest(functions[key].node, depth)


def _callees_first(functions: _Functions) -> list[FunctionKey]:
    """Return the functions, each after those that it calls; none if some are recursive."""
    calls = {key: set(_called(f.node)) & functions.keys() for key, f in functions.items()}
    try:
        return list(TopologicalSorter(calls).static_order())
    except CycleError:
        return []


def _called(nodes: Iterable[onnx.NodeProto]) -> Iterator[FunctionKey]:
    """Yield the keys of nodes, including those in nested graphs."""
    for node in nodes:
        yield FunctionKey.called_by(node)
        for graph in with_nested_graphs(subgraphs(node)):
            yield from map(FunctionKey.called_by, graph.node)


def _deepest(nodes: Iterable[onnx.NodeProto], depth: dict[FunctionKey, int]) -> int:
    return max((depth.get(key, 0) for key in _called(nodes)), default=0)


def _expand_too_much(
    functions: _Functions, order: list[FunctionKey], model: onnx.ModelProto
) -> bool:
    """Return whether the calls of a model expand to more nodes than the limit."""
    budget = UnrollBudget(functions, model)
    for key in order:  # sizes of callees are known, so this does not recurse deeply
        budget.size(functions[key].node)
    return budget.size(model.graph.node) - len(model.graph.node) > budget.limit


def _inline_in(function: onnx.FunctionProto, functions: _Functions) -> None:
    """Inline the calls among a function's own nodes, and the calls in the inlined nodes."""
    pending, result, numbers = deque(function.node), [], count()
    versions = foreign_versions(function)
    while pending:
        node = pending.popleft()
        called = functions.get(FunctionKey.called_by(node))
        foreign = {} if called is None else foreign_versions(called)
        if called is None or any(versions.get(d, v) != v for d, v in foreign.items()):
            result.append(node)
            continue
        for domain in foreign.keys() - versions.keys():
            function.opset_import.append(onnx.helper.make_opsetid(domain, foreign[domain]))
        versions.update(foreign)
        pending.extendleft(reversed(_renamed_body(called, node, next(numbers))))
    replace_nodes(function.node, result)


def _renamed_body(
    function: onnx.FunctionProto, node: onnx.NodeProto, number: int
) -> list[onnx.NodeProto]:
    """Return a function's nodes with the names of the caller; inner names get a number."""
    names = dict.fromkeys(function.input, "")
    names.update(zip(function.input, node.input))
    outputs = dict(zip(function.output, node.output))
    nodes = []
    for inner in function.node:
        copy = onnx.NodeProto()
        copy.CopyFrom(inner)
        bind_attributes(copy, function, node)
        copy.name = f"{name_of(inner)}_{number}"
        nodes.append(copy)
        for name in filter(None, inner.output):
            names[name] = outputs.get(name) or f"{name}_{number}"
    for copy in nodes:
        _rename(copy, names, number)
    forwarded = [(names[name], out) for name, out in outputs.items() if out and names[name] != out]
    nodes += [onnx.helper.make_node("Identity", [name], [out]) for name, out in forwarded]
    return nodes


def _rename(node: onnx.NodeProto, names: dict[str, str], number: int) -> None:
    """Rename the tensors of a node, and those of the graphs nested in it."""
    node.input[:] = [names.get(name, name) for name in node.input]
    node.output[:] = [names.get(name, name) for name in node.output]
    for graph in subgraphs(node):
        inside = {name: f"{name}_{number}" for name in _defined(graph)}
        for each in (*graph.input, *graph.output, *graph.initializer, *graph.value_info):
            each.name = {**names, **inside}.get(each.name, each.name)
        for inner in graph.node:
            _rename(inner, {**names, **inside}, number)


def _defined(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (each.name for each in (*graph.input, *graph.initializer))
    yield from (name for node in graph.node for name in node.output if name)

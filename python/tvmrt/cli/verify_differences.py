"""Comparisons of ``tvmrt verify`` where the reference differs from the standard, or rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tvmrt.cli import onnx_reference, tolerance
from tvmrt.cli.tolerance import TensorComparison
from tvmrt.compiler.differences import Difference, Judge, differences_of
from tvmrt.compiler.differences.lookup import types_of

if TYPE_CHECKING:
    import onnx

    from tvmrt.cli.onnx_reference import Expected
    from tvmrt.cli.sequence_io import Labels
    from tvmrt.compiler.custom import Catalogue
    from tvmrt.compiler.operator_key import FunctionKey

Compare = Callable[[Mapping[str, "Expected"]], list[TensorComparison]]
# Each step uses the state of the step before, and so amplifies errors of the products with inputs.
RECURRENT = ("GRU", "LSTM", "RNN")


def compare_by_text(
    model: onnx.ModelProto,
    inputs: Mapping[str, Any],
    operators: Catalogue | None,
    labels: Labels,
    compare: Compare,
    with_followers: bool = False,
) -> tuple[list[TensorComparison], str]:
    """Compare the outputs of a model; also return the name of the reference.

    ``compare`` judges all outputs against their reference. If some are wrong and onnxruntime
    differs from the standard's text for some values of a node, the reference evaluator runs these
    nodes in a second comparison. Results that no reference can judge are marked as not compared;
    ``with_followers``: so are the results that depend on them.
    """
    refusal, rows, judge = None, [], ""
    try:
        judge, right = onnx_reference.expected_outputs(model, inputs, operators, labels)
        rows = compare(right)
    except ValueError as problem:  # onnxruntime refuses some values, such as a division by 0
        refusal = problem
    if refusal or not all(row.verdict.right for row in rows):
        differences = differences_of(model)
        if _onnxruntime_differs(differences):
            other, right = onnx_reference.expected_outputs(
                model, inputs, operators, labels, with_data=True
            )
            pairs = zip(rows, compare(right)) if rows else ((r, r) for r in compare(right))
            chosen = [first if first.verdict.right else second for first, second in pairs]
            judge, rows, refusal = other, chosen, None
        rows = _not_compared(model, differences, rows, judge, with_followers)
    if refusal:
        raise refusal
    return rows, judge


def _onnxruntime_differs(differences: Mapping[int, list[Difference]]) -> bool:
    rows = (row for found in differences.values() for row in found)
    return any(row.onnxruntime_differs and not row.evaluator_differs for row in rows)


def _not_compared(
    model: onnx.ModelProto,
    differences: Mapping[int, list[Difference]],
    rows: list[TensorComparison],
    judge: str,
    with_followers: bool,
) -> list[TensorComparison]:
    """Return the comparisons; wrong results that the reference cannot judge have a note instead."""
    by_evaluator = judge.startswith("onnx reference")
    notes: dict[str, str] = {}
    for place, node in enumerate(model.graph.node):
        for row in differences.get(place, ()):
            differs = by_evaluator and row.evaluator_differs and not row.data
            if row.judge is Judge.UNDEFINED or differs:
                notes.update(dict.fromkeys(node.output, f"not compared: {row.name}"))
        read = [notes[name] for name in node.input if name in notes]
        if read and with_followers:
            notes.update(dict.fromkeys(node.output, read[0]))
    prefix = onnx_reference.ISOLATED_PREFIX
    found = []
    for row in rows:
        note, verdict = notes.get(row.tensor) or notes.get(prefix + row.tensor), row.verdict
        if note and not verdict.right:
            verdict = tolerance.Verdict(verdict.error, verdict.error, 0.0, note=note)
        found.append(replace(row, verdict=verdict))
    return found


def bfloat16_outputs(model: onnx.ModelProto) -> dict[str, float]:
    """Return the allowed errors of outputs of a network that computes in bfloat16, by name.

    The reference rounds each result, but the compiled network computes in float32 in between.
    """
    types = types_of(model)
    halves = sum("bfloat16" in map(types.get, node.output) for node in model.graph.node)
    allowed = min(halves * tolerance.ROUNDED_LAYER, tolerance.ROUNDED_NETWORK)
    return {each.name: allowed for each in model.graph.output} if halves else {}


def rounded_tensors(model: onnx.ModelProto, reduced: frozenset[str]) -> Mapping[str, float]:
    """Return the allowed errors of tensors, relative to their maximum, if nodes with the names
    ``reduced`` round their operands: by name of the tensor, for results of the model's own nodes.

    A node with a nested graph, a call of a function or a recurrent node is a network of layers.
    """
    from tvmrt.compiler.frontend.onnx.check_model import name_of
    from tvmrt.compiler.operator_key import functions_by_key, operator_name

    functions = functions_by_key(model)
    allowed: dict[str, float] = {}
    for node in model.graph.node:
        is_layer = name_of(node) in reduced
        if is_layer and operator_name(node) not in RECURRENT:
            allowed.update(dict.fromkeys(node.output, tolerance.ROUNDED_LAYER))
        elif is_layer or not reduced.isdisjoint(_inner_names(node, functions)):
            allowed.update(dict.fromkeys(node.output, tolerance.ROUNDED_NETWORK))
    return allowed


def _inner_names(node: onnx.NodeProto, functions: Mapping[FunctionKey, Any]) -> Iterator[str]:
    """Yield the compiler's names of nodes in a node's nested graphs, or in the function it calls.

    The compiler has refused functions that call themselves.
    """
    from tvmrt.compiler.frontend.onnx.check_model import name_of
    from tvmrt.compiler.frontend.onnx.model_functions import expand_call
    from tvmrt.compiler.frontend.onnx.tensors import subgraphs
    from tvmrt.compiler.operator_key import FunctionKey

    inside = [inner for graph in subgraphs(node) for inner in graph.node]
    function = functions.get(FunctionKey.called_by(node))
    if function is not None:
        inside += expand_call(function, node)
    for inner in inside:
        yield name_of(inner)
        yield from _inner_names(inner, functions)

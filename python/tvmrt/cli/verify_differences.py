"""Comparisons of ``tvmrt verify`` with two references; results that are rounded or random."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tvmrt.cli import onnx_reference, tolerance
from tvmrt.cli.onnx_reference import ISOLATED_PREFIX
from tvmrt.cli.tolerance import TensorComparison

if TYPE_CHECKING:
    import onnx

    from tvmrt.cli.onnx_reference import Expected
    from tvmrt.cli.sequence_io import Labels
    from tvmrt.compiler.custom import Catalogue
    from tvmrt.compiler.operator_key import FunctionKey

Compare = Callable[[Mapping[str, "Expected"]], list[TensorComparison]]
DIFFERS = "differs"  # the reason for a node whose result the evaluator confirms, not onnxruntime
# Each step uses the state of the step before, and so amplifies errors of the products with inputs.
RECURRENT = ("GRU", "LSTM", "RNN")
RANDOM = frozenset(
    "RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli".split()
)


def compare_nodes(
    model: onnx.ModelProto,
    inputs: Mapping[str, Any],
    operators: Catalogue | None,
    labels: Labels,
    compare: Compare,
) -> tuple[list[TensorComparison], dict[int, str]]:
    """Compare the results of isolated nodes; also return the nodes whose results are those of the
    evaluator of onnx, not of onnxruntime, with the reason, by index.

    ``compare`` judges results against their reference. The standard leaves some results open, and
    each runtime computes some wrongly (docs/reference/accuracy.md), so a result that onnxruntime
    does not confirm is right if the evaluator does.
    """
    chosen: dict[int, str] = {}
    try:
        judge, right = onnx_reference.expected_outputs(model, inputs, operators, labels, chosen)
    except ValueError:  # both refuse a node, perhaps for a wrong operand: name what is wrong
        places = range(len(model.graph.node))
        rows = compare(onnx_reference.results_of_evaluator(model, places, inputs, labels))
        if all(row.verdict.right for row in rows):
            raise
        return rows, {}
    rows = compare(right)
    wrong = {ISOLATED_PREFIX + row.tensor for row in rows if not row.verdict.right}
    if wrong and judge.startswith("onnxruntime"):
        places = {i for i, node in enumerate(model.graph.node) if wrong.intersection(node.output)}
        second = onnx_reference.results_of_evaluator(model, places, inputs, labels)
        rows = _right_in_either(rows, compare(second))
        wrong -= {ISOLATED_PREFIX + row.tensor for row in rows if row.verdict.right}
        for place in places:
            if not wrong.intersection(model.graph.node[place].output):
                chosen[place] = DIFFERS
    return _without_random(model, rows, with_followers=False), chosen


def compare_outputs(
    model: onnx.ModelProto,
    inputs: Mapping[str, Any],
    operators: Catalogue | None,
    labels: Labels,
    compare: Compare,
    chosen: dict[int, str] | None,
) -> tuple[list[TensorComparison], str]:
    """Compare the outputs of a model; also return the name of the reference.

    ``chosen``: the nodes that :func:`compare_nodes` found; None if nodes are not compared: then the
    evaluator runs the whole network if onnxruntime does not confirm an output.
    """
    first = dict(chosen or {})
    judge, right = onnx_reference.expected_outputs(model, inputs, operators, labels, first)
    rows = compare(right)
    is_right = all(row.verdict.right for row in rows)
    if chosen is None and judge.startswith("onnxruntime") and not is_right:
        every = dict.fromkeys(range(len(model.graph.node)), DIFFERS)
        try:
            other, right = onnx_reference.expected_outputs(model, inputs, operators, labels, every)
        except ValueError:  # the network cannot be split
            right = {}
        second = _right_in_either(rows, compare(right))
        if second != rows:
            rows, judge = second, other
    return _without_random(model, rows, with_followers=True), judge


def _right_in_either(
    rows: Sequence[TensorComparison], second: Sequence[TensorComparison]
) -> list[TensorComparison]:
    """Return the comparisons, those of the second reference where only they are right."""
    better = {row.tensor: row for row in second if row.verdict.right}
    return [row if row.verdict.right else better.get(row.tensor, row) for row in rows]


def _without_random(
    model: onnx.ModelProto, rows: list[TensorComparison], with_followers: bool
) -> list[TensorComparison]:
    """Return the comparisons; wrong results of random numbers have a note instead, with
    ``with_followers`` also those that depend on them."""
    from tvmrt.compiler.operator_key import functions_by_key

    functions = functions_by_key(model)
    names: set[str] = set()
    for node in model.graph.node:
        if _is_random(node, functions) or (with_followers and names.intersection(node.input)):
            names.update(name.removeprefix(ISOLATED_PREFIX) for name in node.output)
    return [
        replace(row, verdict=_not_compared(row.verdict))
        if row.tensor in names and not row.verdict.right
        else row
        for row in rows
    ]


def _not_compared(verdict: tolerance.Verdict) -> tolerance.Verdict:
    return tolerance.Verdict(verdict.error, verdict.error, 0.0, note="not compared: random numbers")


def _is_random(node: onnx.NodeProto, functions: Mapping[FunctionKey, Any]) -> bool:
    """Return whether a node, its bodies or the function that it calls draw random numbers."""
    from tvmrt.compiler.frontend.onnx.tensors import subgraphs
    from tvmrt.compiler.operator_key import FunctionKey, operator_name

    called = functions.get(FunctionKey.called_by(node))
    inner = [each for graph in subgraphs(node) for each in graph.node]
    inner += [] if called is None else called.node
    drops = operator_name(node) == "Dropout" and len(node.input) > 2 and bool(node.input[2])
    return (
        operator_name(node) in RANDOM or drops or any(_is_random(each, functions) for each in inner)
    )


def _types_of(model: onnx.ModelProto) -> dict[str, int]:
    """Return element types of tensors by name, as declared or inferred by onnx."""
    import onnx

    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except Exception:  # if inference fails, use the declared types
        graph = model.graph
    kinds = {
        value.name: value.type.tensor_type.elem_type
        for value in (*graph.input, *graph.value_info, *graph.output)
    }
    return kinds | {tensor.name: tensor.data_type for tensor in graph.initializer}


def bfloat16_outputs(model: onnx.ModelProto) -> dict[str, float]:
    """Return the allowed errors of outputs of a network that computes in bfloat16, by name.

    The reference rounds each result, but the compiled network computes in float32 in between.
    """
    from onnx import TensorProto

    types = _types_of(model)
    halves = sum(TensorProto.BFLOAT16 in map(types.get, n.output) for n in model.graph.node)
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

"""ONNX networks for commands: load them, create inputs, and compute reference outputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt import plugin
from tvmrt.cli import files
from tvmrt.cli.sequence_io import Labels, split_sequences, strings_to_indices
from tvmrt.network.inputs import TensorInfo, random_inputs

if TYPE_CHECKING:
    import numpy as np
    import onnx

    from tvmrt.compiler.custom import Catalogue, Operator


def load_model(path: Path, with_weights: bool = True) -> onnx.ModelProto:
    """Read an ONNX file, by default with the weights in other files.

    Raises OSError or ValueError with the name of the file.
    """
    from tvmrt.compiler.frontend.onnx import model_file
    from tvmrt.compiler.frontend.onnx.sanitize_model import sanitize_model

    if plugin.importer_of_file(path) is not None:
        raise ValueError(
            f"{path}: this command supports ONNX networks only; 'tvmrt verify' and 'tvmrt bench' "
            f"support {path.suffix}, too"
        )
    return sanitize_model(model_file.load_model(path, with_external_data=with_weights))


def tensor_info(value: onnx.ValueInfoProto) -> TensorInfo:
    """Return name, type and shape that a graph input or output declares."""
    from onnx import TensorProto

    from tvmrt.compiler.frontend.onnx.inputs import element_name

    kind = value.type.WhichOneof("value")
    if kind != "tensor_type":
        return TensorInfo(value.name, (kind or "unknown").replace("_type", ""), ())
    tensor = value.type.tensor_type
    shape = tuple(
        dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?"
        for dim in tensor.shape.dim
    )
    text = tensor.elem_type == TensorProto.STRING
    return TensorInfo(value.name, "string" if text else element_name(tensor.elem_type), shape)


def input_infos(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> list[TensorInfo]:
    """Return the inputs that a user must set, with dimensions bound by ``shapes``."""
    weights = {tensor.name for tensor in model.graph.initializer}
    infos = [tensor_info(v) for v in model.graph.input if v.name not in weights]
    unknown = set(shapes) - {info.name for info in infos}
    if unknown:
        names = ", ".join(info.name for info in infos)
        raise KeyError(f"--shape: unknown input {min(unknown)}; the inputs are {names}")
    bound = [TensorInfo(i.name, i.dtype, shapes.get(i.name, i.shape)) for i in infos]
    for info in bound:
        symbols = [str(dim) for dim in info.shape if not isinstance(dim, int)]
        if symbols:
            example = ",".join(str(dim) if isinstance(dim, int) else "1" for dim in info.shape)
            raise ValueError(
                f"input {info.name} has the dynamic dimension {', '.join(symbols)}; "
                f"fix it, for instance with --shape {info.name}={example}"
            )
    return bound


def check_inputs(given: Mapping[str, np.ndarray], infos: Sequence[TensorInfo], where: str) -> None:
    """Raise KeyError, ValueError or TypeError if arrays do not match a network's inputs."""
    names = ", ".join(info.name for info in infos) or "none"
    for name in given:
        if name not in {info.name for info in infos}:
            raise KeyError(f"{where}: the network has no input '{name}'; its inputs are {names}")
    for info in infos:
        if info.name not in given:
            raise KeyError(f"{where}: input '{info.name}' is missing; the inputs are {names}")
        array = given[info.name]
        if not _shapes_match(array.shape, info.shape):
            raise ValueError(
                f"{where}: input '{info.name}' must have shape {list(info.shape)}, "
                f"not {list(array.shape)}"
            )
        if info.dtype in ("handle", "string"):
            if array.dtype.kind not in "OSU":
                raise TypeError(
                    f"{where}: input '{info.name}' must hold strings, not {array.dtype}"
                )
        elif str(array.dtype) not in (info.dtype, _codes(info.dtype)):
            raise TypeError(
                f"{where}: input '{info.name}' must be {info.dtype}, not {array.dtype}; "
                f"convert it with .astype('{info.dtype}')"
            )


def _codes(dtype: str) -> str | None:
    """Return the type that an .npz uses for floats unknown to NumPy; None for other types."""
    if re.search("float[48]", dtype):
        return "uint8"
    return "uint16" if dtype == "bfloat16" else None


def _shapes_match(found: Sequence[int], wanted: Sequence[int | str]) -> bool:
    """Return whether the extents agree, except for dynamic dimensions."""
    dynamic = (isinstance(n, str) for n in wanted)
    return len(found) == len(wanted) and all(
        is_open or n == m for is_open, n, m in zip(dynamic, found, wanted)
    )


def with_all_tensors_as_outputs(model: onnx.ModelProto, untyped: bool = False) -> onnx.ModelProto:
    """Return a copy of the model with every tensor that a node computes as an output.

    ``untyped`` also includes tensors without an inferred type, such as results of custom operators
    and all tensors computed from them. In models with operators of other domains, such tensors are
    included if a node reads them, since few runtimes provide the other outputs of these operators.
    """
    import onnx
    from onnx import helper

    from tvmrt.cli.split_evaluation import names_read
    from tvmrt.compiler.operator_key import domain_of

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    inferred = onnx.shape_inference.infer_shapes(copy).graph
    known = {value.name: value for value in [*inferred.value_info, *inferred.output]}
    present = {value.name for value in copy.graph.output}
    theirs = any(domain_of(node.domain) for node in copy.graph.node)
    read = names_read(copy.graph.node) if theirs else set()
    for node in copy.graph.node:
        for name in node.output:
            if not name or name in present:
                continue
            taken = (untyped or name in read) and "Sequence" not in node.op_type
            if name not in known and taken:
                copy.graph.output.append(helper.make_empty_tensor_value_info(name))
            elif name in known and known[name].type.HasField("tensor_type"):
                copy.graph.output.append(known[name])
            present.add(name)
    del copy.graph.value_info[:]
    return copy


# Operators that keep the scale of their first operand.
SCALE_PRESERVING = {"Flatten", "Identity", "Relu", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}


def dequantize_scales(model: onnx.ModelProto) -> dict[str, float]:
    """Return the scales of tensors that are dequantised from 8-bit integers, by name."""
    from onnx import numpy_helper

    from tvmrt.compiler.operator_key import operator_name

    constants = {each.name: each for each in model.graph.initializer}
    steps = {}
    for node in model.graph.node:
        if operator_name(node) in SCALE_PRESERVING and node.input[0] in steps:
            steps[node.output[0]] = steps[node.input[0]]
        elif operator_name(node) == "DequantizeLinear":
            scale, *zero = (constants.get(name) for name in node.input[1:])
            types = [numpy_helper.to_array(each).dtype for each in zero if each is not None]
            if scale is not None and all(each.itemsize == 1 for each in types):
                steps[node.output[0]] = float(abs(numpy_helper.to_array(scale)).max(initial=0.0))
    return steps


EVALUATOR = "onnx reference"  # the name of the onnx package's evaluator as a reference
ISOLATED_PREFIX = "alone:"  # name prefix of an output that a node computes from given inputs


def isolate_nodes(
    model: onnx.ModelProto, values: Mapping[str, np.ndarray]
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """Return a model in which every node works on given values, and its inputs.

    Nodes are disconnected: they read their inputs from ``values``, so an error of one node does not
    affect the following nodes. The outputs are the node outputs contained in ``values``, with the
    prefix ISOLATED_PREFIX. A tensor that ``values`` lacks (a sequence) still connects its nodes.
    """
    import onnx
    from onnx import helper

    from tvmrt.cli.split_evaluation import names_read

    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = copy.graph
    constants = {tensor.name for tensor in graph.initializer}
    constants |= {sparse.values.name for sparse in graph.sparse_initializer}
    outputs = []
    for node in graph.node:
        for position, name in enumerate(node.input):
            if name and name not in values and name not in constants:
                node.input[position] = ISOLATED_PREFIX + name
        for position, name in enumerate(node.output):
            if name:
                node.output[position] = ISOLATED_PREFIX + name
                outputs += [ISOLATED_PREFIX + name] if name in values else []
    read = names_read(graph.node)
    feeds = {n: v for n, v in values.items() if n in read and n not in constants}
    del graph.input[:], graph.output[:], graph.value_info[:]
    for name, value in feeds.items():
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        graph.input.append(helper.make_tensor_value_info(name, kind, value.shape))
    graph.output.extend(helper.make_empty_tensor_value_info(name) for name in outputs)
    return copy, feeds


@dataclass(frozen=True)
class Expected:
    """A reference value, and the error of another faithful computation (0 if unknown)."""

    value: np.ndarray
    noise: float = 0.0


def expected_outputs(
    model: onnx.ModelProto,
    inputs: Mapping[str, np.ndarray],
    operators: Catalogue | None = None,
    labels: Labels | None = None,
    chosen: dict[int, str] | None = None,
) -> tuple[str, dict[str, Expected]]:
    """Return the name of the reference, and every output of the model by name. Outputs that are
    strings or maps are converted to numbers with their ``labels``.

    The reference is onnxruntime if it is installed. It runs without optimisations, and again with
    them, and with bfloat16 inputs changed by rounding errors, to measure the arithmetic noise.
    The reference evaluator of the onnx package runs ``chosen`` nodes (the reason by index), and
    those that onnxruntime cannot run, which are added. It also runs networks with custom
    ``operators``, and all networks without onnxruntime. Nodes that permit onnxruntime to round
    activations to 8 bits compute in float32, as tvmrt does.
    """
    chosen = {} if chosen is None else chosen
    own = operators_used(model, operators)
    if own:
        made = _evaluators(own)
        return "onnx reference and the operators' own", _evaluate_reference(model, inputs, made)
    try:
        import onnxruntime  # noqa: F401
    except ImportError:
        return EVALUATOR, _evaluate_reference(model, inputs, labels=labels)
    exact = _without_accuracy_levels(model)
    plain, tuned = (
        strings_to_indices(split_sequences(values), labels or {})
        for values in (
            _by_onnxruntime(exact, inputs, False, chosen),
            _by_onnxruntime(exact, _perturbed(inputs), True, chosen),
        )
    )
    return name_of_reference(model, chosen), {
        name: Expected(value, _noise(value, tuned[name])) for name, value in plain.items()
    }


def operators_used(model: onnx.ModelProto, operators: Catalogue | None) -> list[Operator]:
    """Return the custom operators of a model's nodes, except for those that override existing
    operators, which have a reference already."""
    from tvmrt.compiler.frontend.onnx.tensors import with_nested_graphs

    if operators is None:
        return []
    used: list[Operator] = []
    for holder in (model, *model.functions):
        versions = {opset.domain: opset.version for opset in holder.opset_import}
        for graph in with_nested_graphs([holder.graph if holder is model else holder]):
            for node in graph.node:
                if node.domain not in ("", "ai.onnx"):
                    version = versions.get(node.domain, 1)
                    found = operators.find(node.domain, node.op_type, version)
                    used += [] if found is None or found in used else [found]
    return used


def _evaluators(operators: Sequence[Operator]) -> list[type]:
    """Return classes that let the reference evaluator of onnx run operators, by their Python
    references or, for composed ones, by their components."""
    from onnx.reference.op_run import OpRun

    def make(operator: Operator) -> type:
        def run(self, *arrays, **attributes):
            given = {k: v for k, v in attributes.items() if v is not None}
            found = operator.evaluate_node(arrays, given)
            if found is None:
                raise ValueError(f"operator {operator.name} has no reference implementation")
            return tuple(found)

        members = {"op_domain": operator.domain, "_run": run}
        return type(operator.op_type, (OpRun,), members)

    return [make(operator) for operator in operators]


def _perturbed(inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the inputs, with numbers of bfloat16 that were rounded differently."""
    import numpy as np

    rng = np.random.default_rng(0)

    def perturb(array: np.ndarray) -> np.ndarray:
        by = 1 + rng.uniform(-(2.0**-8), 2.0**-8, array.shape)
        return (array.astype(np.float32) * by).astype(array.dtype)

    return {
        name: perturb(each) if getattr(each, "dtype", None) == "bfloat16" else each
        for name, each in inputs.items()
    }


ACCURACY_LEVEL = "accuracy_level"


def _without_accuracy_levels(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model, or a copy whose matmuls use float32 kernels of onnxruntime.

    ``accuracy_level`` permits less than float32, from float16 (2) to int8 activations (4).
    """
    import onnx

    from tvmrt.compiler.frontend.onnx.tensors import nodes

    def levels(node: onnx.NodeProto) -> list[onnx.AttributeProto]:
        return [each for each in node.attribute if each.name == ACCURACY_LEVEL]

    if not any(map(levels, nodes(model))):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for node in nodes(copy):
        for each in levels(node):
            node.attribute.remove(each)
    return copy


def _by_onnxruntime(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], optimise: bool, chosen: dict[int, str]
) -> dict[str, Any]:
    """Return every output by name: by onnxruntime, and by the evaluator for ``chosen`` nodes."""
    from tvmrt.cli import split_evaluation
    from tvmrt.cli.onnxruntime_session import run_onnxruntime

    def run(part: onnx.ModelProto, feeds: Mapping[str, Any]) -> dict[str, Any]:
        return run_onnxruntime(part, feeds, optimise)

    return split_evaluation.run_with_reference(model, inputs, run, chosen)


def name_of_reference(model: onnx.ModelProto, chosen: Mapping[int, str]) -> str:
    """Return the name of onnxruntime, with the nodes that the reference evaluator ran."""
    if not chosen:
        return "onnxruntime"
    operators = ", ".join(sorted({model.graph.node[place].op_type for place in chosen}))
    nodes = "1 node" if len(chosen) == 1 else f"{len(chosen)} nodes"
    return (
        f"onnxruntime, and for {nodes} ({operators}) with the reference evaluator of onnx, since "
        f"onnxruntime {' or '.join(sorted(set(chosen.values())))} there"
    )


def results_of_evaluator(
    model: onnx.ModelProto, places: Iterable[int], values: Mapping[str, Any], labels: Labels
) -> dict[str, Expected]:
    """Return the results of nodes, by index, on given values, without those of nodes that the
    evaluator of the onnx package cannot run."""
    from tvmrt.cli.split_evaluation import evaluate_node

    found: dict[str, Any] = {}
    for place in places:
        with suppress(ValueError):
            found.update(evaluate_node(model, place, dict(values)))
    arrays = strings_to_indices(split_sequences(found), labels)
    return {name: Expected(value) for name, value in arrays.items()}


def _evaluate_reference(
    model: onnx.ModelProto,
    inputs: Mapping[str, np.ndarray],
    operators: Sequence[type] = (),
    labels: Labels | None = None,
) -> dict[str, Expected]:
    from tvmrt.cli.split_evaluation import evaluate

    try:
        named = evaluate(model, inputs, operators)
    except ValueError as error:
        remedy = "install a reference runtime that can: pip install onnxruntime"
        if operators:  # no other reference supports them
            remedy = "it checks custom operators against their Python references"
        raise ValueError(f"{error}; {remedy}") from None
    found = strings_to_indices(split_sequences(named), labels or {})
    return {name: Expected(value) for name, value in found.items()}


def _noise(value: np.ndarray, other: np.ndarray) -> float:
    from tvmrt.cli import tolerance

    return tolerance.difference(other, value)


def inputs_for(
    model: onnx.ModelProto,
    shapes: Mapping[str, tuple[int, ...]],
    inputs_file: Path | None,
) -> dict[str, np.ndarray]:
    """Return checked inputs from a file, or random inputs without a file."""
    infos = input_infos(model, shapes)
    if inputs_file is None:
        return random_inputs(infos)
    arrays = files.load_inputs(inputs_file)
    check_inputs(arrays, infos, str(inputs_file))
    return arrays

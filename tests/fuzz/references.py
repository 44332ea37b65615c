"""Reference results of a network: from onnxruntime, the ONNX reference evaluator, or LiteRT.

ONNX networks are compared with onnxruntime without its optimiser. The onnx package's reference
evaluator replaces it for networks that onnxruntime does not run, and for nodes that the table of
differences (tests/python/support/differences) lists as incorrect in onnxruntime. ``.tflite``
networks are compared with LiteRT's reference kernels, or its optimised ones if there is no
reference kernel.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Union

import comparison
import flatbuffers
import numpy as np
import onnx

from tvmrt.cli.split_evaluation import run_with_reference

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python/support"))
from differences import Judge, differences_of, nodes_to_evaluate
from differences.exact_reference import evaluators

Model = Union[onnx.ModelProto, bytes]  # the content of a .tflite file
Feeds = Mapping[str, np.ndarray]


def right_outputs(model: Model, feeds: Feeds) -> list[np.ndarray]:
    """Return the outputs of the network's reference. Raises the exception of the last reference
    tried."""
    if isinstance(model, bytes):
        return by_litert(model, feeds)
    chosen = nodes_to_evaluate(model)
    if chosen:
        return _evaluated(model, feeds, chosen)
    try:
        return by_onnxruntime(model, feeds)
    except Exception as refusal:  # its exceptions share no base class
        try:
            return by_reference(model, feeds)
        except Exception:
            raise refusal from None


def by_the_standard(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """Return the outputs with the evaluator's results at all nodes where onnxruntime may deviate
    for some values."""
    return _evaluated(model, feeds, nodes_to_evaluate(model, with_data=True))


def _evaluated(model: onnx.ModelProto, feeds: Feeds, chosen: Mapping) -> list[np.ndarray]:
    found = run_with_reference(model, feeds, _named_by_onnxruntime, dict(chosen), evaluators())
    return [np.asarray(found[each.name]) for each in model.graph.output]


def by_standard(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """Return the outputs of the evaluator, or of onnxruntime for operators that it lacks."""
    nodes, lacking = model.graph.node, {""}
    while True:
        chosen = {i: "standard" for i, n in enumerate(nodes)
                  if not n.domain and n.op_type not in lacking}  # fmt: skip
        try:
            return _evaluated(model, feeds, chosen)
        except ValueError as problem:
            name = re.search(r"No implementation for operator '([^']*)'", str(problem))
            if not name or name[1] in lacking:
                raise
            lacking.add(name[1])


def with_standard_indices(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """Return the outputs of onnxruntime, with the evaluator's results of Slice, Resize and pools.
    onnxruntime takes the largest integer for the end of the axis also where steps are negative,
    computes coordinates in float32, and has a window where none fits by less than a stride."""
    nodes, operators = enumerate(model.graph.node), ("Slice", "Resize", "MaxPool", "AveragePool")
    return _evaluated(model, feeds, {i: "standard" for i, n in nodes if n.op_type in operators})


def by_parts(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """Return the outputs of onnxruntime, with the evaluator's results at the nodes where it
    fails."""
    chosen: dict[int, str] = {}
    while True:
        try:
            return _evaluated(model, feeds, chosen)
        except Exception as problem:  # onnxruntime's share no base class
            name = re.search(r"Name:'([^']*)'", str(problem))
            nodes = [i for i, n in enumerate(model.graph.node) if name and n.name == name[1]]
            if not nodes or nodes[0] in chosen:
                raise
            chosen[nodes[0]] = "onnxruntime fails"


def leaves_the_standard(model: onnx.ModelProto, feeds: Feeds) -> bool:
    """Return True if onnxruntime runs a node that the onnx package's inference refuses, or gives
    another shape, such as a Concat of parts that differ along another axis and are empty."""
    every = onnx.ModelProto()
    every.CopyFrom(model)
    names = [name for node in model.graph.node for name in node.output if name]
    del every.graph.output[:]
    every.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    values = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer} | dict(feeds)
    values |= {n: np.asarray(each) for n, each in zip(names, by_onnxruntime(every, feeds))}
    return any(_is_refused(model, node, values) for node in model.graph.node)


def _is_refused(model: onnx.ModelProto, node: onnx.NodeProto, values: Feeds) -> bool:
    def infos(names: Any, with_shape: bool) -> list[onnx.ValueInfoProto]:
        types = {n: onnx.helper.np_dtype_to_tensor_dtype(values[n].dtype) for n in names if n}
        return [onnx.helper.make_tensor_value_info(n, t, values[n].shape if with_shape else None)
                for n, t in types.items()]  # fmt: skip

    inputs, outputs = infos(node.input, True), infos(node.output, False)
    known = [onnx.numpy_helper.from_array(values[i.name], i.name) for i in inputs]
    graph = onnx.helper.make_graph([node], "one", inputs, outputs, known)
    one = onnx.helper.make_model(
        graph, opset_imports=model.opset_import, ir_version=model.ir_version
    )
    try:
        found = onnx.shape_inference.infer_shapes(one, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return True
    return any(
        dim.HasField("dim_value") and dim.dim_value != extent
        for info in found.graph.output
        for dim, extent in zip(info.type.tensor_type.shape.dim, values[info.name].shape)
    )


def is_left_to_the_standard(model: onnx.ModelProto) -> bool:
    """Return True if onnxruntime deviates and the reference evaluator is correct, for some operand
    values of a node."""
    rows = [row for found in differences_of(model).values() for row in found]
    return any(row.judge in (Judge.EXACT, Judge.REFERENCE) and row.data for row in rows)


@lru_cache(maxsize=4)
def _session(data: bytes) -> Any:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False  # a network may need much memory at one size
    return onnxruntime.InferenceSession(data, options)


def by_onnxruntime(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """Return the outputs of onnxruntime without its optimiser."""
    return _session(model.SerializeToString()).run(None, dict(feeds))


def by_reference(model: onnx.ModelProto, feeds: Feeds) -> list[np.ndarray]:
    """Return the outputs of the onnx package's reference evaluator, with Resize coordinates as
    fractions."""
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(model, new_ops=evaluators())
    with np.errstate(all="ignore"):
        return [np.asarray(each) for each in evaluator.run(None, dict(feeds))]


def _named_by_onnxruntime(model: onnx.ModelProto, feeds: Feeds) -> dict[str, np.ndarray]:
    outputs = by_onnxruntime(model, feeds)
    return {each.name: array for each, array in zip(model.graph.output, outputs)}


def by_litert(data: bytes, feeds: Feeds) -> list[np.ndarray]:
    """Return the outputs of LiteRT's kernels; inputs are passed in order."""
    from tflite_case import litert_runs

    for version in (None, 1):
        try:
            return litert_runs(_of_versions(data, version), [list(feeds.values())])[0]
        except ValueError as problem:
            if "Didn't find op" not in str(problem):
                raise
    return litert_runs(data, [list(feeds.values())], "BUILTIN_WITHOUT_DEFAULT_DELEGATES")[0]


def _of_versions(data: bytes, version: int | None) -> bytes:
    """Return the network with operators of that version: some reference kernels are registered for
    version 1 only, but accept all types."""
    if version is None:
        return data
    from ai_edge_litert import schema_py_generated as schema

    copy = schema.ModelT.InitFromPackedBuf(data)
    for code in copy.operatorCodes:
        code.version = version
    return _packed(copy)


def _packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def shaken_model(model: Model, number: int) -> Model:
    """Return the network with the floats of its constants perturbed, differently for each
    number."""
    if not isinstance(model, bytes):
        return comparison.shaken_model(model, number)
    from ai_edge_litert import schema_py_generated as schema

    source = np.random.default_rng(number + 1000)
    copy = schema.ModelT.InitFromPackedBuf(model)
    for graph in copy.subgraphs:
        for tensor in graph.tensors:
            buffer = copy.buffers[tensor.buffer]
            if tensor.type == schema.TensorType.FLOAT32 and buffer.data is not None:
                values = np.asarray(buffer.data, np.uint8).view(np.float32)
                buffer.data = comparison.shaken_array(values, source).view(np.uint8)
    return _packed(copy)

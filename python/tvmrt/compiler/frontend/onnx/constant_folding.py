"""Constant folding of nodes by the ONNX reference evaluator at import.

It covers nodes that the IR cannot express or does not fold (NonZero, Unique, a convolution of
constants), as long as they do not depend on an input of the network. Nodes that the evaluator
computes differently from the compiled network are not folded, so that constants and run-time values
have one meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx
import onnx.shape_inference
from onnx import helper, numpy_helper

from tvmrt.compiler.differences import intentional_differences
from tvmrt.compiler.differences.exact_reference import evaluators
from tvmrt.compiler.ir import DTYPES, FoldingBudget, Value
from tvmrt.compiler.ir.limits import MAX_FOLDED_BYTES
from tvmrt.compiler.operator_key import operator_name

from .legalize_types import packed_type, typed_constant
from .model_functions import ModelFunctions
from .tensors import subgraphs

if TYPE_CHECKING:
    from onnx.reference import ReferenceEvaluator

_RANDOM = frozenset(
    "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform "
    "RandomUniformLike".split()
)

# Operators whose results or steps the evaluator computes one by one in Python.
_SLOW = frozenset(
    "AveragePool Col2Im DeformConv GRU GatherElements GatherND GridSample LSTM LpPool MaxPool "
    "MaxUnpool NonMaxSuppression RNN Resize RoiAlign ScatterElements ScatterND TfIdfVectorizer "
    "Upsample".split()
)
SLOW_COST = 1 << 10  # how many bytes they may cost per byte that they read and write

MAX_ELEMENTS = 1 << 24
# Operators that may read each pair of elements of their inputs, and store them at a time.
_PAIRWISE = frozenset("Conv ConvInteger ConvTranspose DeformConv Einsum QLinearConv".split())
MAX_PAIRS = 1 << 26
_FOLDED = {name for name, row in DTYPES.items() if not row.is_packed}  # packed: stored wider
MAX_SHAPE_ELEMENTS = 64  # maximum size of an input whose values determine shapes


def fold_node(
    node: onnx.NodeProto,
    inputs: Sequence[Value | None],
    functions: ModelFunctions,
    budget: FoldingBudget,
    outputs: Sequence[Value | None] = (),
) -> list[Value | None] | None:
    """Return the node's outputs as constants, or None if they are unknown at compile time.

    ``functions``: those of the model, with the versions of operators. ``outputs``: the imported
    outputs, if any; their types give the sizes of the results. The nodes of a function are folded
    one by one: the evaluator ignores overloads. The cost counts in ``budget``.
    """
    if any(v is not None and v.data is None for v in inputs):
        return None
    if operator_name(node) == "DequantizeLinear":
        return None  # integer kernels need the integers; the remaining nodes are folded later
    if operator_name(node) in _RANDOM or any(subgraphs(node)) or functions.find(node):
        return None
    if any(v is not None and packed_type(v) for v in inputs):
        return None  # the evaluator would read the wider storage type
    if outputs and _differs(node, inputs, functions):
        return None
    sizes = sorted((v.type.size for v in inputs if v is not None), reverse=True)
    is_pairwise = operator_name(node) in _PAIRWISE
    if sum(sizes) > MAX_ELEMENTS or (is_pairwise and prod(sizes[:2]) > MAX_PAIRS):
        return None
    input_bytes = sum(v.type.nbytes for v in inputs if v is not None)
    results = sum(v.type.nbytes for v in outputs if v is not None)
    if results > max(MAX_FOLDED_BYTES, input_bytes):
        return None
    if not budget.spend(
        (input_bytes + results) * (SLOW_COST if operator_name(node) in _SLOW else 1)
    ):
        return None
    feeds = {key: v.data for key, v in zip(node.input, inputs) if v is not None}
    infos = [
        helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        for key, a in feeds.items()
    ]
    result_infos = [helper.make_empty_tensor_value_info(key) for key in node.output if key]
    graph = helper.make_graph([node], "one_node", infos, result_infos)
    imports = [helper.make_opsetid(*version) for version in functions.opsets.items()]
    single = helper.make_model(graph, opset_imports=imports)
    if _too_large(single, feeds):
        return None
    try:
        with np.errstate(all="ignore"):
            results = _evaluator(single).run(None, feeds)
    except Exception:
        # the evaluator raises any numpy error; the caller then reports the node by name
        return None
    named = dict(zip([key for key in node.output if key], results))
    if any(not isinstance(a, (np.ndarray, np.generic)) for a in named.values()):
        return None
    if any(np.asarray(a).dtype.name not in _FOLDED for a in named.values()):
        return None
    return [typed_constant(np.asarray(named[key]), key) if key else None for key in node.output]


def _evaluator(model: onnx.ModelProto) -> ReferenceEvaluator:
    from onnx.reference import ReferenceEvaluator  # its import takes 25 ms; few networks fold

    return ReferenceEvaluator(model, new_ops=evaluators())


def _differs(
    node: onnx.NodeProto, inputs: Sequence[Value | None], functions: ModelFunctions
) -> bool:
    """Return whether the evaluator is known to differ from the imported node."""
    types = {key: v.type.element for key, v in zip(node.input, inputs) if v is not None}
    rows = intentional_differences(node, functions.opset(node), types)
    return any(row.evaluator_differs for row in rows)


def _too_large(single: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> bool:
    """Return whether a result would exceed the limit for folding, as far as its shape is known."""
    model = onnx.ModelProto()
    model.CopyFrom(single)
    model.graph.initializer.extend(
        numpy_helper.from_array(array, key)
        for key, array in feeds.items()
        if array.size <= MAX_SHAPE_ELEMENTS
    )
    # onnx tracks the known elements of a vector as one extent each: many gigabytes
    few = all(array.size <= MAX_SHAPE_ELEMENTS for array in feeds.values())
    try:
        inferred = onnx.shape_inference.infer_shapes(model, data_prop=few)
    except Exception:
        return False  # the evaluator reports the error
    shapes = [info.type.tensor_type.shape.dim for info in inferred.graph.output]
    return any(8 * prod(d.dim_value for d in dims) > MAX_FOLDED_BYTES for dims in shapes if dims)

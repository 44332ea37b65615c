"""Compare outputs with onnxruntime: the rules for correct elements.

onnxruntime runs without its optimiser. An element is right if one of these holds:

1. It is equal, or both are NaN.
2. Both are finite floats no further apart than ``RELATIVE[type]`` times the largest magnitude of
   the output (at least 1), where type is the coarsest float type that the network computes in;
   of the operators of ``SINGLE`` onnxruntime computes a part in float32 (a factor, what
   ``stash_type`` names, an attribute's sum), and we in the type. Where an input has more than
   ``TERMS`` elements it is as many times further: onnxruntime adds them one to the other.
3. It is undecided: onnxruntime's own answer changes when the floats of the network's inputs and
   constants are shaken by a few units in the last place. The element must then lie within what
   onnxruntime gave for the shaken ones, widened as in 2. This is what decides ties (of ArgMax,
   TopK, MaxPool) and rounding (of QuantizeLinear, Round, Cast to integers, comparisons).
4. One is infinite, the other the largest number of the type with the same sign: onnxruntime masks
   scores by that number where ONNX has infinity.
5. onnxruntime has NaN there: which operators keep a NaN differs, and is tested by itself.
6. It is an integer, 0 or a bound of its type, and the network is one operator of ``BOUNDED``: ONNX
   leaves floats beyond an integer type open. They become its bounds and NaN 0, as
   the contract of its Cast says; onnxruntime takes what the processor gives.
7. onnxruntime gives no element, and the network is one operator of ``FOLDING``: it folds an axis of
   no element to none, where ONNX has one with the operator's neutral element. The numbers that ONNX
   gives are held by tests of their own.

Type and shape of an output must be equal. Networks with the operators of ``RANDOM`` and those for
which onnxruntime has no kernel are run but not compared.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python/support"))
from differences import TABLE

RELATIVE = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2, "bfloat16": 8e-2}
TERMS = 1 << 18
DIFFERENCES = {row.name: row for row in TABLE}
RANDOM = frozenset(
    [*DIFFERENCES["random-numbers"].operators, *DIFFERENCES["random-dropout"].operators,
     "OptionalHasElement", "OptionalGetElement", "ImageDecoder"]
)  # fmt: skip
SINGLE = frozenset(DIFFERENCES["double-in-single"].operators)
BOUNDED = frozenset(DIFFERENCES["float-to-integer"].operators)
FOLDING = frozenset(DIFFERENCES["empty-reduction"].operators)
SHAKES = 24


@dataclass(frozen=True)
class Difference:
    """The defect of an output."""

    output: int
    what: str

    def __str__(self) -> str:
        return f"output {self.output}: {self.what}"


def is_comparable(model: onnx.ModelProto | bytes) -> bool:
    """Return True if two runs of a network give equal results."""
    if isinstance(model, bytes):
        return True
    return not any(node.op_type in RANDOM for node in all_nodes(model))


def all_nodes(model: onnx.ModelProto) -> Iterable[onnx.NodeProto]:
    """Return the nodes of a network, including those of subgraphs and functions."""
    waiting = [model.graph.node, *(function.node for function in model.functions)]
    while waiting:
        for node in waiting.pop():
            yield node
            waiting += [each.g.node for each in node.attribute if each.HasField("g")]


def coarsest_type(model: onnx.ModelProto) -> str:
    """Return the float type with the fewest digits in a network, float32 if there is none."""
    graph = model.graph
    kinds = {tensor.data_type for tensor in graph.initializer}
    kinds |= {
        v.type.tensor_type.elem_type for v in (*graph.input, *graph.output, *graph.value_info)
    }
    for node in all_nodes(model):
        kinds |= {a.i for a in node.attribute if a.name in ("to", "output_dtype", "dtype")}
        kinds |= {a.t.data_type for a in node.attribute if a.HasField("t")}
    names = ("BFLOAT16", "FLOAT16", "FLOAT")
    found = [name for name in names if TensorProto.DataType.Value(name) in kinds]
    single = any(node.op_type in SINGLE for node in all_nodes(model))
    if not found and TensorProto.DOUBLE in kinds and not single:
        return "float64"
    return {"BFLOAT16": "bfloat16", "FLOAT16": "float16"}.get(found[0] if found else "", "float32")


def max_terms(model: onnx.ModelProto) -> int:
    """Return the number of elements of a network's largest input."""
    shapes = [value.type.tensor_type.shape.dim for value in model.graph.input]
    return max((math.prod(d.dim_value for d in shape) for shape in shapes), default=0)


def is_bounded(model: onnx.ModelProto) -> bool:
    """Return True if rule 6 applies to a network."""
    return _is_one_of(BOUNDED, model)


def is_folding(model: onnx.ModelProto) -> bool:
    """Return True if rule 7 applies to a network."""
    return _is_one_of(FOLDING, model)


def _is_one_of(operators: frozenset[str], model: onnx.ModelProto) -> bool:
    return [node.op_type in operators for node in all_nodes(model)] == [True]


def differences(
    got: Sequence[np.ndarray],
    want: Sequence[np.ndarray],
    shaken: Sequence[Sequence[np.ndarray]],
    kind: str,
    bounded: bool = False,
    folding: bool = False,
    terms: int = 0,
) -> list[Difference]:
    """Return the errors of the outputs of a network that computes in floats of ``kind``.

    ``bounded`` and ``folding`` say whether rules 6 and 7 hold, ``terms`` how many floats are added
    at most.
    """
    relative = RELATIVE[kind] * max(1, terms / TERMS)
    if len(got) != len(want):
        return [Difference(0, f"{len(got)} outputs instead of {len(want)}")]
    found = []
    for i, (ours, theirs) in enumerate(zip(got, want)):
        if folding and theirs.size == 0 and ours.dtype == theirs.dtype:
            continue
        others = [run[i] for run in shaken if len(run) > i]
        what = _difference(_unbounded(ours, theirs) if bounded else ours, theirs, others, relative)
        if what:
            found.append(Difference(i, what))
    return found


def compared(
    model: onnx.ModelProto | bytes, got: Sequence[np.ndarray], want: Sequence[np.ndarray],
    shaken: Sequence[Sequence[np.ndarray]],
) -> list[str]:  # fmt: skip
    """Return the errors of the outputs of an ONNX or ``.tflite`` network."""
    if isinstance(model, bytes):
        return [str(each) for each in differences(got, want, shaken, "float32")]
    found = differences(
        got, want, shaken, coarsest_type(model), is_bounded(model), is_folding(model),
        max_terms(model),
    )  # fmt: skip
    return [str(each) for each in found]


def _unbounded(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Return our output, but onnxruntime's value where ours is correct by rule 6."""
    if ours.dtype.kind not in "iu" or ours.shape != theirs.shape:
        return ours
    limits = np.iinfo(ours.dtype)
    return np.where(np.isin(ours, [0, limits.min, limits.max]), theirs, ours).astype(ours.dtype)


def _difference(ours: np.ndarray, theirs: np.ndarray, shaken: list, relative: float) -> str:
    if (ours.dtype, ours.shape) != (theirs.dtype, theirs.shape):
        if ours.dtype == theirs.dtype and _is_shaken_shape(ours.shape, theirs.shape, shaken):
            return ""
        return f"{ours.dtype}{list(ours.shape)} instead of {theirs.dtype}{list(theirs.shape)}"
    if ours.dtype.kind not in "biuf" or ours.size == 0:
        return ""
    wrong = ~_is_right(ours, theirs, shaken, relative)
    if not wrong.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(wrong)[0])
    return (
        f"{int(wrong.sum())} of {wrong.size} differ, the first at {list(first)}: "
        f"{ours[first]!s} instead of {theirs[first]!s}"
    )


def _is_shaken_shape(ours: tuple, theirs: tuple, shaken: list) -> bool:
    """Return True if each extent is between those of the perturbed networks, whose sizes depend on
    roundings."""
    found = [theirs, *(each.shape for each in shaken)]
    return all(len(each) == len(ours) for each in found) and all(
        min(sizes) <= size <= max(sizes) for size, *sizes in zip(ours, *found)
    )


def _is_right(ours: np.ndarray, theirs: np.ndarray, shaken: list, relative: float) -> np.ndarray:
    """Return which elements are correct by rules 1 to 5."""
    right = ours == theirs
    if ours.dtype.kind == "f":
        right |= np.isnan(theirs) | (_bounded(ours) == _bounded(theirs))
    alike = [each for each in shaken if each.shape == theirs.shape and each.dtype == theirs.dtype]
    if len(alike) < len(shaken):
        return np.ones_like(right)  # even the shape is undecided
    if ours.dtype.kind == "f" or alike:
        hull = [_wide(each) for each in (theirs, *alike)]
        room = _room(theirs, relative) if ours.dtype.kind == "f" else 0.0
        with np.errstate(invalid="ignore"):
            low, high = np.minimum.reduce(hull) - room, np.maximum.reduce(hull) + room
            inside = (low <= _wide(ours)) & (_wide(ours) <= high)
        right |= inside.astype(bool)
        if ours.dtype.kind == "f":
            right |= np.isnan(low)
    return right


def _bounded(array: np.ndarray) -> np.ndarray:
    limits = np.finfo(array.dtype)
    return np.clip(array, limits.min, limits.max)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind in "bf" else array.astype(object)


def _room(theirs: np.ndarray, relative: float) -> float:
    finite = np.abs(theirs[np.isfinite(theirs)].astype(np.float64))
    return relative * max(1.0, float(finite.max(initial=0.0)))


def shaken_feeds(feeds: dict[str, np.ndarray], number: int) -> dict[str, np.ndarray]:
    """Return the feeds with their floats perturbed, differently for each number."""
    source = np.random.default_rng(number)
    return {name: shaken_array(array, source) for name, array in feeds.items()}


def shaken_model(model: onnx.ModelProto, number: int) -> onnx.ModelProto:
    """Return the network with the floats of its constants perturbed, differently for each
    number."""
    source = np.random.default_rng(number + 1000)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    for tensor in copy.graph.initializer:
        if tensor.data_type in (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16):
            array = shaken_array(numpy_helper.to_array(tensor), source)
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    return copy


def shaken_array(array: np.ndarray, source: np.random.Generator) -> np.ndarray:
    """Return an array with its floats changed by a few units in the last place."""
    if array.dtype.kind != "f":
        return array
    units = 16 if array.dtype.itemsize > 2 else 1
    with np.errstate(all="ignore"):
        by = 1 + units * np.finfo(array.dtype).eps * source.uniform(-1, 1, array.shape)
        return (array.astype(np.float64) * by).astype(array.dtype)

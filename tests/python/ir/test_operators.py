"""Type inference of the operators, and constant folding."""

from __future__ import annotations

import numpy as np
import pytest
from contract_samples import BY_RECORD, OWN, TABLED, mutants, sample

from tvmrt.compiler.ir import DTYPES, Builder, Graph, get_op
from tvmrt.compiler.ir.contract import LIMIT, Contract
from tvmrt.compiler.ir.op import OPS, POINTWISE
from tvmrt.compiler.ir.pointwise import PointwiseOp


@pytest.mark.parametrize("op", TABLED)
def test_valid_applications_have_types(op):
    right = sample(op)
    types = OPS[op].infer(right.types, right.attrs, right.data)
    arrays = [None if t is None else np.ones(t.shape, t.dtype.numpy) for t in right.types]
    arrays = [a if d is None else d for a, d in zip(arrays, right.data)]
    with np.errstate(all="ignore"):
        values = OPS[op].evaluate(arrays, right.attrs)
    if values is not None:
        assert [v.shape for v in values] == [t.shape for t in types]


@pytest.mark.parametrize("op", TABLED)
def test_contract_violations_are_reported(op):
    """The error names the operand or attribute, whichever rule is broken."""
    for mutant in mutants(op):
        wrong = mutant.application
        with pytest.raises(ValueError) as caught:
            OPS[op].infer(wrong.types, wrong.attrs, wrong.data)
        assert mutant.names in str(caught.value), f"{op}: {mutant.id}"


def test_every_operator_has_a_contract():
    for op in OWN:
        contract = OPS[op].contract
        assert isinstance(contract, Contract), op
        assert contract.results or op in BY_RECORD, op


MISFITS = {
    "broadcast": ("add", {"A": (2,), "B": (3,)}, {}, "do not broadcast"),
    "bit-cast": ("bit_cast", {}, {"to": "int64"}, "same size; found E = float32, to = int64"),
    "half": ("cast", {"E": "float16"}, {"to": "int8"}, "from and to float32 only"),
    "concat": ("concat", {"parts": [(2, 3), (2, 4)]}, {"axis": 0}, "same extents but along axis"),
    "elements": ("gather_elements", {"D": (2, 3), "I": (2, 4)}, {"axis": 0}, "no longer than data"),
    "tuples": (
        "gather_nd",
        {"D": (2, 3), "J": (4,), "K": 3},
        {"batch": 0},
        "axes of data after the batch; found D = [2, 3], K = 3, batch = 0",
    ),
    "batches": (
        "gather_nd",
        {"D": (2, 3), "J": (4,), "K": 1},
        {"batch": 1},
        "batch axes of data and indices are the same",
    ),
    "updates": (
        "scatter_nd",
        {"D": (2, 3), "J": (4,), "K": 1, "U": (4, 2)},
        {},
        "updates have the extents J, then what is left of D; found U = [4, 2], J = [4]",
    ),
    "add-bools": ("scatter_nd", {"E": "bool"}, {"reduction": "add"}, "defined for the elements"),
    "cache": ("tensor_scatter", {"D": (8, 4), "U": (9, 4)}, {}, "or fewer along axis"),
    "places": ("sum_into", {"places_data": 3}, {"size": 3}, "places are from -1 to size - 1"),
    "picked-places": ("pick", {"places_data": 9}, {}, "places lie inside their axes of x"),
    "resampled-places": ("resample", {"places_data": -1}, {}, "places lie inside axis of x"),
    "topk": ("topk", {"S": (2, 3)}, {"k": 4, "axis": 1}, "axis has k elements"),
    "argmax": ("argmax", {"S": (2, 0)}, {"axis": 1}, "axis has an element"),
    "lengths": ("reverse_sequence", {"L": 4}, {}, "one length for each sample"),
    "reshape": ("reshape", {"S": (2, 3)}, {"shape": (4, 2)}, "as many elements as x"),
    "expand": ("expand", {"S": (2, 3)}, {"shape": (4, 3)}, "broadcast"),
    "slice": ("slice", {}, {"starts": (2, 0), "steps": (1, 1), "sizes": (3, 5)}, "lie inside S"),
    "pad-nothing": (
        "pad",
        {"S": (0,)},
        {"before": (1,), "after": (0,), "mode": "edge"},
        "padded by a constant",
    ),
    "pad-by-many": ("pad", {"value": (3,)}, {}, "value is one number"),
    "groups": ("conv", {"OC": 5, "C": 4}, {"groups": 2}, "output channels fall into groups"),
    "window": ("conv", {"K": (7, 3)}, {}, "the window fits into x with its padding"),
    "no-window": ("conv", {"K": (0, 3)}, {}, "the window has a place"),
    "reach": ("conv", {}, {"dilations": (LIMIT, 1)}, "add up to at most 2147483647"),
    "reach-back": ("conv_transpose", {}, {"strides": (LIMIT, 1)}, "add up to at most 2147483647"),
    "wide-padding": (
        "max_pool",
        {},
        {"pads_before": (3, 0)},
        "padding is narrower than the window",
    ),
    "window-outside": ("max_pool", {}, {"out_spatial": (9, 4)}, "every window begins inside x"),
    "channels-of-norm": ("group_norm", {"scale": (1,)}, {}, "number for each channel"),
    "row-of-norm": ("layer_norm", {"scale": (3,)}, {}, "number for each place of a row"),
    "wide-lrn": ("lrn", {}, {"size": LIMIT}, "C + size is at most 2147483647"),
    "scales": ("qconv", {"scale": (4,)}, {}, "one for each output channel"),
    "bounds": ("qmatmul", {}, {"to": "int8"}, "y_zero, low and high"),
    "turned-bounds": ("qadd", {}, {"low": 3, "high": 2}, "low is not above high"),
    "volume": ("grid_sample", {"S": (4, 5, 6), "P": 3}, {"mode": "cubic"}, "volumes"),
    "offsets": ("deform_columns", {"P": 35}, {}, "two offsets for each place"),
    "mask": ("deform_columns", {"Q": 17}, {}, "the mask has a number for each place"),
    "tree-features": ("forest", {"features_data": 9, "F": 9}, {}, "features are columns of x"),
    "tree-nodes": ("forest", {"M": 2}, {}, "nodes lead to later nodes"),
    "tree-leaves": ("forest", {"leaves_data": 3, "L": 3}, {}, "leaves are rows of values"),
    "tree-roots": ("forest", {"roots_data": 1}, {}, "roots are nodes"),
    "tree-targets": ("forest", {"targets_data": 1}, {}, "targets have places for C numbers"),
    "pairs": ("couple_pairs", {"P": 5}, {}, "a number for each pair of classes"),
    "blocks-of-row": ("matmul_blocks", {"K": 70}, {}, "G blocks are a row"),
    "bytes-of-block": ("matmul_blocks", {}, {"bits": 8}, "B bytes are a block"),
    "bits": ("matmul_blocks", {}, {"bits": 3}, "bits are 2, 4 or 8"),
    "odd-block": ("matmul_blocks", {}, {"block": 40}, "blocks are whole sixteens"),
    "activations": ("lstm", {}, {"activations": ()}, "activations has 3 rows"),
}


@pytest.mark.parametrize("op, extents, attrs, sentence", MISFITS.values(), ids=MISFITS)
def test_broken_rule_is_reported(op, extents, attrs, sentence):
    wrong = sample(op, {**extents, **attrs})
    with pytest.raises(ValueError) as caught:
        OPS[op].infer(wrong.types, wrong.attrs, wrong.data)
    assert sentence in str(caught.value)


def operand_types():
    """Return every pointwise operator with every element type that it supports."""
    for name, op in sorted(OPS.items()):
        if op.kind == POINTWISE and isinstance(op, PointwiseOp):
            for dtype in DTYPES.values():
                if op.template(dtype) is not None:
                    yield pytest.param(op, dtype, id=f"{name}-{dtype}")


@pytest.mark.parametrize("op, dtype", list(operand_types()))
def test_value_on_constants_has_the_inferred_type(op, dtype):
    right = sample(op.name, {"E": dtype})
    arrays = [np.ones(t.shape, t.dtype.numpy) for t in right.types]
    (inferred,) = op.infer(right.types, right.attrs)
    with np.errstate(divide="ignore"):
        (value,) = op.evaluate(arrays, right.attrs)
    assert (value.shape, value.dtype) == (inferred.shape, inferred.dtype.numpy)


def test_constant_nodes_are_folded():
    graph = Graph("g")
    b = Builder(graph)
    total = b.emit("add", [b.const(np.float32(2)), b.const(np.float32(3))])
    assert total.data == 5
    assert not graph.nodes


def test_huge_constants_stay_nodes():
    graph = Graph("g")
    b = Builder(graph)
    wide = b.emit("expand", [b.const(np.float32(2))], shape=(1 << 14, 1 << 13))
    assert wide.data is None
    assert [n.op for n in graph.nodes] == ["expand"]


def test_power_of_integers():
    rows = [(2, 10, 1024), (-2, 3, -8), (3, -1, 0), (-1, -3, -1), (1, -5, 1), (0, 0, 1)]
    for base, exponent, power in rows:
        (value,) = get_op("pow").evaluate([np.array(base), np.array(exponent)], {})
        assert value == power

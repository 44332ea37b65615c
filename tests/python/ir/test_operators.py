"""Typing rules of the operators, and their values on constants."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tvmrt.ir import DTYPES, Builder, Graph, TensorType, Value, get_op
from tvmrt.ir.op import OPS, POINTWISE
from tvmrt.ir.pointwise import PointwiseOp

F32, I64, BOOL = (DTYPES[n] for n in ("float32", "int64", "bool"))


def tensor(*shape, dtype=F32):
    return TensorType(shape, dtype)


MISFITS = {
    "add-types": ("add", [tensor(2), tensor(2, dtype=I64)], {}, "different element types"),
    "add-shapes": ("add", [tensor(2), tensor(3)], {}, "do not broadcast"),
    "exp-of-integers": ("exp", [tensor(2, dtype=I64)], {}, "not defined for int64"),
    "and-of-floats": ("logical_and", [tensor(2), tensor(2)], {}, "not defined for float32"),
    "bit-cast": ("bit_cast", [tensor(2)], {"to": "int64"}, "do not make up"),
    "concat": ("concat", [tensor(2, 3), tensor(2, 4)], {"axis": 0}, "cannot be joined"),
    "gather-axis": ("gather", [tensor(2), tensor(1, dtype=I64)], {"axis": 1}, "axis 1"),
    "gather-floats": ("gather", [tensor(2), tensor(1)], {"axis": 0}, "int32 or int64"),
    "elements": (
        "gather_elements",
        [tensor(2, 3), tensor(2, 4, dtype=I64)],
        {"axis": 0},
        "do not fit into",
    ),
    "tuples": (
        "gather_nd",
        [tensor(2, 3), tensor(4, 3, dtype=I64)],
        {"batch": 0},
        "tuples of 3 indices",
    ),
    "batches": (
        "gather_nd",
        [tensor(2, 3), tensor(4, 1, dtype=I64)],
        {"batch": 1},
        "do not share 1 batch axes",
    ),
    "updates": (
        "scatter_nd",
        [tensor(2, 3), tensor(4, 1, dtype=I64), tensor(4, 2)],
        {"reduction": "none"},
        "updates .* do not fit",
    ),
    "reduction": (
        "scatter_nd",
        [tensor(2, 3), tensor(4, 1, dtype=I64), tensor(4, 3)],
        {"reduction": "mean"},
        "is not one of",
    ),
    "cache": (
        "tensor_scatter",
        [tensor(2, 8, 4), tensor(2, 9, 4), tensor(2, dtype=I64)],
        {"axis": 1, "circular": False},
        "does not fit",
    ),
    "topk": ("topk", [tensor(2, 3)], {"k": 4, "axis": 1, "largest": 1}, "has 3 elements"),
    "argmax": (
        "argmax",
        [tensor(2, 0)],
        {"axis": 1, "keepdims": 1, "select_last": 0},
        "empty axis",
    ),
    "det": ("det", [tensor(2, 3)], {}, "square matrices"),
    "running-bool": (
        "cumulative_sum",
        [tensor(2, dtype=BOOL)],
        {"axis": 0, "exclusive": 0, "reverse": 0},
        "not bool",
    ),
    "lengths": (
        "reverse_sequence",
        [tensor(4, 3), tensor(2, dtype=I64)],
        {"batch_axis": 1, "time_axis": 0},
        "one length for each sample",
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_misfit_is_a_sentence(name):
    op, types, attrs, what = MISFITS[name]
    with pytest.raises(ValueError, match=what):
        get_op(op).infer(types, attrs)


def operand_types():
    """Every pointwise operator with every element type that it is defined for."""
    for name, op in sorted(OPS.items()):
        if op.kind == POINTWISE and isinstance(op, PointwiseOp):
            for dtype in DTYPES.values():
                if op.template(dtype) is not None:
                    yield pytest.param(op, dtype, id=f"{name}-{dtype}")


@pytest.mark.parametrize("op, dtype", list(operand_types()))
def test_value_on_constants_has_the_inferred_type(op, dtype):
    count = 1 + max(int(n) for text in op.c.values() for n in re.findall(r"{(\d)}", text))
    attrs = {"positive": 1, "negative": 0} if op.name == "is_inf" else {}
    ones = np.ones((2, 3), dtype.numpy)
    arrays = [ones.astype(bool)] * op.data_from + [ones] * (count - op.data_from)
    types = [TensorType(a.shape, DTYPES[a.dtype.name]) for a in arrays]
    (inferred,) = op.infer(types, attrs)
    with np.errstate(divide="ignore"):
        (value,) = op.evaluate(arrays, attrs)
    assert (value.shape, value.dtype) == (inferred.shape, inferred.dtype.numpy)


def test_nodes_of_constants_vanish():
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


@pytest.mark.parametrize(
    "base, exponent, power",
    [(2, 10, 1024), (-2, 3, -8), (3, -1, 0), (-1, -3, -1), (1, -5, 1), (0, 0, 1)],
)
def test_power_of_integers(base, exponent, power):
    (value,) = get_op("pow").evaluate([np.array(base), np.array(exponent)], {})
    assert value == power


def test_windows_of_axes_name_the_axis():
    value = Value("x", tensor(4))
    with pytest.raises(ValueError, match="outside an extent of 4"):
        get_op("slice").infer([value.type], {"starts": [2], "steps": [1], "sizes": [3]})

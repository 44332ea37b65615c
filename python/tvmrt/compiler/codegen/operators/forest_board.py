"""Forests on microcontrollers: narrow tables, and leaf values in fixed point."""

from __future__ import annotations

import math

import numpy as np

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.dtype import to_integers

from ..c.formatting import call
from ..c.initializers import float_literal, print_struct
from ..c.writer import FunctionWriter
from .forest_tables import Tables, largest_leaves

_LARGEST = 2**31 - 1


def supports(node: Node, tables: Tables) -> bool:
    """Return whether the tables fit 16 bits and all summands are finite floats."""
    narrow = max(tables.keys, int(tables.steps.max(initial=0))) <= 1 << 16
    sums = node.attrs["aggregate"] in ("sum", "average") and tables.values.shape[0] > 0
    finite = bool(np.isfinite(tables.values).all() and np.isfinite(node.inputs[9].data).all())
    return node.inputs[0].dtype.name == "float32" and narrow and sums and finite


def _fraction_bits(tables: Tables, base: np.ndarray) -> int:
    """Return the maximum fraction bits with which no sum over the trees overflows 32 bits."""
    largest = np.abs(tables.values.astype(np.float64)).max(axis=1, initial=0.0)[tables.leaves]
    left = np.arange(tables.steps.size) + tables.steps
    of_trees = largest_leaves(left, tables.roots, largest)
    total = float(of_trees.sum() + np.abs(base).max(initial=0.0))
    limit = _LARGEST - tables.roots.size - 1  # reserve for rounding of each summand
    return 30 if total == 0.0 else math.floor(math.log2(limit / total))


def _smallest_int_array(array: np.ndarray) -> np.ndarray:
    return array.astype(np.uint8 if array.max(initial=0) < 1 << 8 else np.uint16)


def emit(f: FunctionWriter, node: Node, tables: Tables, x: str) -> None:
    """Print the call; ``x`` is the pointer to the rows."""
    trees = max(tables.roots.size, 1) if node.attrs["aggregate"] == "average" else 1
    base = node.inputs[9].data.astype(np.float64) * trees
    bits = _fraction_bits(tables, base)
    rows = to_integers(np.round(np.ldexp(tables.values.astype(np.float64), bits)), np.int32)
    single = rows.shape[1] == 1
    payload = rows[tables.leaves, 0] if single else tables.leaves
    keys = np.where(tables.steps == 0, payload, tables.thresholds).astype(np.int32)
    columns, steps = _smallest_int_array(tables.features), _smallest_int_array(tables.steps)
    kind = f"u{8 * columns.itemsize}_u{8 * steps.itemsize}"

    def print_array(name: str, array: np.ndarray | None) -> str:
        return "NULL" if array is None else f.constant(name, array)

    f.include("board/forest.h")
    fields = {
        "keys": print_array("keys", keys),
        "columns": print_array("columns", columns),
        "steps": print_array("steps", steps),
        "rows": print_array("rows", None if single else rows),
        "roots": print_array("roots", tables.roots),
        "targets": print_array("targets", tables.targets if tables.targets.any() else None),
        "base": print_array("base", to_integers(np.round(np.ldexp(base, bits)), np.int32)),
        "inputs": print_array("inputs", tables.inputs),
        "x_columns": node.inputs[0].shape[1],
        "features": tables.features_read,
        "nan_left": int(tables.nan != "RIGHT"),
        "nan_right": int(tables.nan != "LEFT"),
        "trees": tables.roots.size,
        "width": rows.shape[1],
        "outputs": node.output.shape[1],
        "unit": float_literal(math.ldexp(1.0, -bits) / trees),
    }
    print_struct(f, f"const tvmrt_board_forest_{kind} forest", fields)
    called = call(f"tvmrt_board_forest_run_{kind}", "&forest", x, f.write(), node.output.shape[0])
    f.result(called)

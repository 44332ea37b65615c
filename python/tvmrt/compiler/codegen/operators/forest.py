"""Forests of decision trees: their tables and the kernel call."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir import Node
from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.sizes import upper_bound

from ..c.formatting import call
from ..c.initializers import print_struct
from ..c.inputs import input_pointer
from ..c.writer import FunctionWriter
from ..kernel_features import BOARD_KERNELS
from ..loops.loop_nest import task_range
from ..lowering import Lowering, Scratch, lowers
from . import forest_board
from .forest_tables import Tables, make_tables

PARALLEL_TREES = 8  # TVMRT_FOREST_WALKS
_FOLDS = {"sum": "SUM", "average": "SUM", "min": "MIN", "max": "MAX"}


@lowers("forest")
class ForestLowering(Lowering):
    """Evaluation of all trees; tasks split the rows."""

    def __init__(self, group, target) -> None:
        super().__init__(group, target)
        self.tables = make_tables(self.node)

    def macs(self) -> int:
        return upper_bound(self.node.output.shape[0]) * int(self.tables.depths.sum())

    def scratch(self, step: Step) -> Scratch:
        rows = 1 if upper_bound(self.node.output.shape[0]) < PARALLEL_TREES else PARALLEL_TREES
        key = self.node.inputs[0].dtype.itemsize
        block = rows * (8 * self.node.output.shape[1] + key * (self.tables.keys + 1))
        return Scratch(kernel_blocks=(block,))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        node, tables = self.node, self.tables
        if BOARD_KERNELS.of(self.target) and forest_board.supports(node, tables):
            x = input_pointer(f, 0, "x")
            forest_board.emit(f, node, tables, x)
            return
        kind = "f32" if node.inputs[0].dtype.bits == 32 else "f64"
        f.include("op/forest.h")
        print_struct(f, f"const tvmrt_forest_{kind} forest", _fields(f, node, tables))
        begin, end = task_range(f, node.output.shape[0], self.macs())
        x = input_pointer(f, 0, "x")
        f.result(call(f"tvmrt_forest_run_{kind}", "&forest", x, f.write(), begin, end))


def _fields(f: FunctionWriter, node: Node, tables: Tables) -> dict[str, object]:
    trees = tables.roots.size
    padding = (0, round_up(trees, PARALLEL_TREES) - trees)
    aggregate = node.attrs["aggregate"]

    def print_array(name: str, array: np.ndarray | None) -> str:
        return "NULL" if array is None else f.constant(name, array)

    return {
        "nodes": print_array("nodes", tables.nodes()),
        "values": print_array("values", None if tables.values.shape[1] == 1 else tables.values),
        "roots": print_array("roots", np.pad(tables.roots, padding, "edge")),
        "depths": print_array("depths", np.pad(tables.depths, padding, "edge")),
        "targets": print_array("targets", tables.targets if tables.targets.any() else None),
        "base": print_array("base", node.inputs[9].data),
        "inputs": print_array("inputs", tables.inputs),
        "columns": node.inputs[0].shape[1],
        "features": tables.features_read,
        "feature_bits": tables.feature_bits,
        "nan": f"TVMRT_FOREST_NAN_{tables.nan}",
        "trees": trees,
        "width": tables.values.shape[1],
        "outputs": node.output.shape[1],
        "fold": f"TVMRT_FOREST_{_FOLDS[aggregate]}",
        "divisor": max(trees, 1) if aggregate == "average" else 1,
    }

"""Class probabilities from pairwise SVM probabilities."""

from __future__ import annotations

from tvmrt.compiler.ir.program import Step

from ..c.writer import FunctionWriter
from ..lowering import Lowering, Scratch, lowers


@lowers("couple_pairs")
class SvmPairwiseLowering(Lowering):
    """Pairwise coupling, one row at a time."""

    def scratch(self, step: Step) -> Scratch:
        classes = self.node.attrs["classes"]
        return Scratch(4 * classes * (classes + 1))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/svm_pairwise.h")
        rows, classes = self.node.output.shape
        pairs = self.node.inputs[0].shape[1]
        scratch = f"(float *)(void *){f.scratch()}"
        i = f.fresh("i")
        with f.loop(i, rows):
            x, y = f"{f.read(0)} + {i} * {pairs}", f"{f.write()} + {i} * {classes}"
            f.line(f"tvmrt_svm_pairwise_f32({x}, {classes}, {y}, {scratch});")

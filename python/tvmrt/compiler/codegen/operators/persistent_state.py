"""Initialisation of state that persists between runs."""

from __future__ import annotations

import numpy as np

from tvmrt.compiler.ir.program import Step

from ..c.writer import FunctionWriter
from ..lowering import Lowering, lowers


@lowers("begin_state")
class BeginStateLowering(Lowering):
    """Copy of the initial values in the first run and after a reset."""

    in_memory = ()

    def emit(self, step: Step, f: FunctionWriter) -> None:
        mark = f.name_write(0, "mark")
        with f.block(f"if (*{mark} == 0)"):
            for i, first in enumerate(self.node.inputs, 1):
                _fill(f, f.write(i), np.ascontiguousarray(first.data), f"first{i - 1}")
            f.line(f"*{mark} = 1;")


def _fill(f: FunctionWriter, target: str, data: np.ndarray, name: str) -> None:
    elements = np.frombuffer(data.tobytes(), np.uint8)
    if not elements.size:
        return
    if (elements == elements[0]).all():
        f.line(f"memset({target}, {elements[0]}, {elements.size});")
    else:
        f.line(f"memcpy({target}, {f.constant(name, data.reshape(-1))}, {elements.size});")

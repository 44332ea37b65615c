"""Copies of blocks in explicitly printed loops."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.ir import DType, get_op
from tvmrt.compiler.ir.sizes import upper_bound

from ..c.formatting import byte_size
from ..c.writer import FunctionWriter
from ..loops.loop_nest import index, merge_loops, open_loops


class StridedBlock:
    """Elements of two operands over some axes, visited together.

    ``strides`` holds the target's and the source's stride by axis.
    """

    def __init__(
        self, shape: Sequence[int], target: Sequence[int], source: Sequence[int], dtype: DType
    ) -> None:
        order = sorted(range(len(shape)), key=lambda d: -upper_bound(abs(target[d])))
        self.loops = merge_loops(shape, order, [target, source])
        self.dtype = dtype

    @property
    def contiguous(self) -> bool:
        return all(loop.strides == (1, 1) for loop in self.loops) and len(self.loops) <= 1

    @property
    def count(self) -> int:
        """Number of elements of a contiguous block."""
        return self.loops[0].extent if self.loops else 1

    def copy(self, f: FunctionWriter, target: str, source: str) -> None:
        """Print the copy of one block between two pointer expressions."""
        if self.contiguous and self.count == 1:
            f.line(f"*({target}) = *({source});")
        elif self.contiguous:
            f.line(f"memcpy({target}, {source}, {byte_size(self.count, self.dtype.c)});")
        else:
            self._each(f, target, source, "{y} = {x};")

    def join(self, f: FunctionWriter, target: str, source: str, reduction: str) -> None:
        """Print ``target = target op source`` for one block."""
        if reduction == "none":
            self.copy(f, target, source)
            return
        value = get_op(reduction).render(self.dtype, ["{y}", "{x}"], {})
        f.include(value.header)
        self._each(f, target, source, f"{{y}} = {value.text};")

    def _each(self, f: FunctionWriter, target: str, source: str, statement: str) -> None:
        names = [f.fresh(f"e{k}") for k in range(len(self.loops))]
        to, of = f.fresh("to"), f.fresh("of")
        f.line(f"{self.dtype.c} *{to} = {target};")
        f.line(f"const {self.dtype.c} *{of} = {source};")
        with open_loops(f, self.loops, names):
            y, x = (f"{p}[{index(self.loops, names, i)}]" for i, p in enumerate((to, of)))
            f.line(statement.format(x=x, y=y))

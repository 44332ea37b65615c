"""Operators on dynamic operands: elements at computed indices, and checks of run-time values."""

from __future__ import annotations

from tvmrt.compiler.ir.data_dependent_dims import SIZES_AT_WHICH
from tvmrt.compiler.ir.program import Step
from tvmrt.error import SizeConditionError

from ..c.formatting import call, wrap
from ..c.initializers import print_array
from ..c.inputs import value_pointer
from ..c.writer import FunctionWriter, c_string, comment_text, error_location
from ..lowering import Lowering, lowers


@lowers("take_at")
class TakeAtLowering(Lowering):
    """Elements at dynamic indices: one kernel call, which loops over rows of the last axis."""

    in_memory = ()

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/dynamic_operands.h")
        x, value, *tables = self.node.inputs
        data, fill = value_pointer(f, x, "x"), value_pointer(f, value, "value")
        names = [value_pointer(f, t, f"places{d}") for d, t in enumerate(tables)]
        extents = print_array(f, "int64_t", "extents", x.shape, f.storage)
        counts = print_array(f, "int64_t", "counts", self.node.output.shape, f.storage)
        for line in wrap("const int64_t *const places[] = ", names, ";", brackets="{}"):
            f.line(line)
        rank = len(names)
        f.line(f"int64_t at[{rank}];")
        where = error_location(self.node, "places")
        size = f"sizeof({x.dtype.c})"
        arguments = [data, fill, f.write(), size, rank, extents, counts, "places", "at", where]
        f.result(call("tvmrt_take_at", *arguments))


@lowers("require")
class RequireLowering(Lowering):
    """Check of a run-time value in one call. The error names the operator as in the network."""

    in_memory = ()

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/dynamic_operands.h")
        actual, given = self.node.inputs
        pointers = [value_pointer(f, actual, "found"), value_pointer(f, given, "given")]
        attrs = self.node.attrs
        values = attrs["expected"] or (0,)
        expected = print_array(f, "int64_t", "expected", values, f.storage)
        is_of_sizes = attrs["text"].startswith(SIZES_AT_WHICH)
        kind = SizeConditionError.__name__ if is_of_sizes else "ValueError"
        where = c_string(f"{kind}: {comment_text(attrs['where'])}")
        count, shown = actual.type.size, given.type.size
        arguments = [pointers[0], expected, count, pointers[1], shown, where]
        f.line(f"*{f.write()} = 1;")
        f.result(call("tvmrt_require", *arguments, c_string(attrs["text"])))

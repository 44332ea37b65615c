"""Operators along one axis (argmax, cumulative sums, top-k), and determinants."""

from __future__ import annotations

from tvmrt.compiler.ir import Strided
from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.sizes import sym_max

from ...ir.program import ANY
from ..c.formatting import plus
from ..c.writer import FunctionWriter
from ..loops.loop_nest import Loop, emit_nest, index, merge_loops
from ..lowering import Lowering, ResultLayout, Scratch, lowers


def strides_without_axis(at: Strided, axis: int, keep: bool) -> tuple[int, ...]:
    """Return strides, by the axes of the input, of a result without the axis (or with extent 1)."""
    strides = list(at.strides)
    if not keep:
        strides.insert(axis, 0)
    strides[axis] = 0
    return tuple(strides)


def split_contiguous_rows(loops: list[Loop], step: int) -> tuple[list[Loop], int]:
    """Remove the innermost loop if its elements are contiguous and those along the axis are not;
    the kernel then works on rows of the returned width."""
    if loops and all(s == 1 for s in loops[-1].strides) and abs(step) != 1:
        return loops[:-1], loops[-1].extent
    return loops, 1


class AxisLowering(Lowering):
    """Base class: operands in any axis order; the result has the operand's order."""

    operand_demand = ANY

    @property
    def axis(self) -> int:
        return self.node.attrs["axis"]

    def result_layout(self, index: int, accesses) -> ResultLayout:
        return ResultLayout(accesses[self.node.inputs[0]].at.order())

    def outer_order(self, at: Strided) -> list[int]:
        return [d for d in at.order() if d != self.axis]


@lowers("argmax", "argmin")
class ArgReduceLowering(AxisLowering):
    def result_layout(self, index: int, accesses) -> ResultLayout:
        layout = super().result_layout(index, accesses)
        if self.node.attrs["keepdims"]:
            return layout
        return ResultLayout(tuple(d - (d > self.axis) for d in layout.order if d != self.axis))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/argmax.h")
        at, out = step.reads[0].at, step.writes[0].at
        x, y, node = f.read(0), f.write(), self.node
        count, stride = at.shape[self.axis], at.strides[self.axis]
        strides = [at.strides, strides_without_axis(out, self.axis, bool(node.attrs["keepdims"]))]
        loops = merge_loops(at.shape, self.outer_order(at), strides)
        loops, width = split_contiguous_rows(loops, stride)
        name = node.inputs[0].dtype.name
        last = int(node.attrs["select_last"])

        def body(names) -> None:
            source, target = index(loops, names, 0), index(loops, names, 1)
            if width == 1:
                call = f"tvmrt_{node.op}_{name}({plus(x, source)}, {count}, {stride}, {last})"
                f.line(f"{y}[{target}] = {call};")
            else:
                f.line(
                    f"tvmrt_{node.op}_rows_{name}({plus(x, source)}, {plus(y, target)}, "
                    f"{count}, {stride}, {width}, {last});"
                )

        emit_nest(f, loops, body, at.size)


@lowers("cumulative_sum", "cumulative_product")
class CumulativeLowering(AxisLowering):
    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/cumsum.h")
        at, out = step.reads[0].at, step.writes[0].at
        attrs = self.node.attrs
        count, steps = at.shape[self.axis], [at.strides[self.axis], out.strides[self.axis]]
        loops = merge_loops(at.shape, self.outer_order(at), [at.strides, out.strides])
        loops, width = split_contiguous_rows(loops, steps[0])
        kind = "sum" if self.node.op == "cumulative_sum" else "product"
        function = f"tvmrt_cumulative_{kind}_{self.node.inputs[0].dtype.name}"
        starts = ["0", "0"]
        if attrs["reverse"]:
            starts = [str(sym_max(count - 1, 0) * s) for s in steps]
            steps = [-s for s in steps]

        def body(names) -> None:
            source = plus(f.read(0), index(loops, names, 0), starts[0])
            target = plus(f.write(), index(loops, names, 1), starts[1])
            f.line(
                f"{function}({source}, {target}, {count}, {steps[0]}, {steps[1]}, {width}, "
                f"{int(attrs['exclusive'])});"
            )

        emit_nest(f, loops, body, at.size)


@lowers("topk")
class TopKLowering(AxisLowering):
    def result_layout(self, index: int, accesses) -> ResultLayout:
        return super().result_layout(index, accesses)._replace(demand=ANY)

    def scratch(self, step: Step) -> Scratch:
        return Scratch(sym_max(4 * self.node.attrs["k"], 4))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/topk.h")
        at = step.reads[0].at
        values, places = (w.at for w in step.writes)
        f.name_write(0, "values")
        f.name_write(1, "indices")
        heap = f"(int32_t *)(void *){f.scratch()}"
        loops = merge_loops(
            at.shape, self.outer_order(at), [at.strides, values.strides, places.strides]
        )
        attrs, axis = self.node.attrs, self.axis
        name = self.node.inputs[0].dtype.name

        def body(names) -> None:
            source, value, place = (index(loops, names, i) for i in range(3))
            f.line(
                f"tvmrt_topk_{name}({plus(f.read(0), source)}, {at.strides[axis]}, "
                f"{at.shape[axis]}, {attrs['k']}, {int(attrs['largest'])}, {heap},"
            )
            f.line(
                f"    {plus(f.write(0), value)}, {values.strides[axis]}, "
                f"{plus(f.write(1), place)}, {places.strides[axis]});"
            )

        emit_nest(f, loops, body, 0)  # 0: one thread, as all rows share the scratch


@lowers("det")
class DeterminantLowering(Lowering):
    def scratch(self, step: Step) -> Scratch:
        x = self.node.inputs[0]
        return Scratch(max(x.shape[-1] * x.shape[-1] * x.dtype.itemsize, 1))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/determinant.h")
        x = self.node.inputs[0]
        n, count = x.shape[-1], self.node.output.type.size
        scratch = f"({x.dtype.c} *)(void *){f.scratch()}"
        i = f.fresh("i")
        with f.loop(i, count):
            call = f"tvmrt_det_{x.dtype.name}({f.read(0)} + {i} * {n * n}, {scratch}, {n})"
            f.line(f"{f.write()}[{i}] = {call};")

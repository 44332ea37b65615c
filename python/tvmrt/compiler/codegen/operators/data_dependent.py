"""Operators with data-dependent output sizes."""

from __future__ import annotations

from math import prod

from tvmrt.compiler.ir.program import Step
from tvmrt.compiler.ir.sizes import sym_max

from ..c.initializers import print_array, print_layer, print_struct
from ..c.inputs import input_pointer, input_pointers
from ..c.writer import FunctionWriter
from ..lowering import Lowering, Scratch, lowers


@lowers("nonzero")
class NonzeroLowering(Lowering):
    """One pass until the last non-zero element is found."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/nonzero.h")
        x, shape = self.node.inputs[0], f.fresh("shape")
        pointer = input_pointer(f, 0, "x")
        shape = print_array(f, "int32_t", shape, x.shape, f.storage)
        passed = f"{pointer}, {len(x.shape)}, {shape}, {self.node.attrs['count']}, {f.write()}"
        f.line(f"tvmrt_nonzero_{x.dtype.name}({passed});")


@lowers("choice")
class SelectTensorLowering(Lowering):
    """Copy of one of two tensors."""

    def emit(self, step: Step, f: FunctionWriter) -> None:
        pointers = input_pointers(f, "condition", "a", "b")
        condition, y = pointers[0], f.write()
        head = f"if (*{condition})"
        for value, pointer in zip(self.node.inputs[1:], pointers[1:]):
            with f.block(head):
                f.line(f"memcpy({y}, {pointer}, {value.type.size} * sizeof({value.dtype.c}));")
            head = "else"


@lowers("unique", "unique_equal_nan")
class UniqueLowering(Lowering):
    """Sort of indices by their slices, then a pass over adjacent ones."""

    def scratch(self, step: Step) -> Scratch:
        return Scratch(sym_max(12 * self.node.outputs[0].type.size, 4))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/unique.h")
        x, axis = self.node.inputs[0], self.node.attrs["axis"]
        fields = {
            "outer": prod(x.shape[:axis]),
            "count": x.shape[axis],
            "inner": prod(x.shape[axis + 1 :]),
            "sorted": int(self.node.attrs["sorted"]),
        }
        if self.node.op == "unique_equal_nan":
            fields["equal_nan"] = 1
        layer = print_layer(f, "tvmrt_unique_layer", fields)
        pointer = input_pointer(f, 0, "x")
        first, inverse, counts, kept = (
            f.name_write(i, name) for i, name in enumerate(("first", "inverse", "counts", "kept"))
        )
        scratch = f"(int32_t *)(void *){f.scratch()}"
        f.line(f"*{kept} = tvmrt_unique_{x.dtype.name}(&{layer}, {pointer}, {scratch},")
        f.line(f"    {first}, {inverse}, {counts});")


@lowers("non_max_suppression")
class NonMaxSuppressionLowering(Lowering):
    """One heap of boxes per class."""

    def scratch(self, step: Step) -> Scratch:
        return Scratch(sym_max(4 * self.node.inputs[0].shape[1], 4))

    def emit(self, step: Step, f: FunctionWriter) -> None:
        f.include("op/nms.h")
        names = ("boxes", "scores", "most", "overlap", "score")
        boxes, scores, limit, overlap, score = input_pointers(f, *names)
        batch, classes, count = self.node.inputs[1].shape
        print_struct(
            f,
            "const tvmrt_nms_layer layer",
            {
                "batch": batch,
                "classes": classes,
                "boxes": count,
                "centred": int(self.node.attrs["centred"]),
                "max_boxes": f"*{limit}",
                "rows": self.node.attrs["rows"],
                "overlap": f"*{overlap}",
                "score": f"*{score}",
            },
        )
        selected, kept = f.name_write(0, "selected"), f.name_write(1, "kept")
        heap = f"(int32_t *)(void *){f.scratch()}"
        f.line(f"*{kept} = tvmrt_nms(&layer, {boxes}, {scores}, {heap}, {selected});")

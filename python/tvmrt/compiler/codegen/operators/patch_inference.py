"""Patch-based inference: layers of a chain as steps over some of their columns.

A patch of the last layer's columns needs, in each earlier layer, the columns under its windows.
The columns of adjacent patches overlap; recomputing them is the surplus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvmrt.compiler.ir import Node, Trait, Value
from tvmrt.compiler.ir.program import Access, Group, Step, Strided, pixel_stride
from tvmrt.compiler.ir.tensor_type import TensorType
from tvmrt.compiler.planner.row_fusion_schedule import OUTSIDE, ChainPlan, RowLayer, RowSources

from ..lowering_protocols import RowCosts


@dataclass(frozen=True)
class ColumnRange:
    """Columns [begin, end) of a tensor."""

    begin: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.begin

    def join(self, other: ColumnRange | None) -> ColumnRange:
        """Return the range that covers both."""
        if other is None:
            return self
        return ColumnRange(min(self.begin, other.begin), max(self.end, other.end))


@dataclass(frozen=True)
class ColumnWindow:
    """Columns of its input that a layer reads; ``is_identity``: exactly those that it writes."""

    in_columns: int
    out_columns: int
    window_columns: int = 1
    stride: int = 1
    pad: int = 0

    @property
    def is_identity(self) -> bool:
        same = self.in_columns == self.out_columns
        return same and (self.window_columns, self.stride, self.pad) == (1, 1, 0)

    def patch_padding(self, source: ColumnRange | None, out: ColumnRange) -> int:
        """Return the padding at the start if the input has columns ``source`` (None: all) and the
        result starts with the first of ``out``."""
        begin = 0 if source is None else source.begin
        return self.pad + begin - out.begin * self.stride

    def input_columns(self, out: ColumnRange) -> ColumnRange:
        """Return the input columns for these columns of the result."""
        begin = out.begin * self.stride - self.pad
        end = (out.end - 1) * self.stride - self.pad + self.window_columns
        return ColumnRange(max(begin, 0), min(end, self.in_columns))


@dataclass(frozen=True)
class Patch:
    """Steps of a chain over some columns with their plan; the first column of each result, and
    whether each kernel itself locates the columns of its input."""

    steps: tuple[Step, ...]
    begins: tuple[int, ...]
    windowed: tuple[bool, ...]
    plan: ChainPlan


def single_patch(steps: Sequence[Step], plan: ChainPlan) -> Patch:
    """Return the only patch of a chain over whole rows."""
    count = len(steps)
    return Patch(tuple(steps), (0,) * count, (False,) * count, plan)


def column_window(step: Step) -> ColumnWindow | None:
    """Return the columns that a row-wise step reads; None if it cannot be split into patches."""
    node, y = step.group.root, step.writes[0]
    main = step.reads[step.lowering.row_operand(step)]
    if len(y.shape) != 4 or len(main.shape) != 4 or y.shape[2] == 1 or _varies_by_column(step):
        return None
    columns = main.shape[3], y.shape[3]
    if node.has(Trait.CONVOLUTION, Trait.POOL):
        kernel = node.attrs["kernel"] if node.has(Trait.POOL) else node.inputs[1].shape
        names = ("strides", "dilations", "pads_before")
        stride, dilation, pad = (node.attrs[name][-1] for name in names)
        return ColumnWindow(*columns, (kernel[-1] - 1) * dilation + 1, stride, pad)
    same_shape = all(access.shape == y.shape for access in step.reads)
    return ColumnWindow(*columns) if same_shape else None


def _varies_by_column(step: Step) -> bool:
    """Return whether constants vary by column, or nodes are fused before the root."""
    root = step.group.root
    own = root.inputs[1:] if root.has(Trait.CONVOLUTION) or root.op == "table" else []
    read = [v for n in step.group.nodes for v in n.inputs if v is not None and v not in own]
    constants = [v for v in read if v.is_constant and v.type.size != 1]
    return bool(step.group.before) or any(v.shape[-1] != 1 for v in constants)


def find_layer_columns(
    windows: Sequence[ColumnWindow], sources: Sequence[RowSources], last: ColumnRange
) -> list[ColumnRange] | None:
    """Return the columns of each layer's result for ``last``, columns of the last one; None if a
    layer needs none."""
    columns: list[ColumnRange | None] = [None] * len(windows)
    columns[-1] = last
    for k in range(len(windows) - 1, -1, -1):
        out = columns[k]
        if out is None:
            return None
        input_columns = windows[k].input_columns(out)
        if input_columns.count < 1:
            return None
        if sources[k].main != OUTSIDE:
            columns[sources[k].main] = input_columns.join(columns[sources[k].main])
        for added in sources[k].added:
            columns[added] = out.join(columns[added])
    return [each for each in columns if each is not None]


@dataclass(frozen=True)
class PatchLayer:
    """Step over some columns for the planner of chains: its row layer, multiply-adds and costs."""

    layer: RowLayer
    macs: int
    costs: RowCosts

    @classmethod
    def of(cls, step: Step, layer: RowLayer) -> PatchLayer:
        """Return the entry of a complete step."""
        return cls(layer, step.lowering.macs(), step.lowering.row_costs(step))


class PatchLayerCache:
    """Cache of layers over some of their columns."""

    def __init__(self) -> None:
        self._cache: dict[tuple[object, ...], PatchLayer | None] = {}

    def cut(
        self,
        steps: Sequence[Step],
        windows: Sequence[ColumnWindow],
        sources: Sequence[RowSources],
        columns: Sequence[ColumnRange],
    ) -> list[PatchLayer] | None:
        """Return the layers over these columns of their results; None if a kernel would write two
        rows at a time next to columns of other patches."""
        layers = []
        for k, (step, window) in enumerate(zip(steps, windows)):
            source = None if sources[k].main == OUTSIDE else columns[sources[k].main]
            cut = self._layer(step, window, source, columns[k])
            if cut is None:
                return None
            over = not window.is_identity or source == columns[k]
            over = over and cut.layer.may_overwrite_input
            layer = replace(cut.layer, may_overwrite_input=over, max_rows=1)
            if layer.step > 1 and (k == len(steps) - 1 or sources[k].added):
                return None
            layers.append(replace(cut, layer=layer))
        return layers

    def _layer(
        self, step: Step, window: ColumnWindow, source: ColumnRange | None, out: ColumnRange
    ) -> PatchLayer | None:
        width = None if source is None else source.count
        key = (id(step), width, out.count, window.patch_padding(source, out))
        if key not in self._cache:
            narrowed = narrow_step(step, window, source, out)
            layer = narrowed.lowering.row_layer(narrowed)
            self._cache[key] = None if layer is None else PatchLayer.of(narrowed, layer)
        return self._cache[key]


def make_patch(
    steps: Sequence[Step],
    windows: Sequence[ColumnWindow],
    columns: Sequence[ColumnRange],
    plan: ChainPlan,
) -> Patch:
    """Return the steps over these columns of their results."""
    mains = [source.main for source in plan.sources]
    narrowed = [
        narrow_step(step, window, None if main == OUTSIDE else columns[main], out)
        for step, window, main, out in zip(steps, windows, mains, columns)
    ]
    begins = tuple(each.begin for each in columns)
    return Patch(tuple(narrowed), begins, tuple(not window.is_identity for window in windows), plan)


def narrow_step(
    step: Step, window: ColumnWindow, source: ColumnRange | None, out: ColumnRange
) -> Step:
    """Return the step for columns ``out`` of its result, with columns ``source`` of its input in
    memory (None: all)."""
    main = step.lowering.row_operand(step)
    x, y = step.read_values[main], step.group.outputs[0]
    cloned = _NarrowedCopies(y.shape[2:], out.count)
    if not window.is_identity:
        cloned.copies[x] = x if source is None else _narrow(x, source.count)
    root = step.group.root
    group = Group(cloned.node(root), [], [cloned.node(n) for n in step.group.after])
    if not window.is_identity:
        _set_window(group.root, window.patch_padding(source, out), out.count)
    values = [cloned.value(v) for v in step.read_values]
    reads = [_access(a, v.shape) for a, v in zip(step.reads, values)]
    if not window.is_identity and source is None:
        reads[main] = step.reads[main]
    return replace(
        step,
        group=group,
        lowering=type(step.lowering)(group, step.lowering.target),
        read_values=values,
        reads=reads,
        writes=[_access(step.writes[0], group.outputs[0].shape)],
    )


def _set_window(root: Node, pad: int, columns: int) -> None:
    attrs = root.attrs
    attrs["pads_before"] = (*attrs["pads_before"][:-1], pad)
    if "out_spatial" in attrs:
        attrs["out_spatial"] = (*attrs["out_spatial"][:-1], columns)


def _narrow(value: Value, columns: int) -> Value:
    return Value(value.name, TensorType((*value.shape[:-1], columns), value.dtype))


def _access(access: Access, shape: Sequence[int]) -> Access:
    """Return an access to fewer columns of the same memory; rows of pixels are contiguous."""
    at, step = access.at, pixel_stride(access.at)
    if step is None:
        return Access(access.buffer, Strided(tuple(shape), at.strides, at.offset))
    strides = (shape[2] * shape[3] * step, 1, shape[3] * step, step)
    return Access(access.buffer, Strided(tuple(shape), strides, at.offset))


class _NarrowedCopies:
    """Copies of nodes with fewer columns in all tensors of the result's spatial shape."""

    def __init__(self, pixels: Sequence[int], columns: int) -> None:
        self.pixels, self.columns = tuple(pixels), columns
        self.copies: dict[Value, Value] = {}

    def value(self, value: Value) -> Value:
        if value.is_constant:
            return value
        if value not in self.copies:
            wide = value.type.rank == 4 and value.shape[2:] == self.pixels
            self.copies[value] = _narrow(value, self.columns) if wide else value
        return self.copies[value]

    def node(self, node: Node) -> Node:
        inputs = [None if v is None else self.value(v) for v in node.inputs]
        copy = Node(node.op, inputs, dict(node.attrs), node.name, node.sources, node.guard)
        copy.set_outputs([self.value(v) for v in node.outputs])
        return copy

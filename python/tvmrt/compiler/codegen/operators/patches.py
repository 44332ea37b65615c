"""Layers of a chain over some of their columns, a patch of the image, as steps of their own.

A patch of the last layer's columns needs columns of each layer before, those under its windows, of
which neighbouring patches need some both: what is computed twice is the surplus.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tvmrt.compiler.ir import Node, Value
from tvmrt.compiler.ir.graph import TensorType
from tvmrt.compiler.ir.program import Access, Group, Step, Strided, pixel_stride
from tvmrt.compiler.planner.row_chains import OUTSIDE, ChainPlan, RowLayer, RowSources

CONVOLUTIONS = ("conv", "qconv")
POOLS = ("max_pool", "avg_pool", "lp_pool", "qmax_pool", "qavg_pool", "qavg_pool_zero_first")


@dataclass(frozen=True)
class Columns:
    """Columns [begin, end) of a tensor."""

    begin: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.begin

    def join(self, other: Columns | None) -> Columns:
        """All columns from the first of both to the last."""
        if other is None:
            return self
        return Columns(min(self.begin, other.begin), max(self.end, other.end))


@dataclass(frozen=True)
class ColumnWindow:
    """Which columns of its input a layer reads; ``plain``: those that it writes, one for one."""

    in_columns: int
    out_columns: int
    reach: int = 1
    stride: int = 1
    pad: int = 0

    @property
    def plain(self) -> bool:
        same = self.in_columns == self.out_columns
        return same and (self.reach, self.stride, self.pad) == (1, 1, 0)

    def moved_pad(self, source: Columns | None, out: Columns) -> int:
        """The padding in front of columns ``source`` of the input, of all where it is None, for a
        result that begins with the first of ``out``."""
        begin = 0 if source is None else source.begin
        return self.pad + begin - out.begin * self.stride

    def needed(self, out: Columns) -> Columns:
        """Those for these columns of the result."""
        begin = out.begin * self.stride - self.pad
        end = (out.end - 1) * self.stride - self.pad + self.reach
        return Columns(max(begin, 0), min(end, self.in_columns))


@dataclass(frozen=True)
class Patch:
    """Steps of a chain over some columns, with their plan: the first column of each one's result,
    and whether its kernel looks for the columns of its input itself."""

    steps: tuple[Step, ...]
    begins: tuple[int, ...]
    windowed: tuple[bool, ...]
    plan: ChainPlan


def whole_rows(steps: Sequence[Step], plan: ChainPlan) -> Patch:
    """The only patch of a chain over whole rows."""
    count = len(steps)
    return Patch(tuple(steps), (0,) * count, (False,) * count, plan)


def column_window(step: Step) -> ColumnWindow | None:
    """Which columns a step reads that is computed by rows; None where patches of it cannot be."""
    node, y = step.group.root, step.writes[0]
    main = step.reads[step.lowering.row_operand(step)]
    if len(y.shape) != 4 or len(main.shape) != 4 or y.shape[2] == 1 or _differs(step):
        return None
    columns = main.shape[3], y.shape[3]
    if node.op in CONVOLUTIONS or node.op in POOLS:
        kernel = node.inputs[1].shape if node.op in CONVOLUTIONS else node.attrs["kernel"]
        names = ("strides", "dilations", "pads_before")
        stride, dilation, pad = (node.attrs[name][-1] for name in names)
        return ColumnWindow(*columns, (kernel[-1] - 1) * dilation + 1, stride, pad)
    alike = all(access.shape == y.shape for access in step.reads)
    return ColumnWindow(*columns) if alike else None


def _differs(step: Step) -> bool:
    """Whether what is constant differs by column, or what is computed before a window's layer."""
    root = step.group.root
    own = root.inputs[1:] if root.op in (*CONVOLUTIONS, "table") else []
    read = [v for n in step.group.nodes for v in n.inputs if v is not None and v not in own]
    known = [v for v in read if v.is_constant and v.type.size != 1]
    return bool(step.group.before) or any(v.shape[-1] != 1 for v in known)


def find_columns(
    windows: Sequence[ColumnWindow], sources: Sequence[RowSources], last: Columns
) -> list[Columns] | None:
    """The columns of each layer's result for some of the last one's; None where a layer would need
    none."""
    found: list[Columns | None] = [None] * len(windows)
    found[-1] = last
    for k in range(len(windows) - 1, -1, -1):
        out = found[k]
        if out is None:
            return None
        needed = windows[k].needed(out)
        if needed.count < 1:
            return None
        if sources[k].main != OUTSIDE:
            found[sources[k].main] = needed.join(found[sources[k].main])
        for added in sources[k].added:
            found[added] = out.join(found[added])
    return [each for each in found if each is not None]


@dataclass(frozen=True)
class CutLayer:
    """What the planner of chains is told of a step over some columns: how its rows follow from each
    other, its multiply-adds, its instructions and those that its kernel takes more than the one
    that is chosen elsewhere, and the bytes that its kernels take at a time."""

    layer: RowLayer
    macs: int
    work: int
    slower: int
    blocks: int

    @classmethod
    def of(cls, step: Step, layer: RowLayer) -> CutLayer:
        """That of a step as it is."""
        how = step.lowering
        numbers = how.macs(), how.row_work(step), how.row_surplus(step), sum(how.row_blocks(step))
        return cls(layer, *numbers)


class Cutter:
    """Layers over some of their columns, each shape once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], CutLayer | None] = {}

    def cut(
        self,
        steps: Sequence[Step],
        windows: Sequence[ColumnWindow],
        sources: Sequence[RowSources],
        columns: Sequence[Columns],
    ) -> list[CutLayer] | None:
        """The layers over these columns of their results; None where a kernel would make two rows
        at a time between columns that are not its own."""
        found = []
        for k, (step, window) in enumerate(zip(steps, windows)):
            source = None if sources[k].main == OUTSIDE else columns[sources[k].main]
            cut = self._layer(step, window, source, columns[k])
            if cut is None:
                return None
            over = cut.layer.over_input and (not window.plain or source == columns[k])
            layer = replace(cut.layer, over_input=over, most_rows=1)
            if layer.step > 1 and (k == len(steps) - 1 or sources[k].added):
                return None
            found.append(replace(cut, layer=layer))
        return found

    def _layer(
        self, step: Step, window: ColumnWindow, source: Columns | None, out: Columns
    ) -> CutLayer | None:
        width = None if source is None else source.count
        key = (id(step), width, out.count, window.moved_pad(source, out))
        if key not in self._known:
            made = cut_step(step, window, source, out)
            layer = made.lowering.row_layer(made)
            self._known[key] = None if layer is None else CutLayer.of(made, layer)
        return self._known[key]


def cut_patch(
    steps: Sequence[Step],
    windows: Sequence[ColumnWindow],
    columns: Sequence[Columns],
    plan: ChainPlan,
) -> Patch:
    """The steps over these columns of their results."""
    mains = [source.main for source in plan.sources]
    made = [
        cut_step(step, window, None if main == OUTSIDE else columns[main], out)
        for step, window, main, out in zip(steps, windows, mains, columns)
    ]
    begins = tuple(each.begin for each in columns)
    return Patch(tuple(made), begins, tuple(not window.plain for window in windows), plan)


def cut_step(step: Step, window: ColumnWindow, source: Columns | None, out: Columns) -> Step:
    """The step for columns ``out`` of its result, where columns ``source`` of its input lie in
    memory, all where it is None."""
    main = step.lowering.row_operand(step)
    x, y = step.read_values[main], step.group.outputs[0]
    cloned = _Clone(y.shape[2:], out.count)
    if not window.plain:
        cloned.known[x] = x if source is None else _narrow(x, source.count)
    root = step.group.root
    group = Group(cloned.node(root), [], [cloned.node(n) for n in step.group.after])
    if not window.plain:
        _set_window(group.root, window.moved_pad(source, out), out.count)
    values = [cloned.value(v) for v in step.read_values]
    reads = [_access(a, v.shape) for a, v in zip(step.reads, values)]
    if not window.plain and source is None:
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
    """The same memory of fewer columns; rows of pixels lie behind each other."""
    at, step = access.at, pixel_stride(access.at)
    if step is None:
        return Access(access.buffer, Strided(tuple(shape), at.strides, at.offset))
    strides = (shape[2] * shape[3] * step, 1, shape[3] * step, step)
    return Access(access.buffer, Strided(tuple(shape), strides, at.offset))


class _Clone:
    """Nodes again, over fewer columns of everything that has the result's pixels."""

    def __init__(self, pixels: Sequence[int], columns: int) -> None:
        self.pixels, self.columns = tuple(pixels), columns
        self.known: dict[Value, Value] = {}

    def value(self, value: Value) -> Value:
        if value.is_constant:
            return value
        if value not in self.known:
            wide = value.type.rank == 4 and value.shape[2:] == self.pixels
            self.known[value] = _narrow(value, self.columns) if wide else value
        return self.known[value]

    def node(self, node: Node) -> Node:
        inputs = [None if v is None else self.value(v) for v in node.inputs]
        made = Node(node.op, inputs, dict(node.attrs), node.name, node.sources, node.guard)
        made.give([self.value(v) for v in node.outputs])
        return made

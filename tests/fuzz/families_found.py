"""Families of nodes whose sizes are found in the run: NonZero, durations, selections."""

from __future__ import annotations

import numpy as np
from families_open import (
    computed,
    count_of,
    limited,
    open_axis,
    scalar,
    size_of,
    small,
    windowed,
    zero_to,
)  # fmt: skip
from generator import Tensor, Unfit
from onnx import TensorProto
from open_generator import SizedGrowing, open_family


def positive_places(g: SizedGrowing, x: Tensor) -> str:
    """Return the indices of elements above a threshold: [rank, found]."""
    limit = np.array(g.random.choice([-9, 0, 0, 1, 9]), x.dtype)
    return g.add("NonZero", [g.add("Greater", [x, g.const(limit)])])


def flat(g: SizedGrowing, x: Tensor) -> Tensor:
    """Return the tensor with one axis."""
    name = x.name if x.rank == 1 else g.add("Reshape", [x, g.whole([-1])])
    return Tensor(name, (int(np.prod(x.shape)),), x.dtype)


def chosen(g: SizedGrowing, x: Tensor) -> str:
    """Return a found number of elements of a flattened tensor."""
    row = flat(g, x)
    places = positive_places(g, row)
    if g.chance(0.3):
        limit = g.const(np.array(0, x.dtype))
        return g.add("Compress", [row, g.add("Greater", [row, limit])], axis=0)
    if g.chance(0.5):
        return g.add("GatherND", [row, g.add("Transpose", [places])])
    return g.add("Gather", [row, g.add("Squeeze", [places, g.whole([0])])])


@open_family("fi", weight=2)
def selected(g: SizedGrowing, x: Tensor) -> None:
    """Elements above a threshold."""
    chosen(g, x)


@open_family("f", weight=3)
def window_of_found(g: SizedGrowing, x: Tensor) -> None:
    """A window over elements whose number is found in the run."""
    rows = g.add("Reshape", [chosen(g, x), g.whole([1, 1, -1])])
    windowed(g, rows, 1, x.dtype)


def durations(g: SizedGrowing, x: Tensor) -> str:
    """Return small integers from a flattened tensor, as predicted durations."""
    row = flat(g, x).name
    most = np.array(g.random.choice([1, 2, 4]), x.dtype)
    low = np.array(g.random.choice([0, 0, 1]), x.dtype)
    if x.kind == "f":
        row = g.add("Ceil", [row])
    return g.add("Cast", [g.add("Clip", [row, g.const(low), g.const(most)])], to=7)


@open_family("f", weight=4)
def expanded_by_durations(g: SizedGrowing, x: Tensor) -> None:
    """Frames of a sum of durations; an alignment matrix expands the values, and a window reads
    them."""
    if x.dtype != np.float32:
        raise Unfit
    counts = durations(g, x)
    total = g.add("ReduceSum", [counts, g.whole([0])], keepdims=1)
    if g.chance(0.3):
        total = g.add("Max", [total, g.whole([1])])
    frames = zero_to(g, total)
    if g.chance(0.3):
        real = g.add("Reshape", [g.add("Cast", [frames], to=1), g.whole([1, 1, -1])])
        windowed(g, real, 1, x.dtype)
        return
    ends = g.add("CumSum", [counts, g.const(np.array(0, np.int64))])
    frames = g.add("Unsqueeze", [frames, g.whole([0])])
    ends, counts = (g.add("Unsqueeze", [each, g.whole([1])]) for each in (ends, counts))
    before = g.add("Less", [frames, ends])
    after = g.add("Not", [g.add("Less", [frames, g.add("Sub", [ends, counts])])])
    inside = g.add("Cast", [g.add("And", [before, after])], to=1)
    row = g.add("Reshape", [x, g.whole([1, -1])])
    rows = g.add("Unsqueeze", [g.add("MatMul", [row, inside]), g.whole([0])])
    if g.chance(0.7):
        windowed(g, rows, 1, x.dtype)


@open_family("fi", weight=3)
def joined(g: SizedGrowing, x: Tensor) -> None:
    """Concatenate found parts with each other and with the tensor."""
    parts = [chosen(g, x) for _ in range(g.random.randint(1, 2))]
    parts.append(flat(g, x).name)
    g.random.shuffle(parts)
    y = g.add("Concat", parts, axis=0)
    if g.chance(0.4):
        count = g.add("Shape", [y])
        g.counts.append(count)
        g.add("Slice", [y, computed(g, count), g.whole([2**31]), g.whole([0])])


@open_family("f", weight=3)
def scattered(g: SizedGrowing, x: Tensor) -> None:
    """Write found elements back, doubled, or at found places of a tensor of a computed size."""
    places = g.add("Transpose", [positive_places(g, x)])
    values = g.add("GatherND", [x, places])
    doubled = g.add("Add", [values, values])
    if g.chance(0.6):
        g.add("ScatterND", [x, places, doubled])
        return
    row = flat(g, x)
    places = g.add("Transpose", [positive_places(g, row)])
    values = g.add("GatherND", [row.name, places])
    size = limited(g, count_of(g, x)) if g.chance(0.5) else g.add("Shape", [row.name])
    zeros = g.add("Expand", [g.const(np.zeros(1, x.dtype)), size])
    g.add("ScatterND", [zeros, places, values])


@open_family("fi", weight=2)
def best_of_found(g: SizedGrowing, x: Tensor) -> None:
    """TopK of found elements, with k fixed or limited by their number."""
    y = chosen(g, x)
    count = small(g, 1, 4)
    if g.chance(0.6):
        count = g.add("Min", [count, g.add("Shape", [y])])
    g.add("TopK", [y, count], 2, axis=0)


@open_family("f", least=2, weight=2)
def chosen_rows(g: SizedGrowing, x: Tensor) -> None:
    """Rows with a positive sum; a matrix product, a reshape by their number."""
    axes = list(range(1, x.rank))
    sums = g.add("ReduceSum", [x, g.whole(axes)], keepdims=0)
    places = g.add("NonZero", [g.add("Greater", [sums, g.const(np.array(0, x.dtype))])])
    places = g.add("Squeeze", [places, g.whole([0])]) if g.chance(0.5) else g.add(
        "Reshape", [places, g.whole([-1])]
    )  # fmt: skip
    rows = g.add("Gather", [x, places], axis=0)
    size = g.add("Shape", [places])
    g.counts.append(size)
    way = g.random.choice(["flat", "expand", "add", "none"])
    if way == "flat":
        g.add("Reshape", [rows, g.add("Concat", [size, g.whole([-1])], axis=0)])
    elif way == "expand":
        shape = g.add("Concat", [size, g.whole([3])], axis=0)
        g.add("Expand", [g.const(np.ones((1, 1), np.float32)), shape])
    elif way == "add":
        g.add("Add", [rows, g.add("Gather", [x, places], axis=0)])


@open_family("i", weight=2)
@open_family("f", weight=1)
def one_hot(g: SizedGrowing, x: Tensor) -> None:
    """OneHot with a depth that is computed from a size."""
    places = durations(g, x)
    depth = scalar(g, g.add("Max", [limited(g, count_of(g, x)), g.whole([1])]))
    g.add("OneHot", [places, depth, g.const(np.array([0, 1], np.float32))])


@open_family("f", weight=2)
def conditional(g: SizedGrowing, x: Tensor) -> None:
    """If the size exceeds a limit the axis is cut, otherwise the tensor is as it was."""
    from onnx import helper

    axis, limit = open_axis(g, x), g.random.randint(1, 6)
    above = g.add("Greater", [scalar(g, size_of(g, x, axis)),
                              g.const(np.array(limit, np.int64))])  # fmt: skip
    bounds = [g.whole([each]) for each in (0, limit, axis)]
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    ends = [helper.make_tensor_value_info(name, kind, None) for name in ("cut", "kept")]
    cut = helper.make_graph(
        [helper.make_node("Slice", [x.name, *bounds], ["cut"])], "then", [], ends[:1]
    )
    kept = helper.make_graph(
        [helper.make_node("Identity", [x.name], ["kept"])], "else", [], ends[1:]
    )
    # the names that branches read are inputs of the model of this step alone
    anchors = [g.add("Identity", [name]) for name in (x.name, *bounds)]
    for graph in (cut, kept):
        for node in graph.node:
            renamed = dict(zip((x.name, *bounds), anchors))
            node.input[:] = [renamed[name] for name in node.input]
    g.add("If", [above], then_branch=cut, else_branch=kept)


@open_family("f", weight=2)
def suppressed(g: SizedGrowing, x: Tensor) -> None:
    """Boxes made of a tensor's elements, with overlapping ones suppressed."""
    if x.dtype != np.float32:
        raise Unfit
    row = g.add("Reshape", [x, g.whole([1, -1, 1])])
    sides = g.const(np.array([[[0, 0, 1, 1.5]]], np.float32))
    boxes = g.add("Add", [g.add("Mul", [row, g.const(np.array(0.7, np.float32))]), sides])
    scores = g.add("Reshape", [x, g.whole([1, 1, -1])])
    limits = (0.4, g.random.choice([-9, 0]))
    numbers = [g.whole([g.random.choice([2, 5, 50])])]
    numbers += [g.const(np.array([each], np.float32)) for each in limits]
    kept = g.add("NonMaxSuppression", [boxes, scores, *numbers])
    places = g.add("Squeeze", [g.add("Slice", [kept, g.whole([2]), g.whole([3]), g.whole([1])]),
                               g.whole([1])])  # fmt: skip
    g.add("Gather", [boxes, places], axis=1)
    g.add("Cast", [g.add("Shape", [places])], to=TensorProto.FLOAT)

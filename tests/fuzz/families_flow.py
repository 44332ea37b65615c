"""Families of fused operators, computed indices, subgraphs and sequences on open axes."""

from __future__ import annotations

import numpy as np
from families_found import chosen, flat
from families_open import (
    count_of,
    limited,
    open_axis,
    scalar,
    size_of,
    windowed,
    zero_to,
)  # fmt: skip
from generator import Tensor, Unfit
from onnx import GraphProto, NodeProto, helper
from open_generator import SizedGrowing, open_family

MICROSOFT = "com.microsoft"


def text_of(g: SizedGrowing, x: Tensor) -> tuple[str, int]:
    """Return a tensor as [batch, length, channels], with an even number of channels."""
    if x.dtype != np.float32:
        raise Unfit
    channels = x.shape[-1]
    if x.rank == 3 and g.is_fixed(x, 2) and channels % 2 == 0:
        return x.name, channels
    batch = g.random.choice([1, 0]) if x.rank > 1 else 1
    rows = g.add("Reshape", [x, g.whole([batch, -1, 1])])
    return g.add("Mul", [rows, g.like(x, 1, 1, 8)]), 8


@open_family("f", weight=6)
def fused(g: SizedGrowing, x: Tensor) -> None:
    """A fused operator of com.microsoft on texts of an open length."""
    text, c = text_of(g, x)
    op = g.random.choice(["attention", "heads", "skip", "nbits", "rotary", "gelu"])
    if op == "attention":
        ins = [text, g.like(x, c, 3 * c, scale=0.4), g.like(x, 3 * c)]
        g.add("Attention", ins, num_heads=2, unidirectional=int(g.chance(0.5)), domain=MICROSOFT)
    elif op == "heads":
        other = text if g.chance(0.5) else g.add("Concat", [text, text], axis=1)
        g.add("MultiHeadAttention", [text, other, other], num_heads=2, domain=MICROSOFT)
    elif op == "skip":
        ins = [text, g.add("Sigmoid", [text]), g.like(x, c), g.like(x, c)]
        g.add("SkipLayerNormalization", ins, epsilon=0.1, domain=MICROSOFT)
    elif op == "nbits":
        rows, blocks = g.random.randint(1, 5), 2
        weights = g.const(g.numbers.integers(0, 256, (rows, blocks, 8)).astype("u1"))
        wide = g.add("MatMul", [text, g.like(x, c, 32, scale=0.3)])
        g.add("MatMulNBits", [wide, weights, g.like(x, rows * blocks)], K=32, N=rows, bits=4,
              block_size=16, domain=MICROSOFT)  # fmt: skip
    elif op == "rotary":
        caches = [g.like(x, g.random.choice([12, 2000]), c // 2) for _ in range(2)]
        start = g.whole([g.random.randint(0, 2)])
        g.add("RotaryEmbedding", [text, start, *caches], domain=MICROSOFT)
    else:
        g.add(g.random.choice(["BiasGelu", "FastGelu"]), [text, g.like(x, c)], domain=MICROSOFT)


@open_family("f", weight=3)
def pairs(g: SizedGrowing, x: Tensor) -> None:
    """Einsum of a tensor with itself or another one, whose open axes meet."""
    others = [y for y in g.tensors() if y.dtype == x.dtype and y.rank == x.rank]
    ways = {1: ["i,j->ij", "i,i->"], 2: ["ij,kj->ik", "ij,kl->ijl", "ij,ij->j"],
            3: ["bij,bkj->bik", "bij,bij->ji", "bij,ckj->bc"],
            4: ["bhid,bhjd->bhij", "bhid,bhid->bi"]}  # fmt: skip
    y = g.random.choice([x, *others])
    g.add("Einsum", [x, y], equation=g.random.choice(ways[x.rank]))


@open_family("f", least=2, weight=3)
def sampled(g: SizedGrowing, x: Tensor) -> None:
    """GridSample of a picture, with a grid made of another tensor's elements."""
    if x.dtype != np.float32:
        raise Unfit
    picture = g.add("Reshape", [x, g.const(np.array([1, 1, -1, x.shape[-1]]))])
    y = g.random.choice([y for y in g.tensors() if y.dtype == x.dtype])
    grid = g.add("Reshape", [y, g.whole([1, -1, g.random.choice([1, 2]), 2])])
    mode = g.random.choice(["nearest", "linear" if g.opset >= 20 else "bilinear"])
    g.add("GridSample", [picture, g.add("Tanh", [grid])], mode=mode,
          padding_mode=g.random.choice(["zeros", "border", "reflection"]))  # fmt: skip


@open_family("fi", weight=4)
def at_computed(g: SizedGrowing, x: Tensor) -> None:
    """Read or write at computed indices: positions, or those of the best elements."""
    axis = open_axis(g, x)
    if g.chance(0.5):
        index = zero_to(g, g.add("Min", [size_of(g, x, axis), limited(g, count_of(g, x))]))
    else:
        index = g.add("ArgMax", [x], axis=axis, keepdims=1)
        if g.chance(0.5):
            way = "GatherElements"
            if g.chance(0.5):
                g.add(way, [x, index], axis=axis)
            else:
                values = g.add(way, [x, index], axis=axis)
                g.add("ScatterElements", [x, index, g.add("Neg", [values])], axis=axis)
            return
        index = g.add("Reshape", [index, g.whole([-1])])
    if axis == 0 and g.chance(0.5):
        rows = g.add("Unsqueeze", [index, g.whole([1])])
        values = g.add("GatherND", [x, rows])
        if g.chance(0.5):
            g.add("ScatterND", [x, rows, g.add("Neg", [values])], reduction="add")
    elif axis == 1 and g.is_fixed(x, 0) and g.chance(0.7):
        shape = g.add("Concat", [size_of(g, x, 0), g.whole([-1])], axis=0)
        rows = g.add("Expand", [index, g.add("Concat", [size_of(g, x, 0), g.whole([1])], axis=0)])
        rows = g.add("Reshape", [rows, shape])
        g.add("GatherND", [x, g.add("Unsqueeze", [rows, g.whole([2])])], batch_dims=1)
    else:
        g.add("Gather", [x, index], axis=axis)


@open_family("f", weight=4)
def padded(g: SizedGrowing, x: Tensor) -> None:
    """Pad to a computed size, or cut to it with negative pads."""
    axis = open_axis(g, x)
    wanted, some = g.add("Min", [limited(g, count_of(g, x)), g.whole([300])]), g.chance(0.4)
    if some:
        wanted = g.add("Max", [wanted, g.whole([1])])
    rest = g.add("Sub", [wanted, size_of(g, x, axis)])
    if g.chance(0.4):
        rest = g.add("Max", [rest, g.whole([0])])
    ends = [rest, g.whole([0])]
    g.random.shuffle(ends)
    mode = g.random.choice(["constant", "constant", *(["edge", "reflect"] if some else [])])
    if g.opset >= 18:
        pads = g.add("Concat", ends, axis=0)
        g.add("Pad", [x, pads, "", g.whole([axis - g.random.choice([0, x.rank])])], mode=mode)
        return
    rows = [g.whole([0])] * (2 * x.rank)
    rows[axis], rows[x.rank + axis] = ends
    g.add("Pad", [x, g.add("Concat", rows, axis=0)], mode=mode)


@open_family("fi", weight=3)
def masked(g: SizedGrowing, x: Tensor) -> None:
    """Where with a mask made of sizes: a triangle or the first elements."""
    size = size_of(g, x, x.rank - 1)
    value = helper.make_tensor("value", 9, [1], [True])
    if x.rank > 1 and g.chance(0.6):
        shape = g.add("Concat", [size_of(g, x, x.rank - 2), size], axis=0)
        full = g.add("Cast", [g.add("ConstantOfShape", [shape], value=value)], to=7)
        mask = g.add("Cast", [g.add("Trilu", [full], upper=int(g.chance(0.5)))], to=9)
    else:
        limit = limited(g, count_of(g, x))
        mask = g.add("Less", [zero_to(g, size), limit])
    g.add("Where", [mask, x, g.const(np.array(-3, x.dtype))])


@open_family("fi", weight=3)
def distinct(g: SizedGrowing, x: Tensor) -> None:
    """Unique elements, then a window or a reshape by their number."""
    y = chosen(g, x) if g.chance(0.3) else flat(g, x).name
    if x.kind == "f":
        y = g.add("Floor", [y])
    found = g.add("Unique", [y], g.random.randint(1, 4), sorted=1)
    way = g.random.choice(["window", "rows", "reverse", "none"])
    if way == "window":
        rows = g.add("Cast", [g.add("Reshape", [found, g.whole([1, 1, -1])])], to=1)
        windowed(g, rows, 1, np.dtype("f4"))
    elif way == "rows":
        shape = g.add("Concat", [g.add("Shape", [found]), g.whole([-1])], axis=0)
        g.add("Reshape", [g.add("Concat", [found, found], axis=0), shape])
    elif way == "reverse":
        g.add("Slice", [found, *(g.whole([each]) for each in (-1, -(2**63) + 1, 0, -1))])


def one_more(g: SizedGrowing, x: Tensor, axis: int) -> str:
    """Pad an axis, since onnxruntime runs no Scan of no step and joins no empty sequence."""
    pads = [0] * (2 * x.rank)
    pads[axis] = 1
    return g.add("Pad", [x, g.whole(pads)])


def body_of(nodes: list[NodeProto], ins: list, outs: list) -> GraphProto:
    """Return a graph; its inputs and outputs are pairs of name and element type."""
    infos = [[helper.make_tensor_value_info(n, kind, [] if n in ("i", "c", "go") else None)
              for n, kind in ends] for ends in (ins, outs)]  # fmt: skip
    return helper.make_graph(nodes, "body", *infos)


@open_family("f", weight=4)
def looped(g: SizedGrowing, x: Tensor) -> None:
    """Loop for a computed number of iterations; the tensor stays, grows or shrinks."""
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    axis = open_axis(g, x)
    count = scalar(g, g.add("Min", [limited(g, count_of(g, x)), g.whole([5])]))
    one, axes = (g.add("Identity", [g.whole([each])]) for each in (1, axis))
    first = g.add("Identity", [x])
    way = g.random.choice(["same", "same", "grow", "shrink", "stop"])
    node = helper.make_node
    work = {"grow": node("Concat", ["v", first], ["w"], axis=axis),
            "shrink": node("Slice", ["v", one, g.add("Identity", [g.whole([2**31])]), axes], ["w"]),
            }.get(way, node("Sigmoid", ["v"], ["w"]))  # fmt: skip
    nodes = [work, node("ReduceSum", ["w"], ["s"], keepdims=0)]
    stays = node("Identity", ["c"], ["go"])
    if way == "stop":
        stays = node("Less", ["s", g.add("Identity", [g.const(np.array(3, x.dtype))])], ["go"])
    body = body_of([*nodes, stays], [("i", 7), ("c", 9), ("v", kind)],
                   [("go", 9), ("w", kind), ("s", kind)])  # fmt: skip
    g.add("Loop", [count, g.const(np.array(True)), x], 2, body=body)


@open_family("f", least=2, weight=2)
def scanned(g: SizedGrowing, x: Tensor) -> None:
    """Scan over an open axis and one element, with a sum as the state."""
    kind, axis = helper.np_dtype_to_tensor_dtype(x.dtype), open_axis(g, x)
    x = one_more(g, x, axis)
    start = g.add("Mul", [g.add("ReduceSum", [x, g.whole([axis])], keepdims=0)] * 2)
    node = helper.make_node
    nodes = [node("Add", ["v", "e"], ["w"]), node("Tanh", ["w"], ["o"])]
    body = body_of(nodes, [("v", kind), ("e", kind)], [("w", kind), ("o", kind)])
    way = int(g.chance(0.3))
    g.add("Scan", [start, x], 2, body=body, num_scan_inputs=1, scan_input_axes=[axis],
          scan_input_directions=[way], scan_output_axes=[axis])  # fmt: skip


@open_family("fi", weight=3)
def sequence(g: SizedGrowing, x: Tensor) -> None:
    """Split an open axis into a sequence, and join it or take a part."""
    axis = open_axis(g, x)
    x = one_more(g, x, axis)
    part = g.const(np.array(g.random.choice([1, 2, 3]), np.int64))
    if g.chance(0.4):
        size = size_of(g, x, axis)
        first = g.add("Min", [limited(g, count_of(g, x)), size])
        part = g.add("Concat", [first, g.add("Sub", [size, first])], axis=0)
    parts = g.add("SplitToSequence", [x, part], axis=axis)
    if g.chance(0.3):
        parts = g.add("SequenceInsert", [parts, x, g.const(np.array(0, np.int64))])
    if g.chance(0.5):
        g.add("ConcatFromSequence", [parts], axis=axis)
        return
    at = g.const(np.array(g.random.choice([0, 1, -1]), np.int64))
    if g.chance(0.3):
        length = g.add("SequenceLength", [parts])
        at = g.add("Sub", [length, g.const(np.array(1, np.int64))])
    g.add("SequenceAt", [parts, at])

"""Each pass on random graphs: the outputs keep every bit.

Tensors hold small integers and halves, whose sums float32 computes exactly in any order. The
graphs are evaluated by the operators' own definitions in numpy, without a C compiler.
"""

from __future__ import annotations

import random
from functools import cache

import numpy as np
import pytest

from tvmrt.compiler.ir import Builder, Graph, Node, TensorType, Value
from tvmrt.compiler.ir.custom import evaluate_graph
from tvmrt.compiler.ir.dtype import DTYPES
from tvmrt.compiler.ir.verifier import verify
from tvmrt.compiler.transform.merge_sibling_convs import merge_sibling_convs
from tvmrt.compiler.transform.move_quantize import move_conversions
from tvmrt.compiler.transform.nest_concats import nest_concats
from tvmrt.compiler.transform.optimize import PASSES

GRAPHS = 200  # of each pass
# gather-before-widen is for tables of 4-bit integers, which these graphs do not have. Winograd,
# reduced precision and quantised weights keep no bits, and are no passes of this list.
DRAWN = {run: name for name, run in reversed(PASSES) if name != "gather-before-widen"}
DRAWN[move_conversions] = "move-conversions"
DRAWN[nest_concats] = "nest-concats"
DRAWN[lambda graph: merge_sibling_convs(graph, True)] = "merge-sibling-convs"


class RandomGraph:
    """A graph of operators that the passes look for, in any order."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.rng = np.random.default_rng(seed)
        self.graph = Graph("random")
        self.b = Builder(self.graph)
        self.values: list[Value] = []
        self.feeds: list[np.ndarray] = []
        for _ in range(2):
            self.input((1, self.draw.choice((2, 4)), 4, self.draw.choice((3, 4))))
        for _ in range(self.draw.randint(5, 12)):
            self.values.append(self.draw.choice(STEPS)(self, self.draw.choice(self.values)))
        last = self.draw.sample(self.values[2:], 2)
        self.graph.outputs = [*dict.fromkeys([self.values[-1], *last])]
        self.graph.output_names = [f"y{i}" for i in range(len(self.graph.outputs))]

    def input(self, shape: tuple[int, ...]) -> None:
        value = Value(f"x{len(self.values)}", TensorType(shape, DTYPES["float32"]))
        self.graph.inputs.append(value)
        self.values.append(value)
        self.feeds.append(self.numbers(*shape))

    def numbers(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-3, 4, shape).astype(np.float32)

    def operand(self, x: Value) -> Value:
        """Return a constant that broadcasts to x, or a computed tensor of its shape."""
        same = [v for v in self.values if v.shape == x.shape and v.dtype == x.dtype]
        if same and self.draw.random() < 0.4:
            return self.draw.choice(same)
        kept = [self.draw.random() < 0.5 for _ in x.shape]
        numbers = self.numbers(*(n if keep else 1 for n, keep in zip(x.shape, kept)))
        return self.b.const(numbers if self.draw.random() < 0.8 else np.zeros_like(numbers))

    def arithmetic(self, x: Value) -> Value:
        op = self.draw.choice(("add", "sub", "mul", "max", "min"))
        y = self.b.emit(op, [x, self.operand(x)])
        return self.limited(y) if op == "mul" else y

    def limited(self, x: Value) -> Value:
        """Keep numbers small, so that sums of them stay exact."""
        y = self.b.emit("max", [x, self.b.const(np.float32(-8))])
        return self.b.emit("min", [y, self.b.const(np.float32(8))])

    def function(self, x: Value) -> Value:
        return self.b.emit(self.draw.choice(("relu", "neg", "abs", "identity")), [x])

    def transposed(self, x: Value) -> Value:
        order = list(range(len(x.shape)))
        self.draw.shuffle(order)
        return self.b.emit("transpose", [x], perm=tuple(order))

    def reshaped(self, x: Value) -> Value:
        n, c, h, w = x.shape
        shapes = [(n, h, w, c), (n * c, 1, h, w), (n, c, 1, h * w), (n, c, w, h)]
        return self.b.emit("reshape", [x], shape=self.draw.choice(shapes))

    def padded(self, x: Value) -> Value:
        before, after = ([self.draw.choice((0, 0, 1)) for _ in x.shape] for _ in range(2))
        fill = self.draw.choice((None, 0.0, 2.0))
        operands = [x] if fill is None else [x, self.b.const(np.float32(fill))]
        sides = {"before": tuple(before), "after": tuple(after)}
        return self.b.emit("pad", operands, mode="constant", **sides)

    def joined(self, x: Value) -> Value:
        axis = self.draw.randrange(len(x.shape))
        fits = [
            v for v in self.values
            if v.dtype == x.dtype and len(v.shape) == len(x.shape)
            and all(a == b or i == axis for i, (a, b) in enumerate(zip(v.shape, x.shape)))
        ]  # fmt: skip
        parts = [self.draw.choice(fits) for _ in range(self.draw.randint(1, 3))]
        return self.b.emit("concat", [x, *parts], axis=axis)

    def cut(self, x: Value) -> Value:
        starts = [self.draw.randrange(n) for n in x.shape]
        sizes = [self.draw.randint(1, n - s) for n, s in zip(x.shape, starts)]
        ones = (1,) * len(x.shape)
        return self.b.emit("slice", [x], starts=tuple(starts), steps=ones, sizes=tuple(sizes))

    def convolved(self, x: Value) -> Value:
        return self.limited(self.convolution(x))

    def convolution(self, x: Value) -> Value:
        _, c, h, w = x.shape
        kernel = self.draw.choice([k for k in (1, 2, 3) if k <= min(h, w)])
        groups = self.draw.choice((1, c)) if c > 1 else 1
        outs = groups * self.draw.randint(1, 3)
        weights = self.rng.integers(-1, 2, (outs, c // groups, kernel, kernel)).astype(np.float32)
        weights[self.rng.random(outs) < 0.2] = 0
        bias = [self.b.const(self.numbers(outs))] if self.draw.random() < 0.5 else []
        pads = [tuple(self.draw.randint(0, kernel - 1) for _ in range(2)) for _ in range(2)]
        return self.b.emit(
            "conv", [x, self.b.const(weights), *bias], groups=groups, strides=(1, 1),
            dilations=(1, 1), pads_before=pads[0], pads_after=pads[1],
        )  # fmt: skip

    def layers(self, x: Value) -> Value:
        """Add one to three convolutions, each with what passes fold into them."""
        for _ in range(self.draw.randint(1, 3)):
            if self.draw.random() < 0.5:
                sides = [(0, 0, *(self.draw.randint(0, 2) for _ in range(2))) for _ in range(2)]
                x = self.b.emit("pad", [x], mode="constant", before=sides[0], after=sides[1])
            x = self.convolution(x)
            for op in self.draw.sample(("mul", "add", "add"), self.draw.randint(0, 3)):
                numbers = self.numbers(x.shape[1], 1, 1)
                x = self.b.emit(op, [x, self.b.const(numbers)])
            if self.draw.random() < 0.5:
                x = self.b.emit("relu", [x])
        return self.limited(x)

    def dense(self, x: Value) -> Value:
        """Add a product of reshaped rows."""
        n, c, h, w = x.shape
        rows = self.b.emit("reshape", [x], shape=(n, c * h, w))
        weights = self.b.const(self.numbers(w, self.draw.randint(1, 4)))
        y = self.b.emit("matmul", [rows, weights])
        y = self.b.emit("add", [y, self.b.const(self.numbers(y.shape[-1]))])
        return self.limited(self.b.emit("reshape", [y], shape=(n, c, h, y.shape[-1])))

    def product(self, x: Value) -> Value:
        weights = self.b.const(self.numbers(x.shape[-1], self.draw.randint(1, 4)))
        return self.limited(self.b.emit("matmul", [x, weights]))

    def attention(self, x: Value) -> Value:
        """Add scores of queries and keys that are parts of one product, both scaled."""
        n, c, h, w = x.shape
        rows = self.b.emit("reshape", [x], shape=(n, c * h, w))
        bias = [self.b.const(self.numbers(8))] if self.draw.random() < 0.5 else []
        both = self.b.emit("matmul", [rows, self.b.const(self.numbers(w, 8)), *bias])
        sides = []
        for start, order in ((0, (0, 2, 1, 3)), (4 - self.draw.choice((0, 0, 1)), (0, 2, 3, 1))):
            part = self.part(both, 2, start, 4)
            part = self.b.emit("reshape", [part], shape=(n, c * h, 2, 2))
            part = self.b.emit("transpose", [part], perm=order)
            if self.draw.random() < 0.8:
                scale = self.b.const(self.rng.choice(np.float32([0.5, 2]), (1,)))
                part = self.b.emit("mul", [part, scale])
            sides.append(part)
        return self.limited(self.b.emit("matmul", sides))

    def part(self, x: Value, axis: int, start: int, size: int, step: int = 1) -> Value:
        starts, sizes, steps = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
        starts[axis], sizes[axis], steps[axis] = start, size, step
        places = {"starts": tuple(starts), "steps": tuple(steps), "sizes": tuple(sizes)}
        return self.b.emit("slice", [x], **places)

    def phases(self, x: Value) -> Value:
        """Add a convolution of the pixels of even and odd rows and columns."""
        _, _, h, w = x.shape
        if h % 2 or w % 2:
            return x
        places = [(row, column) for row in range(2) for column in range(2)]
        self.draw.shuffle(places)
        rows = [self.part(x, 2, row, h // 2, 2) for row in range(2)]
        parts = [self.part(rows[row], 3, column, w // 2, 2) for row, column in places]
        return self.convolved(self.b.emit("concat", parts, axis=1))

    def flattened(self, x: Value) -> Value:
        """Add a product of all elements of a convolution."""
        y = self.convolution(x)
        rows = self.b.emit("reshape", [y], shape=(y.shape[0], y.type.size // y.shape[0]))
        weights = self.b.const(self.numbers(rows.shape[1], 4))
        z = self.limited(self.b.emit("matmul", [rows, weights]))
        return self.b.emit("reshape", [z], shape=(*z.shape, 1, 1))

    def tokens(self, x: Value) -> Value:
        """Add a product whose rows are reshaped before an addition."""
        n, c, h, w = x.shape
        rows = self.b.emit("reshape", [x], shape=(n * c * h, w))
        weights = self.b.const(self.numbers(w, self.draw.randint(1, 3)))
        y = self.b.emit("matmul", [rows, weights])
        y = self.b.emit("reshape", [y], shape=(n, c, h, y.shape[-1]))
        return self.limited(self.b.emit("add", [y, self.operand(y)]))

    def dead(self, x: Value) -> Value:
        """Add channels without weights, a function, and a layer that reads some channels."""
        weights = self.rng.integers(-1, 2, (8, x.shape[1], 1, 1)).astype(np.float32)
        weights[self.rng.random(8) < 0.6] = 0
        bias = [self.b.const(self.numbers(8))] if self.draw.random() < 0.5 else []
        window = {"strides": (1, 1), "dilations": (1, 1), "groups": 1}
        sides = {"pads_before": (0, 0), "pads_after": (0, 0)}
        y = self.b.emit("conv", [x, self.b.const(weights), *bias], **window, **sides)
        y = self.b.emit("relu", [y]) if self.draw.random() < 0.5 else y
        pad, step = self.draw.choice(((0, 1), (1, 1), (2, 2), (5, 5)))
        sides = {"pads_before": (pad, pad), "pads_after": (pad, pad)}
        kernel = 3 if pad else 1
        weights = self.rng.integers(-1, 2, (2, 8, kernel, kernel)).astype(np.float32)
        weights[:, self.rng.random(8) < 0.4] = 0
        window["dilations"] = (step, step)
        return self.limited(self.b.emit("conv", [y, self.b.const(weights)], **window, **sides))

    def heads(self, x: Value) -> Value:
        """Add convolutions of one tensor of many channels, and parts that are joined again."""
        many = self.b.emit("concat", [x] * (16 // x.shape[1] + 1), axis=1)
        window = {"groups": 1, **dict.fromkeys(("strides", "dilations"), (1, 1))}
        window.update(dict.fromkeys(("pads_before", "pads_after"), (0, 0)))
        weights = [self.numbers(n, many.shape[1], 1, 1) for n in (1, self.draw.randint(1, 3))]
        ends = [self.b.emit("conv", [many, self.b.const(w)], **window) for w in weights]
        ends = [self.part(end, 2, 0, end.shape[2] - 1 or 1) for end in ends]
        joined = self.limited(self.b.emit("concat", [*ends, ends[0]], axis=1))
        half = joined.shape[1] // 2
        parts = [self.part(joined, 1, 0, half), self.part(joined, 1, half, half)]
        self.draw.shuffle(parts)
        return self.limited(self.b.emit("concat", [*parts, self.limited(parts[0])], axis=1))

    def summed(self, x: Value) -> Value:
        axis = self.draw.randrange(len(x.shape))
        op = self.draw.choice(("reduce_sum", "reduce_max"))
        return self.limited(self.b.emit(op, [x], axes=(axis,), keepdims=True))

    def rounded(self, x: Value) -> Value:
        """Quantise and dequantise, for the whole tensor or by channel."""
        count = x.shape[1] if self.draw.random() < 0.4 else 1
        shape = (count, 1, 1) if count > 1 else ()
        scale = self.b.const(self.rng.choice(np.float32([0.5, 1, 2]), shape))
        zero = self.b.const(self.rng.integers(-4, 5, shape).astype(np.int8))
        q = self.b.emit("quantize", [x, scale, zero])
        for _ in range(self.draw.randint(0, 2)):
            q = self.draw.choice(MOVES)(self, q)
        if count > 1 and (len(q.shape) != len(x.shape) or q.shape[1] != count):
            return x  # the scales belong to another axis now
        return self.b.emit("dequantize", [q, scale, zero])


MOVES = [RandomGraph.transposed, RandomGraph.reshaped, RandomGraph.cut]
STEPS = [
    RandomGraph.arithmetic, RandomGraph.arithmetic, RandomGraph.function, RandomGraph.transposed,
    RandomGraph.reshaped, RandomGraph.padded, RandomGraph.joined, RandomGraph.cut,
    RandomGraph.convolved, RandomGraph.layers, RandomGraph.layers, RandomGraph.product,
    RandomGraph.dense, RandomGraph.summed, RandomGraph.rounded, RandomGraph.attention,
    RandomGraph.phases, RandomGraph.flattened, RandomGraph.tokens, RandomGraph.dead,
    RandomGraph.heads,
]  # fmt: skip


def copied(graph: Graph) -> Graph:
    """Return a graph with other nodes and results; inputs and constants are the same."""
    copy, values = Graph(graph.name), {}
    for node in graph.nodes:
        inputs = [values.get(v, v) for v in node.inputs]
        other = Node(node.op, inputs, dict(node.attrs), node.name, node.sources)
        other.set_outputs([Value(v.name, v.type) for v in node.outputs])
        values.update(zip(node.outputs, other.outputs))
        copy.nodes.append(other)
    copy.inputs, copy.output_names = graph.inputs, graph.output_names
    copy.outputs = [values.get(v, v) for v in graph.outputs]
    return copy


def parts_of(graph: Graph) -> list:
    """Return what a pass may change."""
    nodes = [(n, n.op, (*n.inputs,), (*n.outputs,), dict(n.attrs), n.sources) for n in graph.nodes]
    return [nodes, list(graph.outputs)]


@cache
def drawn(seed: int) -> tuple[RandomGraph, list[np.ndarray]]:
    """Return a graph and its results."""
    made = RandomGraph(seed)
    return made, evaluate_graph(made.graph, made.feeds)


@pytest.mark.everyday(1 << 30)
@pytest.mark.parametrize("run", DRAWN, ids=DRAWN.get)
def test_a_pass_keeps_every_bit(run):
    changed = 0
    for seed in range(GRAPHS):
        made, before = drawn(seed)
        graph = copied(made.graph)
        parts = parts_of(graph)
        run(graph)
        if parts_of(graph) == parts:
            continue
        changed += 1
        verify(graph, DRAWN[run])
        for expected, found in zip(before, evaluate_graph(graph, made.feeds)):
            np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}")
    assert changed

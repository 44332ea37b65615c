"""Each pass on random graphs: the outputs keep every bit.

Tensors hold small integers and halves, whose sums float32 computes exactly in any order. The
graphs are evaluated by the operators' own definitions in numpy, without a C compiler.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from tvmrt.compiler.ir import Builder, Graph, TensorType, Value
from tvmrt.compiler.ir.custom import evaluate_graph
from tvmrt.compiler.ir.dtype import DTYPES
from tvmrt.compiler.ir.verifier import verify
from tvmrt.compiler.transform.move_quantize import move_conversions
from tvmrt.compiler.transform.optimize import PASSES

GRAPHS = 100  # of each pass
# Passes for forms that these graphs do not have, which other tests draw.
NOT_DRAWN = {
    "gather-before-widen", "crop-windows", "prune-channels", "combine-attention-scales",
    "fold-partial-scale", "fold-space-to-depth", "flatten-dense", "lift-reshapes",
}  # fmt: skip
DRAWN = {run: name for name, run in reversed(PASSES) if name not in NOT_DRAWN}
DRAWN[move_conversions] = "move-conversions"


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
        if self.draw.random() < 0.4:
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
    RandomGraph.dense, RandomGraph.summed, RandomGraph.rounded,
]  # fmt: skip


@pytest.mark.parametrize("run", DRAWN, ids=DRAWN.get)
def test_a_pass_keeps_every_bit(run):
    changed = compared = 0
    for seed in range(GRAPHS):
        made = RandomGraph(seed)
        before = evaluate_graph(made.graph, made.feeds)
        nodes = list(made.graph.nodes)
        run(made.graph)
        verify(made.graph, DRAWN[run])
        after = evaluate_graph(made.graph, made.feeds)
        changed += made.graph.nodes != nodes
        if after is None:
            continue  # an operator that numpy does not compute
        compared += 1
        for expected, found in zip(before, after):
            np.testing.assert_array_equal(found, expected, err_msg=f"seed {seed}")
    assert changed and compared > GRAPHS / 2

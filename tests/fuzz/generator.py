"""Generate a random network node by node: onnxruntime computes each new node, or it is dropped."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from references import by_onnxruntime

import tvmrt

OPSETS = (13, 17, 18, 20, 21)
LARGEST = 1e4  # of a float; larger values lose too many digits in later operators
MAX_ELEMENTS = 20_000
TYPES = ("float32", "float32", "float32", "float32", "float64", "float16", "int8", "uint8", "int32",
         "int64", "bool")  # fmt: skip


class Unfit(Exception):
    """Raised if a node does not fit here."""


@dataclass(frozen=True)
class Tensor:
    """A value of the network."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def kind(self) -> str:
        return self.dtype.kind


Grower = Callable[["Growing", Tensor], object]


@dataclass(frozen=True)
class OperatorFamily:
    """Row of the table of families: accepted tensors, and relative frequency."""

    grow: Grower
    kinds: str
    ranks: range
    weight: int


TABLE: list[OperatorFamily] = []


def family(
    kinds: str = "f", least: int = 0, most: int = 6, weight: int = 1
) -> Callable[[Grower], Grower]:
    """Decorate a function that adds nodes on a tensor of these types and ranks."""

    def enter(grow: Grower) -> Grower:
        TABLE.append(OperatorFamily(grow, kinds, range(least, most + 1), weight))
        return grow

    return enter


class Growing:
    """A growing network with the value of each tensor."""

    def __init__(self, seed: int, table: Sequence[OperatorFamily] | None = None) -> None:
        self.table = TABLE if table is None else table
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)
        self.opset = self.random.choice(OPSETS)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.values: dict[str, np.ndarray] = {}
        self.inputs: list[str] = []
        self.refused: list[str] = []  # by our compiler: operators and the reason
        self.count = 0

    def tensor(self, name: str) -> Tensor:
        value = self.values[name]
        return Tensor(name, value.shape, value.dtype)

    def tensors(self) -> list[Tensor]:
        return [self.tensor(name) for name in self.values]

    def chance(self, part: float) -> bool:
        return self.random.random() < part

    def made(self, shape: Sequence[int], dtype: Any, low: int = -5, high: int = 6) -> np.ndarray:
        """Return an array of a type: floats about 0, integers of a range."""
        dtype = np.dtype(dtype)
        if dtype.kind == "f":
            return self.numbers.standard_normal(shape).astype(dtype)
        if dtype.kind in ("b", "u"):
            low, high = 0, 2 if dtype.kind == "b" else high
        return self.numbers.integers(low, high, shape).astype(dtype)

    def const(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array, order="C"), name))
        return name

    def value(self, name: str) -> np.ndarray:
        """Return the value of a constant."""
        return numpy_helper.to_array(self.constants[int(name[1:])])

    def like(self, x: Tensor, *shape: int, scale: float = 1) -> str:
        """Return a constant of the type of a tensor."""
        array = self.made(shape, x.dtype)
        return self.const((array * scale).astype(x.dtype) if x.kind == "f" else array)

    def whole(self, values: Any) -> str:
        return self.const(np.array(values, np.int64))

    def add(
        self, op: str, inputs: Sequence[Any], outputs: int = 1, domain: str = "", **attrs: Any
    ) -> str:
        """Add a node on tensors or names, "" for omitted inputs; return its first output."""
        names = [each.name if isinstance(each, Tensor) else each for each in inputs]
        results = [f"t{self.count + i}" for i in range(outputs)]
        self.count += outputs
        node = helper.make_node(op, names, results, f"n{self.count}_{op}", domain=domain, **attrs)
        self.nodes.append(node)
        return results[0]

    def add_input(self, array: np.ndarray) -> None:
        name = f"x{len(self.inputs)}"
        self.inputs.append(name)
        self.values[name] = array

    def model(self, nodes: Sequence[onnx.NodeProto], outputs: Sequence[str]) -> onnx.ModelProto:
        """Return a network of some of the nodes, with their input values as inputs."""
        made = {name for node in nodes for name in node.output}
        used = {name for node in nodes for name in node.input}
        inputs = [name for name in self.values if name in used - made]
        constants = [each for each in self.constants if each.name in used]
        infos = [self._info(name) for name in inputs]
        ends = [self._info(n) if n in self.values else helper.make_empty_tensor_value_info(n)
                for n in outputs]  # fmt: skip
        graph = helper.make_graph(list(nodes), "random", infos, ends, constants)
        domains = [("", self.opset), *((d, 1) for d in {n.domain for n in nodes} - {""})]
        return helper.make_model(
            graph, opset_imports=[helper.make_opsetid(*d) for d in domains], ir_version=10
        )

    def _info(self, name: str) -> onnx.ValueInfoProto:
        value = self.values[name]
        return helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )

    def step(self) -> bool:
        """Add the nodes of one family on some tensor. Return False and undo if they do not fit."""
        nodes, constants = len(self.nodes), len(self.constants)
        known = self.tensors()
        x = self.random.choice([*known[-4:], *known])
        rows = [row for row in self.table if x.kind in row.kinds and x.rank in row.ranks]
        try:
            if not rows:
                raise Unfit
            row = self.random.choices(rows, [each.weight for each in rows])[0]
            row.grow(self, x)
            if len(self.nodes) == nodes:
                raise Unfit
            self._evaluate(self.nodes[nodes:])
        except Exception:  # including onnxruntime's refusals
            del self.nodes[nodes:], self.constants[constants:]
            return False
        return True

    def _evaluate(self, nodes: list[onnx.NodeProto]) -> None:
        outputs = [name for node in nodes for name in node.output if name]
        model = self.model(nodes, outputs)
        feeds = {each.name: self.values[each.name] for each in model.graph.input}
        found = by_onnxruntime(model, feeds)
        if not all(is_tame(value) for value in found):
            raise Unfit
        try:
            tvmrt.compile(model, target="host")
        except tvmrt.error.UnsupportedError as problem:
            self.refused.append(f"{nodes[-1].op_type}: {problem}")
            raise
        except Exception:
            pass  # a defect: it is compared within the whole network
        self.values.update(zip(outputs, found))


def is_tame(value: Any, empty: bool = False) -> bool:
    """Return True if a value can be used further: not empty (unless allowed), not large, and
    finite."""
    if not isinstance(value, np.ndarray) or not (empty or value.size) or value.size > MAX_ELEMENTS:
        return False
    if value.dtype.kind not in "biuf" or value.ndim > 6:
        return False
    finite = value.dtype.kind != "f" or bool(np.isfinite(value).all())
    return finite and (value.dtype.kind != "f" or float(np.abs(value).max(initial=0)) <= LARGEST)


def first_shape(source: random.Random) -> list[int]:
    rank = source.choice([1, 2, 3, 4, 4, 4, 5])
    if rank == 4:
        channels = source.choice([1, 3, 4, 7, 8, 16])
        return [source.choice([1, 1, 2]), channels, source.randint(3, 13), source.randint(3, 13)]
    if rank == 3:
        return [source.choice([1, 2]), source.randint(1, 9), source.randint(2, 17)]
    return [source.randint(1, 6) for _ in range(rank - 1)] + [
        source.randint(2, 20 if rank < 5 else 5)
    ]


PICTURES = """conv conv_transpose pool global_pool matmul gemm resize normalise soft plain binary
concat pad clip reshape quantise""".split()


def quantised_table() -> list[OperatorFamily]:
    """Return the families with the frequencies of quantised networks: integer ones eight times as
    often."""
    names = ("conv", "pool", "matmul", "gemm", "plain", "binary", "concat", "transpose", "reshape",
             "resize", "soft", "clip", "reduce", "global_pool", "pad")  # fmt: skip
    often = {row.grow: 8 * row.weight for row in TABLE if row.grow.__name__.startswith("quant")}
    known = [row for row in TABLE if row.grow in often or row.grow.__name__ in names]
    return [replace(row, weight=often.get(row.grow, row.weight)) for row in known]


def picture(seed: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray], Growing]:
    """Make a network whose first layer is a convolution on an image with few channels, and its
    inputs."""
    table = [row for row in TABLE if row.grow.__name__ in PICTURES]
    (conv,) = (row for row in table if row.grow.__name__ == "conv")
    g = Growing(seed, [conv])
    channels = g.random.choice([1, 2, 3, 3, 3, 4, 4])
    shape = [g.random.choice([1, 1, 1, 2]), channels, *(g.random.randint(4, 20) for _ in range(2))]
    g.add_input(g.made(shape, "float32"))
    while not g.step():
        pass
    g.table = table
    for _ in range(g.random.randint(0, 6)):
        g.step()
    model = g.model(g.nodes, outputs_of(g))
    return model, {each.name: g.values[each.name] for each in model.graph.input}, g


def grown(
    seed: int, quantised: bool = False
) -> tuple[onnx.ModelProto, dict[str, np.ndarray], Growing]:
    """Make a network of 4 to 14 steps and its inputs; ``quantised`` as by quantising tools."""
    g = Growing(seed, quantised_table() if quantised else None)
    shape = first_shape(g.random)
    g.add_input(g.made(shape, "float32" if quantised else g.random.choice(TYPES)))
    if g.chance(0.4) and not quantised:
        second = [each if g.chance(0.6) else 1 for each in shape][g.random.choice([0, 0, 1]) :]
        g.add_input(g.made(second, g.random.choice(TYPES)))
    wanted, tries, done = g.random.randint(4, 14), 0, 0
    while done < wanted and tries < 100:
        tries += 1
        done += g.step()
    if not g.nodes:
        return grown(seed + 10**9, quantised)
    model = g.model(g.nodes, outputs_of(g))
    return model, {each.name: g.values[each.name] for each in model.graph.input}, g


def outputs_of(g: Growing) -> list[str]:
    """Return all outputs of nodes without readers, and one with readers."""
    used = {name for node in g.nodes for name in node.input}
    made = [name for node in g.nodes for name in node.output if name]
    last = [name for name in made if name not in used]
    inner = [name for name in made if name in used]
    return last + ([g.random.choice(inner)] if inner else [])

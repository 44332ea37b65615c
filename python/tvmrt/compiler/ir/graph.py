"""The graph: values, nodes and their order, independent of any single operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .bundle import Bundle
from .dtype import DType, SourceType, dtype_of
from .mmap_constants import mmap_array
from .op import OPS, Op
from .sizes import SymInt, data_dependent_symbols
from .tensor_type import PerTensor, TensorType
from .traits import Trait


class Value:
    """Tensor in the graph: an input, a constant (``data`` set) or a node's output.

    A constant with ``keeps_layout`` is stored in the library in this order of elements in any case:
    kernels that can read this order need no other copy of it.
    """

    __slots__ = ("data", "keeps_layout", "name", "producer", "type")

    def __init__(
        self,
        name: str,
        type: TensorType,
        producer: Node | None = None,
        data: np.ndarray | None = None,
    ) -> None:
        self.name = name
        self.type = type
        self.producer = producer
        self.data = data
        self.keeps_layout = False

    @property
    def shape(self) -> tuple[SymInt, ...]:
        return self.type.shape

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


class Node:
    """Application of an operator.

    ``name`` is its name in the network. ``sources`` are the names of all nodes of the network that
    it stands for, quoted in errors and generated comments. ``guard`` is None, or (condition value,
    wanted truth): the node runs only if they agree.
    """

    __slots__ = ("attrs", "guard", "inputs", "name", "op", "outputs", "sources")

    def __init__(
        self,
        op: str,
        inputs: Sequence[Value | None],
        attrs: dict[str, Any],
        name: str,
        sources: tuple[str, ...] = (),
        guard: tuple[Value, bool] | None = None,
    ) -> None:
        self.op = op
        self.inputs = list(inputs)
        self.outputs: list[Value] = []
        self.attrs = attrs
        self.name = name
        self.sources = sources or (name,)
        self.guard = guard

    @property
    def operator(self) -> Op:
        """Operator that the node applies. Raise KeyError if none of its name is registered."""
        return OPS[self.op]

    def has(self, *traits: Trait) -> bool:
        """Return whether the node's operator has one of these traits."""
        return OPS[self.op].has(*traits)

    def set_outputs(self, values: Sequence[Value]) -> None:
        """Make the node the producer of these values; they are its results."""
        self.outputs = list(values)
        for value in values:
            value.producer = self

    @property
    def output(self) -> Value:
        """The output of a node that has exactly one."""
        (value,) = self.outputs
        return value

    def operands(self) -> list[Value]:
        """Return every value that the node reads: present inputs, its guard, and the data-dependent
        dimensions in its attributes and results."""
        operands = [v for v in self.inputs if v is not None]
        if self.guard is not None:
            operands.append(self.guard[0])
        shapes = [v.type.shape for v in self.outputs]
        sources = [s.source for s in data_dependent_symbols(self.attrs, *shapes)]
        operands += [source for source in sources if source not in operands]
        return operands

    def __repr__(self) -> str:
        return f"<{self.op} {self.name}>"


class Graph:
    """Graph of nodes in topological order.

    ``output_names[i]`` is the name of ``outputs[i]`` in the network; one value may have several
    names, and an input or a constant may be an output. ``op_types``: the network's operator type
    ("Conv") by node name. ``labels``: by output name the class names that its elements index or its
    columns stand for. ``bundles``: tensors of inputs and outputs that are not tensors, by name. The
    last ``state_count`` outputs are the state for the next run, see ``state.py``. ``licence``: the
    network's licence, "" if it has none. ``aliases``: further names of inputs, with their names.
    ``open_axes``: by input the dimension of each axis with a size that the file leaves open and
    the request does not declare, None for other axes.
    ``columns``: names of the columns of tables that the network takes; empty if they are unknown.
    ``input_quantization``, ``output_quantization``: of quantised inputs and outputs, by name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.outputs: list[Value] = []
        self.output_names: list[str] = []
        self.nodes: list[Node] = []
        self.operators: dict[str, Any] = {}  # records of the user-defined operators in use, by name
        self.op_types: dict[str, str] = {}
        self.labels: dict[str, list[str]] = {}
        self.bundles: dict[str, Bundle] = {}
        self.aliases: dict[str, str] = {}
        self.open_axes: dict[str, list[str | None]] = {}
        self.input_quantization: dict[str, PerTensor] = {}
        self.output_quantization: dict[str, PerTensor] = {}
        self.columns: tuple[str, ...] = ()
        self.state_count = 0
        self.licence = ""

    def consumers(self) -> dict[Value, list[Node]]:
        """Return every value read by some node, with its readers in order."""
        users: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in dict.fromkeys(node.operands()):
                users.setdefault(value, []).append(node)
        return users

    def __repr__(self) -> str:
        return f"<graph {self.name} of {len(self.nodes)} nodes>"

    def replace_many(self, mapping: dict[Value, Value]) -> None:
        """Replace each key by its value everywhere, following chains."""
        if not mapping:
            return

        def final(value: Value | None) -> Value | None:
            while value is not None and value in mapping:
                value = mapping[value]
            return value

        for node in self.nodes:
            node.inputs = [final(v) for v in node.inputs]
            if node.guard is not None:
                node.guard = (final(node.guard[0]), node.guard[1])
        self.outputs = [final(v) for v in self.outputs]

    def constants(self) -> list[Value]:
        """Return the constants that some node or output reads, in order of first use."""
        read = (v for node in self.nodes for v in node.operands())
        return [v for v in dict.fromkeys([*read, *self.outputs]) if v.is_constant]


def constant(array: np.ndarray, name: str, source: SourceType | None = None) -> Value:
    """Return a constant value. The array is kept; if it is large, it is written to a file.
    ``source``: its element type in the network's file, as for ``TensorType``."""
    # ascontiguousarray would turn a scalar into a vector of length one
    data = mmap_array(np.asarray(array, order="C"))
    return Value(name, TensorType(tuple(data.shape), dtype_of(data), source), data=data)


def walk_back(values: Iterable[Value]) -> set[Node]:
    """Return all nodes that the given values depend on."""
    seen: set[Node] = set()
    stack = [v.producer for v in values if v.producer is not None]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        stack += [v.producer for v in node.operands() if v.producer is not None]
    return seen

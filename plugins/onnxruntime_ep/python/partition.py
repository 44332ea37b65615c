"""Find the parts of a graph that tvmrt can compute, for onnxruntime to compute the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence

import onnx
from onnx import TensorProto, helper, shape_inference

from tvmrt.compiler.sdk.frontend import captured_names
from tvmrt.error import CompileError, InternalError, OpError, TVMError, UnsupportedError

Compile = Callable[[onnx.ModelProto, int], object]
Parts = list[tuple[int, ...]]
MAX_ATTEMPTS = 12
NODE = "ort{}"
"""Name of a node while it is compiled, so that errors name it uniquely."""
_NAMED = re.compile(r"\b" + NODE.format(r"(\d+)") + r"\b")


def find_parts(model: onnx.ModelProto, compile_part: Compile, min_nodes: int) -> Parts:
    """Return the node indices of each part that compiles.

    The whole graph is tried first. Nodes that the error of the compiler names are then left to
    onnxruntime, and the parts between them are tried, until all of them compile.

    Parameters
    ----------
    model
        Its nodes are in topological order.
    compile_part
        Compiles a model, whose first node has the given index; raises the errors of
        ``tvmrt.compile``.
    min_nodes
        Smaller parts are left to onnxruntime, unless a part is the whole graph.

    Raises
    ------
    CompileError
        If the C compiler is missing or fails.
    Exception
        If no part compiles: the first error, except those that name unsupported nodes.
    """
    graph = _Graph(model)
    refused = graph.nodes_with_other_values()
    tried: dict[tuple[int, ...], set[int]] = {}  # parts, with the nodes that prevent them
    others: list[Exception] = []
    for _ in range(MAX_ATTEMPTS):
        parts = [part for part in graph.parts(refused) if not refused or len(part) >= min_nodes]
        for part in parts:
            if part not in tried:
                tried[part] = _refused_by(graph, part, compile_part, others)
        more = set().union(*(tried[part] for part in parts))
        if not more:
            break
        refused |= more
    compiled = [part for part in parts if not tried[part]]
    if others and not compiled:
        raise others[0]
    return compiled


def _refused_by(
    graph: _Graph, part: Sequence[int], compile_part: Compile, others: list[Exception]
) -> set[int]:
    """Return the nodes of a part that prevent its compilation. An error that is not about nodes
    that the compiler lacks is added to ``others``."""
    extracted = graph.extract(part)
    if extracted is None:
        return set(part)
    try:
        compile_part(extracted, part[0])
        return set()
    except CompileError:
        raise  # the C compiler is missing or failed: no other part compiles either
    except (TVMError, ValueError, KeyError, TypeError, MemoryError, OSError) as error:
        names = [] if isinstance(error, InternalError) else _NAMED.findall(str(error))
        named = {part[int(index)] for index in names if int(index) < len(part)}
        if not named or not isinstance(error, (UnsupportedError, OpError)):
            others.append(error)
        return named or set(part)


class _Graph:
    """A graph with the types of its values."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.nodes = model.graph.node
        self.constants = {each.name: each for each in model.graph.initializer}
        self.outputs = {each.name for each in model.graph.output}
        try:
            typed = shape_inference.infer_shapes(model, data_prop=True)
        except Exception:  # of the onnx package, of many types; then fewer types are known
            typed = model
        self.infos = {}
        for graph in (typed.graph, model.graph):  # the model's own types take precedence
            listed = (*graph.value_info, *graph.output, *graph.input)
            self.infos.update({each.name: each for each in listed})
        self.producer = {
            name: index for index, node in enumerate(self.nodes) for name in node.output if name
        }
        self.reads = [self.read_by(node) for node in self.nodes]

    def read_by(self, *nodes: onnx.NodeProto) -> list[str]:
        """Return the values of this graph that nodes read, also in their bodies, except their own
        results."""
        read = captured_names(onnx.GraphProto(node=nodes))
        return [n for n in read if n in self.producer or n in self.constants or n in self.infos]

    def is_tensor(self, name: str) -> bool:
        """Return whether a value is known to be a tensor of numbers."""
        info = self.infos.get(name)
        if info is None or info.type.WhichOneof("value") != "tensor_type":
            return False
        return info.type.tensor_type.elem_type not in (TensorProto.UNDEFINED, TensorProto.STRING)

    def nodes_with_other_values(self) -> set[int]:
        """Return the nodes that read or write an input or output of the graph that is not a tensor
        of numbers: the execution provider cannot pass such values."""
        ends = (*self.model.graph.input, *self.model.graph.output)
        others = {each.name for each in ends if not self.is_tensor(each.name)}
        return {i for i, node in enumerate(self.nodes) if others & {*self.reads[i], *node.output}}

    def parts(self, refused: Collection[int]) -> Parts:
        """Return the nodes between the refused ones, in connected parts.

        Nodes of one part have the same number of changes between refused and other nodes on the
        path to them that has most, so no path leaves a part and comes back.
        """
        if not refused:
            return [tuple(range(len(self.nodes)))] if self.nodes else []
        level: list[int] = []
        root = list(range(len(self.nodes)))

        def find(i: int) -> int:
            while root[i] != i:
                root[i] = root[root[i]]
                i = root[i]
            return i

        for index, reads in enumerate(self.reads):
            before = [self.producer[name] for name in reads if name in self.producer]
            changes = [level[i] + ((i in refused) != (index in refused)) for i in before]
            level.append(max(changes, default=int(index in refused)))
            for i in before:
                if level[i] == level[index]:
                    root[find(index)] = find(i)
        parts: dict[int, list[int]] = {}
        for index in range(len(self.nodes)):
            if index not in refused:
                parts.setdefault(find(index), []).append(index)
        return [tuple(part) for part in parts.values()]

    def extract(self, part: Sequence[int]) -> onnx.ModelProto | None:
        """Return the model of a part; None if a value at its boundary is not a tensor of
        numbers."""
        nodes, inside = [self.nodes[i] for i in part], set(part)
        reads = self.read_by(*nodes)
        read_later = {n for i, names in enumerate(self.reads) if i not in inside for n in names}
        inputs = [name for name in reads if name not in self.constants]
        outputs = [n for node in nodes for n in node.output if n in self.outputs | read_later]
        if not all(map(self.is_tensor, (*inputs, *outputs))):
            return None
        graph = helper.make_graph(
            nodes,
            "graph",
            [self.infos[name] for name in inputs],
            [self.infos[name] for name in outputs],
            [self.constants[name] for name in reads if name in self.constants],
        )
        return helper.make_model(
            graph, opset_imports=self.model.opset_import, ir_version=self.model.ir_version
        )

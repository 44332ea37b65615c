"""Lowering of a region's operators to kernels: views become access patterns of kernels, and chains
of pointwise nodes become one kernel."""

from __future__ import annotations

from tvmrt.compiler.ir import Graph, Node, Trait, Value
from tvmrt.compiler.ir.custom import text_of_types
from tvmrt.compiler.ir.op import VIEW, get_op
from tvmrt.compiler.ir.strided import dense
from tvmrt.compiler.ir.value_users import ValueUsers
from tvmrt.plugins.opencl import gather, pointwise, quantized  # these register their kernels
from tvmrt.plugins.opencl.kernel import Kernel, Operand
from tvmrt.plugins.opencl.kernels import BUILDERS, copy
from tvmrt.plugins.opencl.operator import KERNEL, lower_custom
from tvmrt.plugins.opencl.recurrent import lower_cell

__all__ = ["gather", "is_pointwise", "lower", "quantized"]

# Kernels that require row-major operands.
_DENSE = {"layer_norm"}
# Devices need not support more than 1024 bytes of arguments.
MAX_FUSED = 16  # pointwise nodes in one kernel


def lower(graph: Graph) -> None:
    """Replace every node by kernels, in place; outputs keep their types."""
    lower_custom(graph)
    _Lowering(graph).run()


def is_pointwise(node: Node) -> bool:
    return pointwise.template(node) is not None if len(node.outputs) == 1 else False


class _Lowering:
    """Lowering of a graph's nodes to kernels."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.readers = ValueUsers(graph)
        self.old = list(graph.nodes)
        self.operand: dict[Value, Operand] = {}
        self.nodes: list[Node] = []

    def run(self) -> None:
        for node in self.old:
            if is_pointwise(node):
                if not self._is_fused_with_reader(node):
                    self._pointwise(node)
            elif get_op(node.op).kind == VIEW:
                self._view(node)
            elif node.op == KERNEL:
                self._lower_user_kernel(node)
            elif node.has(Trait.RECURRENT):
                dense_inputs = [v and self._dense(v, node).buffer for v in node.inputs]
                self.nodes.append(lower_cell(node, dense_inputs))
            else:
                operands = [self._operand_for(node, v) for v in node.inputs]
                self._emit(BUILDERS[node.op](node, operands), node, node.outputs[0])
        self.graph.outputs = [self._output(v) for v in self.graph.outputs]
        self.graph.nodes = self.nodes

    # Operands

    def _access_pattern(self, value: Value) -> Operand:
        """Return the value's access pattern; inputs and constants are dense."""
        return self.operand.setdefault(value, Operand(value, dense(value.shape)))

    def _operand_for(self, node: Node, value: Value | None) -> Operand | None:
        if value is None:
            return None
        return self._dense(value, node) if node.op in _DENSE else self._access_pattern(value)

    def _dense(self, value: Value, node: Node) -> Operand:
        """Return the value in a separate row-major buffer."""
        operand = self._access_pattern(value)
        whole = operand.buffer.type.size == operand.at.size
        if not (operand.at.is_dense() and operand.at.offset == 0 and whole):
            made = Value(f"{value.name}_dense", value.type)
            self._emit(copy(operand), node, made)
            operand = self.operand[value] = Operand(made, dense(value.shape))
        return operand

    # Nodes

    def _emit(self, kernel: Kernel, node: Node, result: Value) -> None:
        attrs = kernel.attributes(text_of_types([result.type]))
        made = Node(KERNEL, kernel.buffers, attrs, node.name, node.sources)
        made.set_outputs([result])
        self.nodes.append(made)

    def _view(self, node: Node) -> None:
        value = node.inputs[0]
        operand = self._access_pattern(value)
        at = get_op(node.op).access(operand.at, node.attrs)
        if at is None:  # strides cannot express the view of this layout
            operand = self._dense(value, node)
            at = get_op(node.op).access(operand.at, node.attrs)
        self.operand[node.output] = Operand(operand.buffer, at)

    def _lower_user_kernel(self, node: Node) -> None:
        """Emit a user's kernel, whose operands are row-major."""
        buffers = [None if v is None else self._dense(v, node).buffer for v in node.inputs]
        made = Node(KERNEL, buffers, node.attrs, node.name, node.sources)
        made.set_outputs(node.outputs)
        self.nodes.append(made)

    # Pointwise nodes

    def _is_fused_with_reader(self, node: Node) -> bool:
        """Return whether the only reader is fused with the node."""
        value = node.output
        reader = self.readers.only(value)
        return (
            reader is not None
            and is_pointwise(reader)
            and reader.output.shape == value.shape
            and self._chain_length(reader) <= MAX_FUSED
        )

    def _chain_length(self, node: Node) -> int:
        """Return the number of pointwise nodes in this one's chains of single readers."""
        total, stack = 0, [node]
        while stack and total <= MAX_FUSED:
            at = stack.pop()
            total += 1
            for value in at.inputs:
                producer = value.producer
                single = len(self.readers.of(value)) == 1
                if producer is not None and single and is_pointwise(producer):
                    stack.append(producer)
        return total

    def _pointwise(self, node: Node) -> None:
        result = node.output
        k = Kernel("pointwise", result.dtype, result.type.size)
        index = k.split("i", result.shape, "d")
        done: dict[Value, str] = {}
        sources = dict.fromkeys(s for n in self._fused_nodes(node) for s in n.sources)
        k.line(f"out[i] = {self._value(k, node, index, done)};")
        self._emit(k, Node(node.op, [], {}, node.name, tuple(sources)), result)

    def _fused_nodes(self, node: Node) -> list[Node]:
        """Return the node and those that are fused into its kernel."""
        result = [node]
        for value in node.inputs:
            if self._is_fused(value):
                result += self._fused_nodes(value.producer)
        return result

    def _is_fused(self, value: Value) -> bool:
        producer = value.producer
        return (
            producer is not None
            and value not in self.operand
            and not value.is_constant
            and is_pointwise(producer)
            and self._is_fused_with_reader(producer)
        )

    def _value(self, k: Kernel, node: Node, index, done: dict[Value, str]) -> str:
        shape = node.output.shape
        names = [self._element(k, v, shape, index, done) for v in node.inputs]
        return pointwise.expression(node, names)

    def _element(self, k: Kernel, value: Value, shape, index, done: dict[Value, str]) -> str:
        if value not in done:
            if self._is_fused(value):
                text = self._value(k, value.producer, index, done)
            else:
                operand = self._access_pattern(value)
                text = k.load(Operand(operand.buffer, operand.at.expand(shape)), index)
            name = f"v{len(done)}"
            k.line(f"const {pointwise.cl_type(value.dtype)} {name} = {text};")
            done[value] = name
        return done[value]

    # Outputs

    def _output(self, value: Value) -> Value:
        """Return the region's output: computed by a kernel, or an alias of its buffer."""
        operand = self.operand.get(value)
        if operand is None and value.producer in self.nodes:
            return value
        node = value.producer or Node("identity", [], {}, value.name)
        buffer = self._dense(value, node).buffer
        alias = Node("reshape", [buffer], {"shape": value.shape}, node.name, node.sources)
        alias.outputs = [Value(value.name, value.type, alias)]
        self.nodes.append(alias)
        return alias.outputs[0]

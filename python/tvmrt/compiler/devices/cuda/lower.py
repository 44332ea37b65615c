"""A region's operators as kernels and products: as on opencl, but that cuBLAS multiplies."""

from __future__ import annotations

from math import prod

from tvmrt.compiler.ir import Graph, Node, TensorType, Value
from tvmrt.compiler.ir.custom import text_of_types

from ..opencl.kernel import Kernel, Operand
from ..opencl.lower import Lowering
from .products import Product, columns, is_plain, matrices, product_of

MAX_COLUMNS = 2**25  # elements of a convolution's windows written out: 128 MB
MIN_TAPS = 8  # products a sum of a convolution that is worth writing out


def lower(graph: Graph) -> None:
    """Replace every node by those of the device, in place; outputs keep their types."""
    _split_biases(graph)
    _Lowering(graph).run()


def _is_product(node: Node) -> bool:
    """Whether cuBLAS computes the node."""
    if 0 in (*node.outputs[0].shape, *(n for v in node.inputs[:2] if v for n in v.shape)):
        return False
    if node.op == "matmul":
        return matrices(node) is not None
    if node.op != "conv" or node.attrs["groups"] != 1:
        return False
    taps = prod(node.inputs[1].shape[1:])
    written = taps * prod(node.output.shape[2:]) * node.output.shape[0]
    return taps >= MIN_TAPS and written <= MAX_COLUMNS


def _split_biases(graph: Graph) -> None:
    """Biases of products as nodes of their own, which become one kernel with what follows."""
    nodes = []
    for node in graph.nodes:
        nodes.append(node)
        if len(node.inputs) < 3 or node.inputs[2] is None or not _is_product(node):
            continue
        bias, result = node.inputs[2], node.output
        node.inputs = node.inputs[:2]
        product = Value(f"{result.name}_product", result.type, node)
        node.outputs = [product]
        if node.op == "conv":
            bias = _of_channels(bias, len(result.shape), node, nodes)
        added = Node("add", [product, bias], {}, node.name, node.sources)
        added.give([result])
        nodes.append(added)
    graph.nodes = nodes


def _of_channels(bias: Value, rank: int, node: Node, nodes: list[Node]) -> Value:
    """A number for each channel, as an operand that broadcasts over a tensor of images."""
    shape = (bias.type.size, *(1,) * (rank - 2))
    view = Node("reshape", [bias], {"shape": shape}, node.name, node.sources)
    view.outputs = [Value(f"{bias.name}_channels", TensorType(shape, bias.dtype), view)]
    nodes.append(view)
    return view.output


class _Lowering(Lowering):
    op = "custom_cuda"

    def emit(self, kernel: Kernel, node: Node, result: Value) -> None:
        super().emit(kernel, node, result)
        if "FP_CONTRACT OFF" in kernel.helpers:  # a pragma of OpenCL C alone
            self.nodes[-1].attrs["build_options"] = "--fmad=false"

    def compute(self, node: Node, operands: list[Operand | None]) -> None:
        if not _is_product(node):
            super().compute(node, operands)
        elif node.op == "matmul":
            self._multiply(node, self._matmul(node, operands))
        else:
            self._multiply(node, self._convolution(node, operands))

    def _matmul(self, node: Node, operands: list[Operand | None]) -> Product:
        sizes = matrices(node)
        product = product_of(sizes, operands)
        if product is None:  # one of them lies as cuBLAS cannot read it
            operands = [self._dense(v, node) for v in node.inputs[:2]]
            product = product_of(sizes, operands)
        assert product is not None  # dense operands always are
        return product

    def _convolution(self, node: Node, operands: list[Operand | None]) -> Product:
        """Weights times the windows of each image, written out unless they are its pixels."""
        x = operands[0]
        w = self._dense(node.inputs[1], node)
        images, channels = node.output.shape[:2]
        pixels, taps = prod(node.output.shape[2:]), prod(node.inputs[1].shape[1:])
        if is_plain(node, x.at):
            step, lead, offset, of = x.at.strides[0], x.at.strides[1], x.at.offset, x.buffer
            lead = lead if taps > 1 else pixels
        else:
            shape = (images, taps, pixels)
            of = Value(f"{node.name}_windows", TensorType(shape, x.buffer.dtype))
            self.emit(columns(node, x), node, of)
            step, lead, offset = taps * pixels, pixels, 0
        return Product(
            (images, channels, pixels, taps),
            (w.buffer, [w.at.offset, taps, 0, 0]),
            (of, [offset, lead, step if images > 1 else 0, 0]),
        )

    def _multiply(self, node: Node, product: Product) -> None:
        (a, how_a), (b, how_b) = product.a, product.b
        types = text_of_types([node.output.type])
        attrs = {"sizes": list(product.sizes), "a": how_a, "b": how_b, "types": types}
        made = Node("custom_cuda_product", [a, b], attrs, node.name, node.sources)
        made.give(node.outputs)
        self.nodes.append(made)

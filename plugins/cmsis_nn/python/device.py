"""CMSIS-NN device: supported nodes, and C source of its regions."""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.sdk.devices import Annotation, Context, Device, register
from tvmrt.compiler.sdk.graph import CSource, Graph, Node, Packaged, Region, Vendor
from tvmrt.error import UnsupportedError
from tvmrt.plugins.cmsis_nn.calls import HEAD, function
from tvmrt.plugins.cmsis_nn.layers import layer_of
from tvmrt.plugins.cmsis_nn.matching import find_row_layers

CMSIS_NN = Vendor(
    variable="CMSIS_NN",
    title="CMSIS-NN",
    include="Include",
    header="arm_nnfunctions.h",
    sources=("Source/*/*.c",),
    # float kernels, which CMSIS-NN's own build also excludes by default
    excluded=("Source/*/*_f16.c", "Source/*/*_f32.c", "Source/*/*_flt.c"),
)
_GROUPS = "BASICMATH CONVOLUTION FULLYCONNECTED NNSUPPORT"
PACKAGED = Packaged(
    kconfig=("CMSIS_NN", *(f"CMSIS_NN_{group}" for group in _GROUPS.split())),
    component=("CMSIS", "NN Lib"),
    pack=("ARM", "CMSIS-NN"),
)


@register
class CmsisNN(Device):
    """CMSIS-NN: Arm's int8 kernels for Cortex-M, for firmware archives; convolution, matmul,
    add, multiply."""

    name = "cmsis-nn"
    real_time = True

    def refuses(self, context: Context) -> str | None:
        if context.runtime == "crt":
            return None
        return "CMSIS-NN is for firmware; name a target such as cortex-m4"

    def supports(self, node: Node) -> str | None:
        """Check a single node; ``annotate`` finds layers of several nodes."""
        return self.annotate(_single_node_graph(node))[node]

    def annotate(self, graph: Graph) -> Annotation:
        reasons: dict[Node, str | None] = {}
        groups: dict[Node, int] = {}
        for number, nodes in enumerate(find_row_layers(graph)):
            reason = None
            try:
                layer_of(nodes)
            except UnsupportedError as problem:
                reason = str(problem)
            reasons.update(dict.fromkeys(nodes, reason))
            groups.update(dict.fromkeys(nodes, number))
        for node in graph.nodes:
            reasons.setdefault(node, _unsupported_reason(node))
        return Annotation(reasons, groups)

    def evaluate(self, region: Region) -> str | None:
        """Check that the region is a whole layer; a part is rejected if the rest is elsewhere."""
        matches = find_row_layers(region.graph)
        if len(matches) != 1 or len(matches[0]) != len(region.nodes) or len(region.outputs) != 1:
            return "a part of the layer is elsewhere"
        layer_of(matches[0])
        return None

    def codegen(self, regions: Sequence[Region], context: Context) -> CSource:
        texts, needs = [HEAD], {}
        for region in regions:
            (nodes,) = find_row_layers(region.graph)
            text, needs[region.symbol] = function(region, layer_of(nodes), context.board)
            texts.append(text)
        return CSource("\n".join(texts), needs=needs, vendor=CMSIS_NN, packaged=PACKAGED)


def _single_node_graph(node: Node) -> Graph:
    graph = Graph(node.name)
    graph.nodes, graph.outputs = [node], list(node.outputs)
    return graph


def _unsupported_reason(node: Node) -> str:
    kinds = {v.dtype.name for v in (*node.operands(), *node.outputs)}
    if "int8" in kinds:
        return f"CMSIS-NN has no kernel for {node.op} here"
    return f"CMSIS-NN computes in int8, not in {node.outputs[0].dtype}"

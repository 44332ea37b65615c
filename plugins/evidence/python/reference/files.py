"""The files of a reference: constants as arrays, one function for each node, and a run."""

from __future__ import annotations

from pathlib import Path

from tvmrt.compiler.sdk.codegen import identifier
from tvmrt.compiler.sdk.graph import Graph, Node, Value

from . import movement, pointwise, products, recurrent, reductions  # noqa: F401 (they register)
from .code import PRINTERS, NodeCode, bits_text, c_type
from .quantised import Layer, find_layers, print_layer

HELPERS = Path(__file__).with_name("helpers.h")


def missing(graph: Graph) -> list[str]:
    """Return what the reference cannot express of an imported network; empty if it is whole."""
    problems = []
    for node in graph.nodes:
        if not _is_printed(node):
            types = ", ".join(str(v.dtype) for v in node.inputs if v is not None)
            problems.append(f"operator {node.op} of node {node.name} on {types}")
    return problems


def _is_printed(node: Node) -> bool:
    tensors = [*node.operands(), *node.outputs]
    if node.guard is not None or node.op not in PRINTERS:
        return False
    if any(v.dtype.is_half or v.dtype.is_low_bit or v.dtype.name == "handle" for v in tensors):
        return False
    if node.op == "qmatmul":
        return node.attrs["to"] in ("int32", "float32")
    if PRINTERS[node.op] is movement.move:
        return movement.sources(node) is not None
    return PRINTERS[node.op] is not pointwise.pointwise or pointwise.formula(node) is not None


def texts(graph: Graph, name: str) -> dict[str, str]:
    """Return C of an imported network, which no pass has changed, in the plainest way, by file.

    ``NAME_reference.c`` has one function of nested loops for each node and
    ``NAME_reference_run(inputs, outputs)``, ``NAME_constants.h`` the weights. They need a C99
    compiler with ``-ffp-contract=off`` and the C library. Of the compiler only the imported graph
    and the definitions of operators that are pointwise or move elements are used: no pass, no plan,
    no kernel. Sums are sequential in double. float32 tensors are kept in double, too, unless the
    network quantises: there each result is rounded as the network defines. ``name``, a C
    identifier, begins all names of the files. The sizes are fixed, and ``missing`` names no reason.
    """
    layers = find_layers(graph)
    names = _tensor_names(graph, layers)
    return {
        f"{name}_constants.h": _constants(graph, names),
        f"{name}_reference.c": _source(graph, layers, names, name),
    }


def _tensor_names(graph: Graph, layers: dict[Node, Layer]) -> dict[Value, str]:
    """Return the C array of each tensor: t1, t2, ... in order, c1, c2, ... for constants."""
    integers = [layer.weights.inputs[0] for layer in layers.values()]
    constants = dict.fromkeys([*graph.constants(), *integers])
    tensors = [*graph.inputs, *(v for node in graph.nodes for v in node.outputs)]
    names = {v: f"c{i}" for i, v in enumerate(constants, 1)}
    return names | {v: f"t{i}" for i, v in enumerate(tensors, 1)}


def _declare(value: Value, name: str) -> str:
    return f"{c_type(value)} {name}[{max(value.type.size, 1)}]"


def _constants(graph: Graph, names: dict[Value, str]) -> str:
    """Return definitions of the constants by their bits: compilers read integers much faster."""
    parts = [f"/* Constants of {_comment(graph.name)} by their bits. */\n#include <stdint.h>\n"]
    for value, name in names.items():
        if value.is_constant:
            bits, size = max(value.dtype.bits, 8), max(value.type.size, 1)
            parts.append(
                f"\n/* {_comment(value.name)}: {value.type} */\n"
                f"static const union {{ uint{bits}_t bits[{size}]; {value.dtype.c} of[{size}]; }} "
                f"bits_of_{name} = {{{{\n{bits_text(value.data)}}}}};\n"
                f"#define {name} bits_of_{name}.of\n"
            )
    return "".join(parts)


def _comment(text: str) -> str:
    """Return a name as text of a C comment."""
    return text.replace("*/", "* /").replace("/*", "/ *").encode("ascii", "replace").decode()


def _source(graph: Graph, layers: dict[Node, Layer], names: dict[Value, str], name: str) -> str:
    rounds = any(node.op in ("quantize", "dequantize") for node in graph.nodes)
    lines = [
        f"/* Reference of the network {_comment(graph.name)}: one function for each node. */",
        f'#include "{name}_constants.h"',
        f"\ntypedef {'float' if rounds else 'double'} real; /* of float32 tensors */\n",
        HELPERS.read_text(),
    ]
    for value, tensor in names.items():
        if not value.is_constant:
            lines.append(f"static {_declare(value, tensor)}; /* {_comment(value.name)} */")
    run = [
        "\n/* Compute all tensors; inputs and outputs: arrays of the network's element types, in",
        " * its order. Return 0, or -1 if an index lies outside of its tensor. */",
        f"int {name}_reference_run(const void* const* inputs, void* const* outputs) {{",
    ]
    run.append("  ref_outside = 0;")
    run += [_copy(f"{names[v]}[i]", f"inputs[{i}]", v, True) for i, v in enumerate(graph.inputs)]
    parts = {node for layer in layers.values() for node in layer.nodes}
    for index, node in enumerate(graph.nodes, 1):
        if node not in parts:
            function = f"node{index}_{identifier(node.op)}"
            lines += _function(node, layers.get(node), names, function)
            run.append(f"  {function}();")
    run += [_copy(f"{names[v]}[i]", f"outputs[{i}]", v, False) for i, v in enumerate(graph.outputs)]
    return "\n".join([*lines, *run, "  return ref_outside ? -1 : 0;", "}"]) + "\n"


def _copy(element: str, array: str, value: Value, reads: bool) -> str:
    outer = f"(({'const ' * reads}{value.dtype.c}*){array})[i]"
    text = f"{element} = {outer}" if reads else f"{outer} = ({value.dtype.c}){element}"
    return f"  for (long i = 0; i < {value.type.size}; i++) {text};"


def _function(node: Node, layer: Layer | None, names: dict[Value, str], function: str) -> list[str]:
    code = NodeCode(node, names)
    if layer is None:
        PRINTERS[node.op](code)
    else:
        print_layer(code, layer)
    nodes = [node] if layer is None else [*layer.nodes[::-1], node]
    read = ", ".join(f"{names[v]} {list(v.shape)}" for v in nodes[0].operands())
    made = ", ".join(f"{names[v]} {list(v.shape)}" for v in node.outputs)
    which = ", ".join(f"{_comment(n.name)} ({n.op})" for n in nodes)
    head = f"\n/* {which}: {read} -> {made} */"
    return [head, f"static void {function}(void) {{", *code.lines, "}"]

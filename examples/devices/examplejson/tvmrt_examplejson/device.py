"""examplejson: graphs as lines of text, for the custom runtime of the guide "Bring your own code
generator". The other half is the runtime's module kind ``examplejson``.

Each region becomes a subgraph: its name, a line per input, a line per operator::

    subgraph_0
    input 0 10 10
    input 1 10 10
    add 2 inputs: 0 1 shape: 10 10
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.sdk.devices import Context, Device, ExprVisitor, missing, register
from tvmrt.compiler.sdk.graph import ModuleBlob, Node, Region, Value

OPERATORS = ("add", "sub", "mul")
MAX_RANK = 8
PREFIX = "subgraph_"  # distinguishes the name of a subgraph from an operator


class ExampleJsonCodeGen(ExprVisitor):
    """Visitor of a region; ``gen`` returns its text. Visiting a value returns its number."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def visit_var(self, value: Value) -> int:
        return self._line(f"input {{}} {_extents(value)}")

    def visit_call(self, node: Node) -> int:
        inputs = " ".join(str(self.visit(v)) for v in node.inputs if v is not None)
        return self._line(f"{node.op} {{}} inputs: {inputs} shape: {_extents(node.output)}")

    def _line(self, text: str) -> int:
        number = len(self.lines)
        self.lines.append(text.format(number).rstrip())
        return number

    def gen(self, region: Region) -> str:
        """Return the region as ExampleJSON text."""
        self.visit_region(region)
        return "\n".join([region.symbol, *self.lines, ""])


def _extents(value: Value) -> str:
    return " ".join(map(str, value.shape))


@register
class ExampleJson(Device):
    """Addition, subtraction and multiplication of float32 tensors of equal shapes."""

    name = "examplejson"
    single_result = True

    def absent(self) -> str | None:
        """Return the reason if the runtime lacks the module kind."""
        return missing(self.name)

    def supports(self, node: Node) -> str | None:
        if node.op not in OPERATORS:
            return f"ExampleJSON has add, sub and mul, not {node.op}"
        if node.output.dtype.name != "float32":
            return f"ExampleJSON computes in float32, not in {node.output.dtype}"
        operands = [v for v in node.inputs if v is not None]
        if any(v.is_constant for v in operands):
            return "ExampleJSON has no constants"
        if any(v.shape != node.output.shape for v in operands):
            return "ExampleJSON does not broadcast"
        if node.output.type.rank > MAX_RANK:
            return f"ExampleJSON has tensors of rank {MAX_RANK} at most"
        return None

    def codegen(self, regions: Sequence[Region], context: Context) -> ModuleBlob:
        for region in regions:
            if not region.symbol.startswith(PREFIX):
                region.symbol = PREFIX + region.symbol
        text = "".join(ExampleJsonCodeGen().gen(region) for region in regions).encode()
        return ModuleBlob(self.name, len(text).to_bytes(8, "little") + text)

"""A kernel and its parameters, as OpenCL C text.

A kernel's parameters are pointers to its operands and its result, then ``int`` scalars. Extents and
strides are scalars, so that layers of one kind share a program. Tensors are row-major.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvmrt.compiler.sdk.arithmetic import round_up
from tvmrt.compiler.sdk.graph import Node, Value, text_of_types
from tvmrt.compiler.sdk.program import dense

LOCAL_SIZE = 64
MAX_ELEMENTS = 2**31 - LOCAL_SIZE  # indices are computed in 32 bits

CL_TYPES = {
    "float32": "float",
    "int8": "char",
    "uint8": "uchar",
    "int16": "short",
    "uint16": "ushort",
    "int32": "int",
    "uint32": "uint",
    "int64": "long",
    "uint64": "ulong",
    "bool": "uchar",
}


class Kernel:
    """Kernel of a node, in which each work item computes one element of the result, ``out[i]``.

    ``scalar``, ``split`` and ``load`` return names and expressions for ``line``.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = f"tvmrt_{node.op}"  # OpenCL has functions such as exp
        self.buffers = list(dict.fromkeys(v for v in node.inputs if v is not None))
        self._scalars: list[int] = []
        self._lines: list[str] = []

    def line(self, text: str) -> None:
        self._lines.append(text)

    def scalar(self, value: int) -> str:
        """Return an int parameter with this value."""
        self._scalars.append(int(value))
        return f"a{len(self._scalars) - 1}"

    def split(self, shape: Sequence[int]) -> list[str]:
        """Declare the index in each dimension of the result's element; return the names."""
        names = [f"o{d}" for d in range(len(shape))]
        rest = "i"
        for name, extent in reversed(list(zip(names, shape))):
            given = self.scalar(extent)
            self.line(f"const int {name} = {rest} % {given};")
            rest = f"({rest}) / {given}"
        return names

    def load(self, operand: Value, index: Sequence[str]) -> str:
        """Return an operand's element; extents of 1, and missing leading axes, repeat."""
        axes = zip(index[len(index) - len(operand.shape) :], dense(operand.shape).strides)
        terms = [
            f"{name} * {self.scalar(stride)}"
            for (name, stride), extent in zip(axes, operand.shape)
            if extent != 1
        ]
        return f"in{self.buffers.index(operand)}[{' + '.join(terms) or '0'}]"

    def _source(self) -> str:
        inputs = [CL_TYPES[b.dtype.name] for b in self.buffers]
        params = [f"__global const {t} *restrict in{k}" for k, t in enumerate(inputs)]
        params.append(f"__global {CL_TYPES[self.node.output.dtype.name]} *restrict out")
        params.append("const int count")
        params += [f"const int a{k}" for k in range(len(self._scalars))]
        head = f"__kernel void {self.name}(\n    " + ",\n    ".join(params) + ") {\n"
        lines = ["const int i = get_global_id(0);", "if (i >= count) return;", *self._lines]
        return head + "".join(f"  {line}\n" for line in lines) + "}\n"

    def attributes(self) -> dict:
        """Return the attributes of the kernel's node."""
        result = self.node.output.type
        scalars = [result.size, *self._scalars]
        return {
            "operator": self.node.op,
            "source": self._source(),
            "function": self.name,
            "build_options": "",
            "global_size": [round_up(max(result.size, 1), LOCAL_SIZE)],
            "local_size": [LOCAL_SIZE],
            "scalar_types": " ".join(["int"] * len(scalars)),
            "scalars": [float(v) for v in scalars],
            "types": text_of_types([result]),
        }

"""A kernel and its parameters, as OpenCL C text.

A kernel's parameters are pointers to its inputs and its output, then ``int`` and ``float`` scalars.
Extents, strides and scales are scalars, so that layers of one kind share a program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvmrt.compiler.ir import Value
from tvmrt.compiler.ir.dtype import DType
from tvmrt.compiler.ir.rounding import round_up
from tvmrt.compiler.ir.strided import Strided
from tvmrt.error import UnsupportedError

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


def cl_type(dtype: DType) -> str:
    """Return the type's name in OpenCL C. Raises UnsupportedError for optional types."""
    if dtype.name not in CL_TYPES:
        raise UnsupportedError(f"OpenCL devices may not support {dtype}")
    return CL_TYPES[dtype.name]


@dataclass(frozen=True)
class Operand:
    """Tensor as a kernel reads it: a buffer, and the mapping from indices to its elements."""

    buffer: Value
    at: Strided


@dataclass
class Kernel:
    """Kernel in which each work item computes one element of the result.

    ``ints`` and ``floats`` collect scalars. ``pointer``, ``scalar``, ``number`` and ``load`` return
    names for ``body``, whose lines have the element's index in ``i``.
    """

    name: str
    result: DType
    count: int
    buffers: list[Value] = field(default_factory=list)
    ints: list[int] = field(default_factory=list)
    floats: list[float] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    helpers: str = ""

    def line(self, text: str) -> None:
        self.body.append(text)

    def scalar(self, value: int) -> str:
        """Return an int parameter with this value."""
        self.ints.append(int(value))
        return f"a{len(self.ints) - 1}"

    def number(self, value: float) -> str:
        """Return a float parameter with this value, rounded to 32 bits."""
        self.floats.append(float(value))
        return f"f{len(self.floats) - 1}"

    def pointer(self, buffer: Value) -> str:
        """Return a parameter that points to this buffer; one parameter per buffer."""
        if buffer not in self.buffers:
            self.buffers.append(buffer)
        return f"in{self.buffers.index(buffer)}"

    def split(self, number: str, shape: Sequence[int], prefix: str) -> list[str]:
        """Declare the index in each dimension of a tensor's element, from its linear index."""
        names = [f"{prefix}{d}" for d in range(len(shape))]
        rest = number
        for d in reversed(range(len(shape))):
            if d == 0:
                self.line(f"const int {names[d]} = {rest};")
            else:
                extent = self.scalar(shape[d])
                self.line(f"const int {names[d]} = ({rest}) % {extent};")
                rest = f"({rest}) / {extent}"
        return names

    def element_offset(self, at: Strided, index: Sequence[str]) -> str:
        """Return the expression of an element's offset in its buffer."""
        terms = [self.scalar(at.offset)] if at.offset else []
        for name, stride, extent in zip(index, at.strides, at.shape):
            if stride == 0 or extent == 1:
                continue
            terms.append(name if stride == 1 else f"{name} * {self.scalar(stride)}")
        return " + ".join(terms) or "0"

    def load(self, operand: Operand, index: Sequence[str]) -> str:
        """Return the expression of an operand's element."""
        return f"{self.pointer(operand.buffer)}[{self.element_offset(operand.at, index)}]"

    def source(self) -> str:
        """Return the program's text."""
        params = [
            f"__global const {cl_type(b.dtype)} *restrict in{k}" for k, b in enumerate(self.buffers)
        ]
        params.append(f"__global {cl_type(self.result)} *restrict out")
        params.append("const int count")
        params += [f"const int a{k}" for k in range(len(self.ints))]
        params += [f"const float f{k}" for k in range(len(self.floats))]
        lines = "\n".join(f"  {text}" for text in self.body)
        return (
            f"{self.helpers}__kernel void {self.name}(\n    "
            + ",\n    ".join(params)
            + ") {\n  const int i = get_global_id(0);\n  if (i >= count) return;\n"
            + f"{lines}\n}}\n"
        )

    def attributes(self, types: str) -> dict:
        """Return the attributes of the kernel's node."""
        if self.count > MAX_ELEMENTS:
            raise UnsupportedError(f"a tensor of {self.count} elements is too large")
        scalars = [self.count, *self.ints]
        scalar_types = ["int"] * len(scalars) + ["float"] * len(self.floats)
        items = round_up(self.count, LOCAL_SIZE)
        return {
            "operator": self.name,
            "source": self.source(),
            "function": self.name,
            "build_options": "",
            "global_size": [items],
            "local_size": [LOCAL_SIZE],
            "scalar_types": " ".join(scalar_types),
            "scalars": [float(v) for v in (*scalars, *self.floats)],
            "types": types,
        }

"""What an operator's importer sees: its operands as values and as the file has them, its options.

Tensors keep the format's order, channels last; convolutions and pools of the IR have channels
second. Transposes between the two cost nothing, for memory has channels last either way, but they
would stand between a product and what follows it: so pointwise work on transposed operands is
emitted in front of the transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmrt.compiler.frontend.context import OperatorContext
from tvmrt.compiler.ir import POINTWISE, Value, broadcast, get_op
from tvmrt.compiler.ir.extent import Whole, as_extent
from tvmrt.error import UnsupportedError
from tvmrt.plugins.tflite.frontend.model_file import Quantization, Subgraph, Tensor

if TYPE_CHECKING:
    from tvmrt.plugins.tflite.frontend.import_state import ImportState
    from tvmrt.plugins.tflite.frontend.model_file import Operator

BYTES = ("int8", "uint8")
QUANTIZED = (*BYTES, "int16")  # the types of tensors with scales that operators compute with


def one_size_alone(shape: Sequence[int], x: Value) -> UnsupportedError:
    """What is wrong where the file has a shape for the size with which it was converted."""
    return UnsupportedError(
        f"the file makes {list(shape)} of {x.type}, which is right for one size alone; convert the "
        "network with that dimension open, or fix it with --shape"
    )


class OpContext(OperatorContext):
    """One operator during import."""

    def __init__(
        self,
        importer: ImportState,
        subgraph: Subgraph,
        op: Operator,
        name: str,
        inputs: list[Value | None],
    ) -> None:
        super().__init__(importer, importer.builder, name, inputs)
        self.subgraph = subgraph
        self.op = op
        self.options = op.options
        self.micro = importer.rounding == "micro"

    # Operands.

    def tensor(self, index: int) -> Tensor:
        """An operand as the file has it."""
        self.required(index)
        return self.subgraph.tensors[self.op.inputs[index]]

    def result(self, index: int = 0) -> Tensor:
        """A result as the file has it."""
        if index >= len(self.op.outputs):
            raise ValueError("it has no result")
        return self.subgraph.tensors[self.op.outputs[index]]

    def constant_of(self, index: int, what: str) -> np.ndarray:
        """The elements of an operand that must be known at compile time."""
        value = self.required(index)
        if value.data is None:
            raise UnsupportedError(
                f"{what} (operand {index}, {value.name}) is computed at run time; it must be a "
                "constant, for tvmrt fixes every shape when it compiles"
            )
        return value.data

    def ints_of(self, index: int, what: str) -> list[Whole]:
        """The same as a flat list of ints; what is computed of extents counts, too."""
        data = self.importer.extents.get(self.required(index))
        if data is None:
            data = self.constant_of(index, what)
        return [as_extent(n) for n in data.reshape(-1)]

    def leave(self, index: int, value: Value) -> None:
        """Have a variable operand be this value from here on, in this run and the next."""
        self.importer.set_variable(self.subgraph, self.op.inputs[index], value)

    # Emitting.

    def emit(self, op: str, inputs: Sequence[Value | None], **attrs: Any) -> Value:
        """Add an IR node with one output, named after this operator."""
        if get_op(op).kind == POINTWISE and len(inputs) > 0:
            inner = self._before_transpose(inputs)
            if inner is not None:
                return self.emit(
                    "transpose", [self.builder.emit(op, inner[1], self.name, **attrs)],
                    perm=inner[0],
                )  # fmt: skip
        return super().emit(op, inputs, **attrs)

    def _before_transpose(self, inputs: Sequence[Value]) -> tuple[tuple[int, ...], list] | None:
        """The permutation behind, and the operands in front of it; None where there is none."""
        rank = max(len(v.shape) for v in inputs)
        shape = broadcast(*(v.shape for v in inputs))
        perms = [
            tuple(v.producer.attrs["perm"])
            for v in inputs
            if v.producer is not None and v.producer.op == "transpose" and v.shape == shape
        ]
        if not perms:
            return None
        inverse = tuple(int(i) for i in np.argsort(perms[0]))
        return perms[0], [self._transposed_operand(v, rank, inverse) for v in inputs]

    def _transposed_operand(self, value: Value, rank: int, perm: tuple[int, ...]) -> Value:
        if value.type.size == 1:
            return value if value.type.rank == 0 else self.reshape(value, (1,) * rank)
        full = self.reshape(value, (1,) * (rank - value.type.rank) + value.shape)
        return self.transpose(full, perm)

    def transpose(self, x: Value, perm: Sequence[int]) -> Value:
        """x with its axes in another order; of two transposes behind each other, one is left."""
        perm = tuple(int(p) for p in perm)
        if x.producer is not None and x.producer.op == "transpose":
            first = x.producer.attrs["perm"]
            x, perm = x.producer.inputs[0], tuple(first[p] for p in perm)
        return super().transpose(x, perm)

    def channels_second(self, x: Value, rank: int = 4) -> Value:
        """[N, H, W, C] as [N, C, H, W]."""
        if len(x.shape) != rank:
            raise ValueError(f"its operand has {len(x.shape)} dimensions, not {rank}")
        return self.transpose(x, (0, rank - 1, *range(1, rank - 1)))

    def channels_last(self, x: Value) -> Value:
        """[N, C, H, W] as [N, H, W, C]."""
        return self.transpose(x, (0, *range(2, x.type.rank), 1))

    def reduce(self, op: str, x: Value, axes: Sequence[int], keep: bool = True) -> Value:
        """Fold axes; of a transposed operand in front of the transpose, where pointwise work on it
        is computed on the fly."""
        made = x.producer
        if made is None or made.op != "transpose":
            return self.emit(op, [x], axes=tuple(axes), keepdims=keep)
        perm = made.attrs["perm"]
        inner = tuple(sorted(perm[a] for a in axes))
        y = self.emit(op, [made.inputs[0]], axes=inner, keepdims=True)
        y = self.transpose(y, perm)
        rest = [n for d, n in enumerate(y.shape) if keep or d not in axes]
        return self.reshape(y, rest)

    # Quantisation.

    def quantization(self, tensor: Tensor) -> Quantization:
        """That of a tensor, which must have one. A scale of 0 says that all elements are zero, as
        converters write it for filters and states of zeros; divide by a scale with ``ratio``."""
        found = tensor.quantization
        if found is None:
            raise ValueError(f"tensor {tensor.name} has no scale; quantise the model again")
        return found

    def per_tensor(self, tensor: Tensor) -> tuple[np.float32, int]:
        """The one scale and zero point of a tensor."""
        found = self.quantization(tensor)
        if found.per_axis:
            raise UnsupportedError(f"tensor {tensor.name} has a scale for each slice of an axis")
        return found.scale[0], int(found.zero[0])

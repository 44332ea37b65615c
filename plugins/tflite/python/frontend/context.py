"""Import context of one operator: its operands (as IR values and as file tensors) and options.

Tensors keep the file's channels-last order; convolutions and pools of the IR have channels second.
A transpose between the two costs nothing, because memory is channels-last in both cases. It would
still separate a convolution from the operators after it. Pointwise operators on transposed operands
are therefore emitted before the transpose.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tvmrt.compiler.sdk.frontend import OperatorContext, TensorExpr
from tvmrt.compiler.sdk.graph import POINTWISE, SymInt, Value, as_extent, broadcast, get_op
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option
from tvmrt.plugins.tflite.frontend.model_file import Quantization, Subgraph, Tensor

if TYPE_CHECKING:
    from tvmrt.plugins.tflite.frontend.import_state import ImportState
    from tvmrt.plugins.tflite.frontend.model_file import Operator

INT8_TYPES = ("int8", "uint8")
QUANTIZED = (*INT8_TYPES, "int16")  # quantised types that operators compute with


def fixed_size_error(shape: Sequence[int], x: Value) -> UnsupportedError:
    """Return the error for a file whose shapes are valid only for the size at conversion."""
    return UnsupportedError(
        f"the file makes {list(shape)} of {x.type}, which is right for one size alone; convert the "
        f"network with that dimension open, or fix it with {option('shapes')}"
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
        super().__init__(importer, name, inputs)
        self.subgraph = subgraph
        self.op = op
        self.options = op.options
        self.micro = importer.rounding == "micro"

    # Operands.

    def tensor(self, index: int) -> Tensor:
        """Return an operand's tensor record of the file."""
        self.required(index)
        return self.subgraph.tensors[self.op.inputs[index]]

    def result(self, index: int = 0) -> Tensor:
        """Return a result's tensor record of the file."""
        if index >= len(self.op.outputs):
            raise ValueError("it has no output")
        return self.subgraph.tensors[self.op.outputs[index]]

    def constant_operand(self, index: int, what: str) -> np.ndarray:
        """Return the elements of an operand that must be a compile-time constant."""
        value = self.required(index)
        if value.data is None:
            raise UnsupportedError(
                f"{what} (operand {index}, {value.name}) is computed at run time; it must be a "
                "constant, because shapes are fixed at compile time"
            )
        return value.data

    def int_operand(self, index: int, what: str) -> list[SymInt]:
        """Return a constant operand, or one computed from shapes, as a flat list of integers."""
        data = self.importer.sizes.extents.get(self.required(index))
        if data is None:
            data = self.constant_operand(index, what)
        return [as_extent(n) for n in data.reshape(-1)]

    def set_variable_operand(self, index: int, value: Value) -> None:
        """Set a variable operand to a value, for the rest of this run and for the next one."""
        self.importer.set_variable(self.subgraph, self.op.inputs[index], value)

    # Emitting.

    def formula(self, x: Value) -> TensorExpr:
        """Return a tensor for formulas written like those on numbers."""
        return TensorExpr(self, x)

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
        """Return the common permutation and the operands before it, or None without a transpose."""
        rank = max(len(v.shape) for v in inputs)
        shape = broadcast(*(v.shape for v in inputs))
        perms = [
            tuple(v.producer.attrs["perm"])
            for v in inputs
            if _is_transposed(v) and v.shape == shape
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
        """Permute the axes of x, merging consecutive transposes into one."""
        perm = tuple(int(p) for p in perm)
        if _is_transposed(x):
            first = x.producer.attrs["perm"]
            x, perm = x.producer.inputs[0], tuple(first[p] for p in perm)
        return super().transpose(x, perm)

    def channels_second(self, x: Value, rank: int = 4) -> Value:
        """Transpose [N, H, W, C] to [N, C, H, W]."""
        if len(x.shape) != rank:
            raise ValueError(f"its operand has rank {len(x.shape)}, not {rank}")
        return self.transpose(x, (0, rank - 1, *range(1, rank - 1)))

    def channels_last(self, x: Value) -> Value:
        """Transpose [N, C, H, W] to [N, H, W, C]."""
        return self.transpose(x, (0, *range(2, x.type.rank), 1))

    def reduce(self, op: str, x: Value, axes: Sequence[int], keep: bool = True) -> Value:
        """Reduce over axes. For a transposed operand, reduce before the transpose, so that
        pointwise work on the operand is fused."""
        made = x.producer
        if made is None or not _is_transposed(x):
            return self.emit(op, [x], axes=tuple(axes), keepdims=keep)
        perm = made.attrs["perm"]
        inner = tuple(sorted(perm[a] for a in axes))
        y = self.emit(op, [made.inputs[0]], axes=inner, keepdims=True)
        y = self.transpose(y, perm)
        rest = [n for d, n in enumerate(y.shape) if keep or d not in axes]
        return self.reshape(y, rest)

    # Quantisation.

    def quantization(self, tensor: Tensor) -> Quantization:
        """Return a tensor's quantisation; raise ValueError if it has none. A scale of 0 means that
        all elements are zero (converters write it for filters, states): divide with ``ratio``."""
        found = tensor.quantization
        if found is None:
            raise ValueError(f"tensor {tensor.name} has no scale; quantise the model again")
        return found

    def per_tensor(self, tensor: Tensor) -> tuple[np.float32, int]:
        """Return the scale and the zero point of a tensor with per-tensor quantisation."""
        scales = self.quantization(tensor)
        if scales.per_axis:
            raise UnsupportedError(
                f"tensor {tensor.name} is quantised per axis; it must be quantised per tensor"
            )
        return scales.scale[0], int(scales.zero[0])


def _is_transposed(value: Value) -> bool:
    """Return whether a value is the result of a transpose."""
    return value.producer is not None and value.producer.op == "transpose"

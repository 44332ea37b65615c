"""Weights with blockwise quantisation: each block of a row has its own scale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tvmrt.compiler.sdk.graph import Value, pack_interleaved
from tvmrt.error import UnsupportedError

if TYPE_CHECKING:
    from tvmrt.plugins.tflite.frontend.context import OpContext

BLOCKWISE_OPERATORS = ("FULLY_CONNECTED",)  # operators that accept blockwise quantised weights
MAX_BLOCK_SIZE = 256  # maximum block size of the packed-weights kernel
BITS = {"int2": 2, "int4": 4, "int8": 8}


def check_blockwise(ctx: OpContext) -> None:
    """Raise UnsupportedError if an operand has blocks and the operator does not support them."""
    for index in ctx.op.inputs:
        tensor = ctx.subgraph.tensors[index] if index >= 0 else None
        if (
            tensor is not None
            and tensor.blocks is not None
            and ctx.op.name not in BLOCKWISE_OPERATORS
        ):
            raise UnsupportedError(
                f"tensor {tensor.name} is quantised block-wise, which {ctx.op.name} does not "
                "support; quantise it per tensor or per axis"
            )


def product(ctx: OpContext, rows: Value) -> Value:
    """Multiply float32 rows [M, K] by the blockwise weights [N, K] of operand 1, without bias."""
    tensor = ctx.tensor(1)
    blocks, bits = tensor.blocks, BITS.get(tensor.dtype)
    if rows.dtype.name != "float32" or bits is None or blocks is None:
        raise UnsupportedError(
            f"{rows.dtype} activations with weights of {tensor.dtype} in blocks; convert the "
            "network with activations in float32"
        )
    numbers = ctx.constant_operand(1, "the weights").astype(np.int16)
    units, depth = numbers.shape
    numbers = numbers.reshape(units, depth // blocks.size, blocks.size)
    zero = 0 if blocks.zero is None else blocks.zero[..., None]
    if blocks.zero is None and blocks.size % 16 == 0 and blocks.size <= MAX_BLOCK_SIZE:
        packed = pack_interleaved((numbers + (1 << bits - 1)).astype(np.uint8), bits)
        operands = [rows, ctx.const(packed), ctx.const(blocks.scale), None]
        return ctx.emit("matmul_blocks", operands, bits=bits, block=blocks.size)
    real = ((numbers - zero) * blocks.scale[..., None]).astype(np.float32)
    return ctx.emit("matmul", [rows, ctx.const(real.reshape(units, depth).T)])

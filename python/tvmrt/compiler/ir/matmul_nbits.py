"""Matmuls with weights of few bits, which are stored bit-packed in the library."""

from __future__ import annotations

import numpy as np

from .contract import Contract, holds
from .graph import Node
from .op import Op, register
from .traits import Trait


@register("matmul_blocks")
class MatMulBlocks(Op):
    """Product of rows of x and block-quantised weights: (number - point) * scale.

    Each block of ``block`` weights has its scale and zero point; without ``points`` that is
    ``2 ** (bits - 1)``. Byte i of a block has numbers i, i + B, i + 2 B, ..., from the lowest bits.
    In reduced precision only x is rounded, for 128 elements or more with a common unit: to 16 bits
    for the largest in bfloat16, to 8 bits in int8.
    """

    variant_of = "matmul"
    traits = frozenset({Trait.BFLOAT16, Trait.INT8_ACTIVATIONS})

    contract = Contract(
        "x: float32[M K], w: constant uint8[N G B], scales: constant float32[N G], "
        "points?: constant float32[N G] -> y: float32[M N]",
        "bits: int 2..8, block: int 16..256",
        rules=[
            holds("bits are 2, 4 or 8", lambda bits: bits in (2, 4, 8)),
            holds("blocks are whole sixteens", lambda block: block % 16 == 0),
            holds("B bytes are a block", lambda B, bits, block: B * 8 == bits * block),
            holds("G blocks are a row", lambda K, G, block: (G - 1) * block < K <= G * block),
        ],
        example={"K": 40, "G": 2, "B": 16, "bits": 4, "block": 32},
    )


PANEL_ROWS = 16  # from which hosts widen a panel of weights once for all rows: TVMRT_PANEL_ROWS


def has_int8_weights(node: Node) -> bool:
    """Return whether all numbers minus their zero points are integers of 8 bits."""
    points, bits = node.inputs[3:] and node.inputs[3], node.attrs["bits"]
    if not points:
        return True
    numbers = points.data
    return bits < 8 and bool((numbers == np.rint(np.clip(numbers, 0, 2**bits - 1))).all())


def pack_interleaved(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Pack numbers [N, G, block] into bytes [N, G, B]: byte i of a block has numbers i, i + B, ...,
    the order in which kernels widen them."""
    each = 8 // bits
    parts = numbers.reshape(*numbers.shape[:2], each, -1)
    shifts = (np.arange(each, dtype=np.uint8) * np.uint8(bits))[:, None]
    return np.bitwise_or.reduce(parts << shifts, axis=2).astype(np.uint8)

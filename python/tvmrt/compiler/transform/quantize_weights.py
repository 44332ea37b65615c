"""Weight-only quantisation: weights of matmuls and tables in 8 or 4 bits, widened in registers.

A decoder reads each of its weights once per step, so its speed is limited by memory. Weights are
stored in blocks with a scale each; computation stays in float32. A tied embedding table is stored
once for the gather and the matmul.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod, sqrt

import numpy as np

from tvmrt.compiler.ir import Builder, Graph, Node, Value
from tvmrt.compiler.ir.dtype import to_integers
from tvmrt.compiler.ir.quantized import pack_interleaved
from tvmrt.compiler.ir.reduced_precision import WeightQuantization
from tvmrt.compiler.ir.rounding import ceil_div

from .rewrite import at, rewrite

BITS = {"int8": 8, "int4": 4}
BLOCK = {8: 128, 4: 32}  # weights with one scale
MIN_WEIGHTS = 4096  # minimum number of weights: in smaller layers scales cost more than it saves
CHUNK = 1 << 20  # weights that are quantised at a time, to limit memory
# Divisors of the weight of largest magnitude in a block, relative to the largest integer: clipping
# that weight may reduce the errors of all others.
SCALE_CANDIDATES = {8: (1.0,), 4: tuple(np.linspace(0.9, 1.35, 10))}


@dataclass(frozen=True)
class _Packed:
    """Bit-packed bytes [rows, blocks, bytes] for ``matmul_blocks``, and scales [rows, blocks]."""

    codes: Value
    scales: Value
    bits: int
    width: int  # of a row


def quantize_weights(graph: Graph, kind: str, max_error: float | None) -> list[WeightQuantization]:
    """Quantise constant float32 weights of matmuls and float32 tables of gathers.

    Parameters
    ----------
    graph
        Changed in place.
    kind
        ``int8`` or ``int4``.
    max_error
        Maximum error (of a ``WeightQuantization``); layers above it stay in float32. None: no
        limit.

    Returns
    -------
    A row for all weights that were evaluated, in the order of their use.
    """
    layers = _Layers(BITS[kind], max_error)
    rewrite(graph, layers.replace_node)
    return [layer.row() for layer in layers.cache.values()]


@dataclass(frozen=True)
class _Layer:
    """Evaluated weights: their bit-packed form, None if they stay in float32, and their readers."""

    name: str
    nbytes: int  # in float32
    error: float
    packed: _Packed | None
    users: list[str] = field(default_factory=list)

    def row(self) -> WeightQuantization:
        nodes = tuple(dict.fromkeys(self.users))
        if self.packed is None:
            return WeightQuantization(self.name, nodes, 32, self.nbytes, self.nbytes, self.error)
        after = self.packed.codes.type.nbytes + self.packed.scales.type.nbytes
        return WeightQuantization(
            self.name, nodes, self.packed.bits, self.nbytes, after, self.error
        )


class _Layers:
    """Weights of a network, each once, by the hash of their rows."""

    def __init__(self, bits: int, max_error: float | None) -> None:
        self.bits, self.max_error = bits, max_error
        self.cache: dict[bytes, _Layer] = {}

    def replace_node(self, b: Builder, node: Node) -> Value | None:
        return _matmul(b, node, self) or _gather(b, node, self)

    def packed_weights(
        self, b: Builder, node: Node, weights: Value, rows: np.ndarray
    ) -> _Packed | None:
        rows = np.ascontiguousarray(rows)
        key = bytes(str(rows.shape), "ascii") + _digest(rows)
        if key not in self.cache:
            self.cache[key] = self._evaluate(b, weights.name, rows)
        layer = self.cache[key]
        layer.users.extend(node.sources or (node.name,))
        return layer.packed

    def _evaluate(self, b: Builder, name: str, rows: np.ndarray) -> _Layer:
        codes, scales, error = quantize_rows(rows, self.bits)
        if self.max_error is not None and error > self.max_error:
            return _Layer(name, rows.nbytes, error, None)
        packed = _Packed(
            b.const(pack_interleaved(codes, self.bits), f"{name}_int{self.bits}"),
            b.const(scales, f"{name}_scales"), self.bits, rows.shape[1],
        )  # fmt: skip
        return _Layer(name, rows.nbytes, error, packed)


def _digest(rows: np.ndarray) -> bytes:
    return hashlib.sha256(memoryview(rows).cast("B")).digest()


def _is_matrix(value: Value) -> bool:
    if (
        not value.is_constant
        or value.keeps_layout
        or value.dtype.name != "float32"
        or len(value.shape) != 2
    ):
        return False
    return value.data.size >= MIN_WEIGHTS and bool(np.isfinite(value.data).all())


@at("matmul")
def _matmul(b: Builder, node: Node, layers: _Layers) -> Value | None:
    x, weights = node.inputs[:2]
    if x.is_constant or not _is_matrix(weights):
        return None
    packed = layers.packed_weights(b, node, weights, weights.data.T)
    return None if packed is None else _emit_matmul(b, node, packed)


@at("gather")
def _gather(b: Builder, node: Node, layers: _Layers) -> Value | None:
    table = node.inputs[0]
    if node.attrs["axis"] != 0 or not _is_matrix(table):
        return None
    packed = layers.packed_weights(b, node, table, table.data)
    return None if packed is None else _emit_gather(b, node, packed)


def _emit_matmul(b: Builder, node: Node, packed: _Packed) -> Value:
    x, _, *bias = node.inputs
    rows = b.emit("reshape", [x], node.name, shape=(prod(x.shape[:-1]), x.shape[-1]))
    operands = [rows, packed.codes, packed.scales, None]
    y = b.emit("matmul_blocks", operands, node.name, bits=packed.bits, block=BLOCK[packed.bits])
    y = b.emit("reshape", [y], node.name, shape=node.output.shape)
    return b.emit("add", [y, *bias], node.name) if any(bias) else y


def _emit_gather(b: Builder, node: Node, packed: _Packed) -> Value:
    """Emit the gathered rows, dequantised with the scales of their blocks."""
    indices = node.inputs[1]
    before, bits, block = indices.shape, packed.bits, BLOCK[packed.bits]
    _, blocks, size = packed.codes.shape

    def emit(op: str, *inputs: Value, **attrs) -> Value:
        return b.emit(op, list(inputs), node.name, **attrs)

    codes = emit("gather", packed.codes, indices, axis=0)
    if bits < 8:
        per_byte = 8 // bits
        column = emit("reshape", codes, shape=(*before, blocks, 1, size))
        shifts = b.const(np.arange(0, 8, bits, dtype=np.uint8)[:, None], node.name)
        mask = b.const(np.uint8((1 << bits) - 1), node.name)
        codes = emit("bit_and", emit("shift_right", column, shifts), mask)
        codes = emit("reshape", codes, shape=(*before, blocks, per_byte * size))
    half = b.const(np.float32(1 << (bits - 1)), node.name)
    centred = emit("sub", emit("cast", codes, to="float32"), half)
    block_scales = emit("gather", packed.scales, indices, axis=0)
    block_scales = emit("reshape", block_scales, shape=(*before, blocks, 1))
    y = emit("reshape", emit("mul", centred, block_scales), shape=(*before, blocks * block))
    if blocks * block == packed.width:
        return y
    rank = len(before) + 1
    sizes = (*before, packed.width)
    return emit("slice", y, starts=(0,) * rank, steps=(1,) * rank, sizes=sizes)


def quantize_rows(rows: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return numbers [rows, blocks, block] with offset ``2 ** (bits - 1)``, the scales [rows,
    blocks], and the error (of a ``WeightQuantization``)."""
    count, width = rows.shape
    block = BLOCK[bits]
    blocks = ceil_div(width, block)
    codes = np.empty((count, blocks, block), np.uint8)
    scales = np.empty((count, blocks), np.float32)
    squared_error = total = 0.0
    for some in _chunks(count, blocks * block):
        wide = np.zeros((len(rows[some]), blocks * block), np.float32)
        wide[:, :width] = rows[some]
        wide = wide.reshape(-1, blocks, block)
        codes[some], scales[some], block_errors = _nearest(wide, bits)
        squared_error += float(block_errors.sum())
        total += float(np.square(wide, dtype=np.float64).sum())
    return codes, scales, sqrt(squared_error / total) if total else 0.0


def _chunks(count: int, width: int) -> Iterator[slice]:
    step = max(1, CHUNK // width)
    return (slice(i, i + step) for i in range(0, count, step))


def _nearest(wide: np.ndarray, bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the best of the tried scales for each block: numbers, scales, squared errors."""
    half = 1 << (bits - 1)
    index = np.abs(wide).argmax(axis=-1)[..., None]
    widest = np.take_along_axis(wide, index, axis=-1)  # it is stored as 0, the extreme integer
    best = None
    for part in SCALE_CANDIDATES[bits]:
        scale = widest / np.float32(-half * part)
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = np.rint(wide / scale)
        steps = np.clip(np.where(np.isfinite(steps), steps, 0), -half, half - 1)
        squared_error = np.square(wide - steps * scale, dtype=np.float64).sum(
            axis=-1, keepdims=True
        )
        if best is None:
            best = steps, scale, squared_error
        else:
            better = squared_error < best[2]
            best = tuple(
                np.where(better, a, b) for a, b in zip((steps, scale, squared_error), best)
            )
    steps, scale, squared_error = best
    return to_integers(steps + half, np.uint8), scale[..., 0].astype(np.float32), squared_error

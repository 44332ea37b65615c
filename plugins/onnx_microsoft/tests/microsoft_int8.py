"""Test cases of quantised operators of the domain com.microsoft, compared with onnxruntime.

Integers agree within one step: onnxruntime multiplies by quotients of scales where we divide, and
its kernels for AVX-512, AVX2 and others round differently among themselves."""

from __future__ import annotations

import numpy as np
from nn_case import Case, case

RNG = np.random.default_rng(33)
MS = {"domain": "com.microsoft"}
STEP = {"rtol": 0, "atol": 1, **MS}


def number(value: float) -> np.ndarray:
    return np.asarray(value, np.float32)


def some(kind: str, *shape: int) -> np.ndarray:
    low = -128 if kind == "int8" else 0
    return RNG.integers(low, low + 256, shape).astype(kind)


def floats(*shape: int) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(np.float32)


def pointwise() -> list[Case]:
    found = []
    for kind in ("int8", "uint8"):

        def x(*shape: int, scale=0.0517, at=17, kind=kind) -> list[np.ndarray]:
            return [some(kind, *shape), number(scale), np.asarray(at, kind)]

        def one(op: str, inputs: list, id="", scale=0.0431, at=3, kind=kind, **attrs) -> Case:
            zero = [] if at is None else [np.asarray(at, kind)]
            given = [*inputs, number(scale), *zero]
            constants = [i for i, a in enumerate(given) if a is not None and a.size == 1]
            return case(f"{kind} {id}".strip(), op, given, constants, **attrs, **STEP)

        low = -128 if kind == "int8" else 0
        choice = RNG.uniform(0, 1, (4, 9)) > 0.5
        found += [
            one("QLinearAdd", [*x(2, 8, 3), *x(2, 8, 3, scale=0.02)]),
            one("QLinearAdd", [*x(2, 8, 3), *x(8, 1)], "broadcast"),
            one("QLinearMul", [*x(2, 8, 3), *x(2, 8, 3)], scale=0.2),
            one("QLinearSigmoid", x(4, 33), scale=1 / 256, at=low),
            one("QLinearLeakyRelu", x(4, 33), alpha=0.3),
            one("QLinearAveragePool", x(1, 3, 8, 8), kernel_shape=[2, 2], strides=[2, 2]),
            one("QLinearAveragePool", x(1, 8, 8, 3), "last", kernel_shape=[3, 3],
                pads=[1, 1, 1, 1], channels_last=1),
            one("QLinearAveragePool", x(1, 3, 8, 8), "pads", kernel_shape=[3, 3],
                pads=[1, 1, 1, 1], count_include_pad=1),
            one("QLinearGlobalAveragePool", x(1, 8, 7, 7), channels_last=0),
            one("QLinearGlobalAveragePool", x(1, 7, 7, 8), "last", channels_last=1),
            one("QLinearSoftmax", x(3, 12), scale=1 / 256, at=low, opset=13, axis=-1),
            one("QLinearSoftmax", x(2, 3, 4), "old", scale=1 / 256, at=low, opset=11, axis=1),
            one("QLinearWhere", [choice, *x(4, 9), *x(4, 9, scale=0.03, at=2)]),
        ]  # fmt: skip
        y = [number(0.06), np.asarray(5, kind)]
        parts = [*x(2, 3), *x(2, 4, scale=0.09, at=2)]
        constants = [0, 1, 3, 4, 6, 7]
        found.append(case(kind, "QLinearConcat", [*y, *parts], constants, axis=1, **STEP))
        data, reduced = x(2, 5, 6), [number(0.02), np.asarray(-3 & 127, kind)]
        mean = (data[0].astype(np.float64) - int(data[2])).mean((0, 2), keepdims=True)
        ends = np.iinfo(kind)
        right = np.clip(np.rint(mean * 0.0517 / 0.02) + int(reduced[1]), ends.min, ends.max)
        found.append(
            case(kind, "QLinearReduceMean", [*data, *reduced], [1, 2, 3, 4], axes=[0, 2],
                 keepdims=1, wanted=[right.astype(kind)], **STEP)
        )  # fmt: skip
    return found


def convolutions() -> list[Case]:
    found = []
    for kind, last, by_channel in (("uint8", 1, False), ("int8", 1, True), ("uint8", 0, True)):
        x, w = some(kind, 1, 8, 7, 5), some("int8", 6, 5, 3, 3)
        x = x if last else x.transpose(0, 3, 1, 2).copy()
        count = 6 if by_channel else 1
        scales = RNG.uniform(0.005, 0.02, count).astype(np.float32)
        inputs = [
            x, number(0.03), np.asarray(17, kind), w, scales, np.zeros(count, np.int8),
            number(0.35), np.asarray(17, kind), RNG.integers(-900, 900, 6).astype(np.int32),
        ]  # fmt: skip
        id = f"{kind}{' last' if last else ''}{' by channel' if by_channel else ''}"
        more = {"channels_last": last, "pads": [1, 1, 1, 1]}
        wanted = [_convolved(inputs, last)]
        found.append(case(id, "QLinearConv", inputs, range(1, 9), wanted=wanted, **more, **STEP))
    return found


def _convolved(inputs: list[np.ndarray], last: int) -> np.ndarray:
    """Compute a padded 3 x 3 convolution in integers; onnxruntime's overflows on some
    processors."""
    x, x_scale, x_zero, w, w_scale, _, y_scale, y_zero, bias = inputs
    rows = x.astype(np.int64) - int(x_zero)
    rows = np.pad(rows if last else rows.transpose(0, 2, 3, 1), ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(rows, (3, 3), (1, 2))
    sums = np.einsum("nhwcij,ocij->nhwo", windows, w.astype(np.int64)) + bias
    limits = np.iinfo(x.dtype)
    real = sums * (x_scale * w_scale / y_scale).astype(np.float64)
    y = np.clip(np.rint(real) + int(y_zero), limits.min, limits.max).astype(x.dtype)
    return y if last else y.transpose(0, 3, 1, 2)


def products() -> list[Case]:
    near = {"rtol": 1e-4, "atol": 1e-3, **MS}
    a, b, bias = floats(5, 40), some("int8", 40, 6), floats(6)
    scales = RNG.uniform(0.01, 0.03, 6).astype(np.float32)
    q = some("uint8", 5, 40)
    left, dynamic, floated = [q, number(0.03)], "DynamicQuantizeMatMul", "MatMulIntegerToFloat"
    zeros, zero = np.full(6, 3, np.int8), np.asarray(121, np.uint8)
    words = RNG.integers(-4000, 4000, 6).astype(np.int32)
    first = [q, number(0.03), np.asarray(100, np.uint8)]
    second = [b, number(0.01), np.asarray(0, np.int8), words]
    result = [number(0.3), np.asarray(90, np.uint8)]
    flipped = [b.T.copy(), *second[1:]]
    by_column = [b, scales, np.zeros(6, np.int8), words]
    places = [1, 2, 3, 4, 5, 6, 7, 8]
    return [
        case("plain", dynamic, [a, b, number(0.02)], [1, 2], **near),
        case("zero", dynamic, [a, b, number(0.02), np.asarray(3, np.int8)], [1, 2, 3], **near),
        case("column", dynamic, [a, b, scales, zeros, bias], [1, 2, 3, 4], **near),
        case("plain", floated, [q, b, left[1], number(0.02)], [1, 2, 3], **near),
        case("zeros", floated, [q, b, left[1], scales, zero, zeros], [1, 2, 3, 4, 5], **near),
        case("bias", floated, [q, b, left[1], scales, zero, zeros, bias], range(1, 7), **near),
        case("plain", "QGemm", [*first, *second, *result], places, **STEP),
        case("right", "QGemm", [*first, *flipped, *result], places, transB=1, **STEP),
        case("alpha", "QGemm", [*first, *second[:3], None, *result], places, alpha=0.7, **STEP),
        case("floats", "QGemm", [*first, *second], places, **near),
        case("column", "QGemm", [*first, *by_column, *result], places, **STEP),
    ]


def recurrent() -> list[Case]:
    """Make a recurrent layer. onnxruntime quantises the state at each step, tvmrt does not: results
    differ by up to its quantisation step."""

    def one(id: str, kind="int8", directions=1, by_column=False, **attrs) -> Case:
        count = 16 if by_column else 1
        scales = [RNG.uniform(0.003, 0.006, (directions, count)) for _ in range(2)]
        zeros = np.full((directions, count), 0 if kind == "int8" else 128, kind)
        if count == 1:
            scales, zeros = [s.reshape(-1) for s in scales], zeros.reshape(-1)
        weights = [some(kind, directions, n, 16) for n in (5, 4)]
        inputs = [
            floats(6, 2, 5), *weights, floats(directions, 32), None, None, None, None,
            scales[0].astype(np.float32), zeros, scales[1].astype(np.float32), zeros,
        ]  # fmt: skip
        constants = [1, 2, 3, 8, 9, 10, 11]
        more = {"rtol": 0, "atol": 0.02, "outputs": 3, "hidden_size": 4}
        return case(id, "DynamicQuantizeLSTM", inputs, constants, **more, **attrs, **MS)

    return [
        one("forward"),
        one("uint8", "uint8"),
        one("by column", by_column=True),
        one("reverse", direction="reverse"),
        one("both ways", directions=2, direction="bidirectional"),
    ]


def _packed(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Pack integers along the last axis into bytes, lowest bits first."""
    each = 8 // bits
    spare = -numbers.shape[-1] % each
    numbers = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, spare)])
    parts = numbers.reshape(*numbers.shape[:-1], -1, each).astype(np.uint8)
    shifted = parts << (np.arange(each, dtype=np.uint8) * bits).astype(np.uint8)
    return np.bitwise_or.reduce(shifted, axis=-1).astype(np.uint8)


def blocks() -> list[Case]:
    found = []
    for bits in (4, 8):
        for block in (16, 32, 128):
            for points in ("none", "bytes", "floats")[: 3 if bits == 4 else 2]:
                found.append(_product(bits, block, points))
    found += [_product(4, 32, "bytes", rows=1, bias=True), _product(2, 32, "bytes", columns=96)]
    found.append(_product(4, 32, "none", rows=3, bias=True))
    # many rows, whose weights are unpacked in panels; the last block is shorter
    for bits, block, points in ((4, 32, "floats"), (4, 16, "none"), (2, 64, "bytes")):
        found.append(_product(bits, block, points, rows=33, columns=151))
    found.append(_product(8, 128, "bytes", rows=16, columns=300))
    # blocks wider than those of the kernel, and rows narrower than a block
    found += [_product(4, 512, "bytes", columns=600), _product(8, 64, "bytes", columns=40)]
    found += [_bnb4(kind, block, **more) for kind, block, more in _BNB4]
    for bits, block, zero in ((4, 16, False), (4, 32, True), (8, 16, True), (8, 32, False)):
        found.append(_taken(bits, block, zero))
    return found


def _product(bits: int, block: int, points: str, rows=4, columns=160, bias=False) -> Case:
    wide, outs = -(-columns // block), 24
    most = 1 << bits
    inputs = [
        floats(rows, columns),
        _packed(RNG.integers(0, most, (outs, wide, block)), bits),
        RNG.uniform(0.01, 0.05, (outs, wide)).astype(np.float32),
    ]
    if points == "bytes":
        inputs.append(_packed(RNG.integers(0, most, (outs, wide)), bits))
    elif points == "floats":
        inputs.append(RNG.uniform(0, most, (outs, wide)).astype(np.float32))
    else:
        inputs.append(None)
    inputs += [None, floats(outs)] if bias else []
    id = f"{bits} bits, {block}, {points}, {rows} rows{', bias' if bias else ''}"
    attrs = {"K": columns, "N": outs, "bits": bits, "block_size": block, "rtol": 1e-3}
    return case(id, "MatMulNBits", inputs, [1, 2, 3, 5], atol=2e-2, **attrs, **MS)


_BNB4 = [(0, 16, {}), (1, 16, {}), (1, 64, {"columns": 33, "outs": 5})]


def _bnb4(kind: int, block: int, columns=48, outs=24) -> Case:
    size = columns * outs
    packed = RNG.integers(0, 256, (size + 1) // 2).astype(np.uint8)
    scales = RNG.uniform(0.1, 2, -(-size // block)).astype(np.float32)
    x = floats(4, columns)
    attrs = {"K": columns, "N": outs, "block_size": block, "quant_type": kind}
    id = f"format {kind}, {block}, {columns} columns"
    return case(id, "MatMulBnb4", [x, packed, scales], [1, 2], rtol=1e-3, **attrs, **MS)


def _taken(bits: int, block: int, zero: bool) -> Case:
    wide = 64 // block
    inputs = [
        _packed(RNG.integers(0, 1 << bits, (20, 64)), bits),
        RNG.integers(0, 20, (2, 3)),
        RNG.uniform(0.01, 0.05, (20, wide)).astype(np.float32),
    ]
    if zero:
        inputs.append(_packed(RNG.integers(0, 1 << bits, (20, wide)), bits))
    id = f"{bits} bits, {block}{', zeros' if zero else ''}"
    attrs = {"bits": bits, "block_size": block, "quantize_axis": 1, "gather_axis": 0}
    return case(id, "GatherBlockQuantized", inputs, [0, 2, 3], **attrs, **MS)

"""Test cases of activations, normalisations, embeddings, matmuls, convolutions and small operators
in the domain com.microsoft. Accelerator-only operators are compared with numpy formulas."""

from __future__ import annotations

from math import erf

import numpy as np
from nn_case import Case, case

RNG = np.random.default_rng(32)
MS = {"domain": "com.microsoft"}


def array(*shape: int) -> np.ndarray:
    return RNG.uniform(-2, 2, shape).astype(np.float32)


def gelu(x: np.ndarray) -> np.ndarray:
    return (x * (1 + np.vectorize(erf)(x / np.sqrt(2))) / 2).astype(np.float32)


def fast_gelu(x: np.ndarray) -> np.ndarray:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def activations() -> list[Case]:
    x, row = array(2, 3, 8), array(8)
    biased = x + row
    return [
        case("plain", "Gelu", [x], **MS),
        case("biased", "BiasGelu", [x, row], [1], **MS),
        case("plain", "FastGelu", [x], **MS),
        case("biased", "FastGelu", [x, row], [1], **MS),
        case("default", "QuickGelu", [x], **MS),
        case("alpha", "QuickGelu", [x], alpha=0.9, **MS),
        case("alpha", "ScaledSiLU", [x], alpha=1.3, **MS),
        case("scale", "ScaledSiLU", [x, np.array(0.7, np.float32)], **MS),
        case("rows", "GatedAdd", [x, array(2, 3, 8), array(2, 3, 1)], **MS),
        case("sum", "BiasAdd", [x, row, x * 2], [1], wanted=[biased + x * 2], **MS),
        case(
            "halves", "BiasSplitGelu", [x, row], [1],
            wanted=[biased[..., :4] * gelu(biased[..., 4:])], **MS,
        ),
        case(
            "last", "BiasSoftmax", [x, row], axis=2, is_inner_broadcast=0,
            wanted=[softmax(biased)], **MS,
        ),
    ]  # fmt: skip


def norms() -> list[Case]:
    x, skip, scale, shift, row = array(2, 3, 8), array(2, 3, 8), array(8), array(8), array(8)
    near = {"rtol": 1e-3, "atol": 1e-4, **MS}
    image, weights = array(2, 4, 5, 8), [array(8), array(8)]

    def grouped(x: np.ndarray, groups: int, swish: bool) -> np.ndarray:
        parts = x.reshape(*x.shape[:3], groups, -1).astype(np.float64)
        centre = parts.mean((1, 2, 4), keepdims=True)
        deviation = np.sqrt(parts.var((1, 2, 4), keepdims=True) + 1e-5)
        y = ((parts - centre) / deviation).reshape(x.shape) * weights[0] + weights[1]
        return (y / (1 + np.exp(-y)) if swish else y).astype(np.float32)

    plain = {"groups": 2, "activation": 0, "channels_last": 1, **near}
    total = image + weights[0] + image * 2
    return [
        case("plain", "SkipLayerNormalization", [x, skip, scale, shift], [2, 3], **near),
        case("no shift", "SkipLayerNormalization", [x, skip, scale], [2], **near),
        case("bias", "SkipLayerNormalization", [x, skip, scale, shift, row], [2, 3, 4], **near),
        case("epsilon", "SkipLayerNormalization", [x, skip, scale, shift], epsilon=0.1, **near),
        case("plain", "SkipSimplifiedLayerNormalization", [x, skip, scale], [2], **near),
        case("bias", "SkipSimplifiedLayerNormalization", [x, skip, scale, row], [2, 3], **near),
        case("silu", "GatedRMSNorm", [x, scale, skip], [1], **near),
        case("heads", "GatedRMSNorm", [x, scale[:4].copy(), skip], activation="sigmoid", **near),
        case("rows", "BranchwiseRMSNorm", [x, scale], **near),
        case("flat", "BranchwiseRMSNorm", [x, scale], num_branches=2, **near),
        case("one scale", "BranchwiseRMSNorm", [x, scale[:4].copy()], num_branches=2, **near),
        case("no scale", "BranchwiseRMSNorm", [x], **near),
        case("plain", "GroupNorm", [image, *weights], [1, 2], wanted=[grouped(image, 2, False)],
             **plain),
        case("swish", "GroupNorm", [image, *weights], [1, 2], wanted=[grouped(image, 4, True)],
             **{**plain, "activation": 1, "groups": 4}),
        case("skip", "SkipGroupNorm", [image, *weights, image * 2, weights[0]], [1, 2, 4],
             outputs=2, wanted=[grouped(total, 2, False), total], **plain),
    ]  # fmt: skip


def embeddings() -> list[Case]:
    ids = RNG.integers(0, 20, (2, 5)).astype(np.int32)
    kinds = RNG.integers(0, 2, (2, 5)).astype(np.int32)
    tables = [array(20, 8), array(6, 8), array(2, 8)]
    rows = [array(8), array(8)]
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    places = np.array([[0, 2, 1, 5, 3]], np.int32)
    near = {"rtol": 1e-3, "atol": 1e-4, **MS}
    plain = "EmbedLayerNormalization"

    def quantized(with_kinds: bool) -> Case:
        found = []
        for each in (*tables, *rows):
            found.append(RNG.integers(0, 256, each.shape).astype(np.uint8))
        scales = [np.array(s, np.float32) for s in (0.01, 0.02, 0.015, 0.01, 0.012)]
        zeros = [np.array(z, np.uint8) for z in (120, 130, 99, 3, 140)]
        inputs = [ids, kinds, *found, mask, *scales, *zeros]
        if not with_kinds:
            for i in (1, 4, 10, 15):
                inputs[i] = None
        constants = [*range(2, 7), *range(8, 18)]
        id = "kinds" if with_kinds else "words"
        return case(id, "QEmbedLayerNormalization", inputs, constants, outputs=2, **near)

    constants = [2, 3, 4, 5, 6]
    return [
        case("all", plain, [ids, kinds, *tables, *rows, mask], constants, outputs=2, **near),
        case("no mask", plain, [ids, kinds, *tables, *rows], constants, outputs=2, **near),
        case("no kinds", plain, [ids, None, *tables[:2], None, *rows, mask], constants,
             outputs=2, **near),
        case("places", plain, [ids, kinds, *tables, *rows, None, places], constants, outputs=2,
             **near),
        case("sum", plain, [ids, kinds, *tables, *rows], constants, outputs=3, **near),
        quantized(True),
        quantized(False),
    ]  # fmt: skip


def products() -> list[Case]:
    a, b, square = array(2, 3, 4), array(2, 4, 5), array(4, 4)
    swapped = [a.swapaxes(1, 2).copy(), b.swapaxes(1, 2).copy()]
    moved = [a.swapaxes(0, 1).copy(), b.swapaxes(0, 1).copy()]
    rows = RNG.integers(-90, 90, (3, 7)).astype(np.int16)
    columns = RNG.integers(-90, 90, (7, 4)).astype(np.int16)
    fused = "FusedMatMul"

    def gemm(id: str, *more: np.ndarray, **attrs) -> Case:
        return case(id, "FusedGemm", [square, array(4, 4), *more], [1], **attrs, **MS)

    def named(name: str, **numbers: float) -> Case:
        given = {f"activation_{key}": value for key, value in numbers.items()}
        return gemm(name, array(4), activation=name, **given)

    return [
        case("plain", fused, [a, b], **MS),
        case("alpha", fused, [a, b], alpha=0.25, **MS),
        case("left", fused, [swapped[0], b], transA=1, **MS),
        case("right", fused, [a, swapped[1]], transB=1, **MS),
        case("both", fused, swapped, transA=1, transB=1, alpha=2.0, **MS),
        case("batches", fused, moved, transBatchA=1, transBatchB=1, **MS),
        case("matrix", fused, [a, b[0].T.copy()], [1], transB=1, **MS),
        case("right", "TransposeMatMul", [a, swapped[1]], transB=1, **MS),
        case("relu", "FusedMatMulActivation", [a, b], activation="Relu", alpha=0.5,
             wanted=[np.maximum(0.5 * a @ b, 0)], **MS),
        case("biased", "GemmFastGelu", [a, b[0].copy(), array(5) * 0], [1, 2],
             wanted=[fast_gelu(a @ b[0]).astype(np.float32)], **MS),
        case("words", "MatMulInteger16", [rows, columns], **MS),
        gemm("transposed", array(4), activation="Relu", transA=1, transB=1, alpha=0.5, beta=2.0),
        gemm("no c", activation="Tanh"),
        named("LeakyRelu", alpha=0.2),
        named("Elu", alpha=0.7),
        named("HardSigmoid", alpha=0.3, beta=0.4),
        named("Selu", alpha=1.6, gamma=1.05),
        named("Softplus"),
        named("Softsign"),
        named("ThresholdedRelu", alpha=0.5),
        named("Sigmoid"),
    ]  # fmt: skip


def convolutions() -> list[Case]:
    x, w, bias = array(1, 3, 7, 6), array(4, 3, 3, 3), array(4)
    pads = {"pads": [1, 1, 1, 1], **MS}

    def named(name: str, *numbers: float) -> Case:
        given = {"activation_params": list(numbers)} if numbers else {}
        return case(name, "FusedConv", [x, w, bias], [1, 2], activation=name, **given, **pads)

    last = (0, 2, 3, 1)
    inner = [x.transpose(last).copy(), w.transpose(last).copy()]
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    right = np.einsum("nchwij,ocij->nhwo", windows, w).astype(np.float32) + bias
    pool = RNG.integers(0, 256, (1, 6, 7, 5))
    kernel = {"kernel_shape": [3, 2], "strides": [2, 1], **pads}
    return [
        named("Relu"),
        named("Tanh"),
        named("Sigmoid"),
        named("LeakyRelu", 0.2),
        named("Clip", -0.5, 1.5),
        named("HardSigmoid", 0.2, 0.5),
        case("sum", "FusedConv", [x, w, bias, array(1, 4, 7, 6)], [1, 2], activation="Relu",
             **pads),
        case("groups", "FusedConv", [x, array(6, 1, 3, 3)], [1], group=3, strides=[2, 2],
             activation="Relu", **pads),
        case("plain", "NhwcConv", [*inner, bias], [1, 2], wanted=[right], **pads),
        case("relu", "NhwcFusedConv", [inner[0], w, bias], [1, 2], activation="Relu",
             wanted=[np.maximum(right, 0)], **pads),
        case("uint8", "NhwcMaxPool", [pool.astype(np.uint8)], **kernel),
        case("int8", "NhwcMaxPool", [(pool - 128).astype(np.int8)], **kernel),
    ]  # fmt: skip


def plain() -> list[Case]:
    x, grid = array(3, 5), RNG.uniform(-1, 1, (1, 4, 3, 2)).astype(np.float32)
    twice = np.array([2, 1, 1, 3, 4, 3], np.float32)
    pads, corner = np.array([1, 0, 2, 1]), np.zeros((9, 9), np.float32)
    corner[8, 0] = 2
    return [
        case("constant", "Pad", [x, pads, np.array(0.5, np.float32)], [1], **MS),
        case("edge", "Pad", [x, pads], [1], mode="edge", **MS),
        case("reflect", "Pad", [x, pads], [1], mode="reflect", **MS),
        case("matrix", "Inverse", [array(5, 5)], rtol=1e-3, **MS),
        case("batch", "Inverse", [array(2, 3, 4, 4)], rtol=1e-3, **MS),
        case("float64", "Inverse", [array(11, 11).astype(np.float64)], rtol=1e-8, **MS),
        case("zeros to swap", "Inverse", [np.eye(9, k=1, dtype=np.float32) + corner], **MS),
        case("upper", "Trilu", [x], **MS),
        case("lower", "Trilu", [x, np.array(1)], [1], upper=0, **MS),
        case("tuples", "GatherND", [x, np.array([[0, 1], [2, 4]])], **MS),
        case("step", "Range", [*np.array([[1], [4], [0.5]], np.float32)], [0, 1, 2], **MS),
        case("no step", "Range", [np.array(2), np.array(7)], [0, 1], **MS),
        case("last", "ExpandDims", [x, np.array(-1, np.int32)], [1], **MS),
        case("first", "ExpandDims", [x, np.array(0, np.int32)], [1], **MS),
        case("occurrence", "Unique", [twice], outputs=3, **MS),
        case("squared-distances", "CDist", [x, array(4, 5)], **MS),
        case("roots", "CDist", [x, array(4, 5)], metric="euclidean", **MS),
        case("last", "UnfoldTensor", [x], size=2, step=2, **MS),
        case("first", "UnfoldTensor", [x], dim=0, size=2, **MS),
        case("linear", "GridSample", [array(1, 2, 5, 5), grid], **MS),
    ]

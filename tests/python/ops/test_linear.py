"""MatMul, Gemm and Einsum, compared with ONNX Runtime."""

from __future__ import annotations

import math

import numpy as np
from nn_case import case, check

RNG = np.random.default_rng(3)


def array(*shape, dtype=np.float32):
    if np.issubdtype(dtype, np.integer):
        return RNG.integers(-9, 9, shape).astype(dtype)
    return RNG.uniform(-1, 1, shape).astype(dtype)


def test_matmul(tmp_path):
    shapes = [
        ((5, 7), (7, 9)),
        ((7,), (7, 9)),
        ((5, 7), (7,)),
        ((7,), (7,)),
        ((2, 3, 5, 7), (7, 4)),
        ((5, 7), (2, 3, 7, 4)),
        ((2, 1, 5, 7), (3, 7, 4)),
        ((3, 5, 7), (7,)),
        ((1, 130), (130, 70)),
        ((2, 2, 3, 2, 5, 7), (2, 1, 3, 1, 7, 4)),
    ]
    cases = [case(f"{a} x {b}", "MatMul", [array(*a), array(*b)]) for a, b in shapes]
    cases += [case(f"{a} x weights {b}", "MatMul", [array(*a), array(*b)], [1]) for a, b in shapes]
    cases += [
        case("weights x computed", "MatMul", [array(5, 7), array(3, 7, 4)], [0]),
        case("no columns", "MatMul", [array(5, 7), array(7, 0)], [1]),
        case("int32", "MatMul", [array(2, 5, 7, dtype=np.int32), array(7, 3, dtype=np.int32)]),
        case("int64", "MatMul", [array(5, 7, dtype=np.int64), array(7, 3, dtype=np.int64)]),
        case("float64", "MatMul", [array(5, 7, dtype=np.float64), array(7, 3, dtype=np.float64)]),
    ]
    check(cases, 13, tmp_path)


def test_gemm(tmp_path):
    a, b, c = array(5, 7), array(7, 9), array(9)
    cases = [
        case("plain", "Gemm", [a, b, c]),
        case("no bias", "Gemm", [a, b]),
        case("weights", "Gemm", [a, b, c], [1, 2]),
        case("transA", "Gemm", [a.T.copy(), b, c], transA=1),
        case("transB weights", "Gemm", [a, b.T.copy(), c], [1, 2], transB=1),
        case("factors", "Gemm", [a, b, c], [1, 2], alpha=0.5, beta=1.5),
        case("factors, computed", "Gemm", [a, b, c], alpha=0.5, beta=1.5),
        case("beta 0", "Gemm", [a, b, c], beta=0.0),
        case("infinite factor", "Gemm", [a, b, c], alpha=-math.inf),
        case("large factor", "Gemm", [a, b * np.float32(1e20), c], [1, 2], alpha=1e20),
        case("large factor of small ones", "Gemm", [a, b * np.float32(1e-30), c], [1], alpha=1e30),
        case("scalar bias", "Gemm", [a, b, array(1)], [1]),
        case("bias by row", "Gemm", [a, b, array(5, 1)], [1]),
        case("full bias", "Gemm", [a, b, array(5, 9)], [1]),
    ]
    check(cases, 13, tmp_path)


def test_einsum(tmp_path):
    equations = [
        ("ij,jk->ik", (3, 4), (4, 5)),
        ("ij,jk", (3, 4), (4, 5)),
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)),
        ("bhid,bhjd->bhij", (2, 3, 4, 5), (2, 3, 6, 5)),
        ("bid,bjd->bij", (2, 4, 5), (2, 6, 5)),
        ("i,j->ij", (3,), (4,)),
        ("i,i->", (5,), (5,)),
        ("ij->ji", (3, 4)),
        ("ij->", (3, 4)),
        ("ij->j", (3, 4)),
        ("ii->i", (4, 4)),
        ("ii", (4, 4)),
        ("bii->bi", (2, 4, 4)),
        ("iji->j", (4, 3, 4)),
        ("...ij,...jk->...ik", (2, 1, 3, 4), (1, 5, 4, 6)),
        ("...ij->...ji", (2, 3, 4)),
        ("bchw,ck->bkhw", (2, 3, 4, 5), (3, 6)),
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
        ("abc,cd,def->abef", (2, 3, 4), (4, 5), (5, 2, 3)),
        ("ijk,jil->kl", (2, 3, 4), (3, 2, 5)),
        ("ij,ij->ij", (3, 4), (3, 4)),
        ("b i d , b j d -> b i j", (2, 4, 5), (2, 6, 5)),
    ]
    cases = [case(e, "Einsum", [array(*s) for s in shapes], equation=e) for e, *shapes in equations]
    cases.append(
        case("weights", "Einsum", [array(2, 3, 4), array(4, 5)], [1], equation="abc,cd->abd")
    )
    check(cases, 13, tmp_path, "reference")

"""Fused requantise-add of int8 in fewer operations: all pairs of bytes, with the vectors of AMX
tiles and constants that were searched, compared with numpy's sum of rounded products."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from i8_case import FLAGS, usable_formats
from kernel_build import build, pointer

from tvmrt.compiler.codegen.window.fused_requant_add import find_constants

SOURCE = """
#define TVMRT_I8_FORMAT TVMRT_I8_X86_VNNI
#include <tvm/runtime/kernels/tile/gemm_i8_amx.h>
void sums(const tvmrt_fused_add_i8* by, const float* q, const uint8_t* b, uint8_t* y, int64_t n);
void sums(const tvmrt_fused_add_i8* by, const float* q, const uint8_t* b, uint8_t* y, int64_t n) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  tvmrt_amx_i8_out out;
  memset(&out, 0, sizeof(out));
  tvmrt_amx_i8_set_fused_add(&out, by);
  for (int o = 0; o < 4; o++) out.order[o] = _mm512_add_epi32(lanes, _mm512_set1_epi32(16 * o));
  for (int64_t i = 0; i < n; i += 64) {
    const __m512i bytes = _mm512_loadu_si512(b + i);
    __m512i v[4];
    for (int o = 0; o < 4; o++) {
      v[o] = tvmrt_amx_i8_fused_add(_mm512_loadu_ps(q + i + 16 * o), &out, bytes, o);
    }
    _mm512_storeu_si512(y + i, tvmrt_amx_i8_pack_words(v[0], v[1], v[2], v[3]));
  }
}
"""

# two scales, the bounds, the zero points of the addend and of the result
CASES = {
    "after-relu": (1.3310351, 0.6890678, (-117, 138), 0, 0),
    "both-zeros": (1.7716289, 1.7208732, (-120, 135), 147, 0),
    "result-zero": (0.7316208, 1.1038507, (-128, 127), 121, 34),
    "small": (0.0213417, 0.4120831, (-131, 124), 128, 100),
    "bounded": (0.9437182, 0.6213093, (-20, 101), 3, 0),
}
FAR = np.array([-2e9, -7e6, -32769.5, -3000.25, 2999.75, 40000.5, 9e6, 2e9], np.float32)


class Quick(ctypes.Structure):
    """tvmrt_fused_add_i8."""

    names = ("round", "a_scale", "fa_round", "most", "b_scale", "fb_high", "last", "high")
    _fields_ = [(name, ctypes.c_float) for name in names]  # the last one as its bit pattern


@pytest.mark.skipif("amx" not in usable_formats(), reason="no AVX512_VNNI here")
@pytest.mark.parametrize("is_vbmi", [True, False], ids=["vbmi", "without"])
@pytest.mark.parametrize("name", CASES)
def test_sums_of_all_int8_pairs_match_numpy(tmp_path, name, is_vbmi):
    fa, fb, bounds, b_zero, y_zero = CASES[name]
    fa, fb = np.float32(fa), np.float32(fb)
    by = find_constants(float(fa), float(fb), bounds, b_zero, y_zero)
    assert by is not None
    whole = np.arange(bounds[0] - 3, bounds[1] + 4)
    ties = [np.nextafter(np.float32(whole + 0.5), np.float32(end)) for end in (-1e9, 1e9)]
    values = np.concatenate([whole, whole + 0.5, whole + 0.25, *ties, FAR]).astype(np.float32)
    q, b = (a.reshape(-1).copy() for a in np.meshgrid(values, np.arange(256), indexing="ij"))
    b, y = b.astype(np.uint8), np.zeros(q.size, np.uint8)
    u = np.clip(np.rint(q), *bounds).astype(np.float32) * fa
    v = (b.astype(np.int32) - b_zero).astype(np.float32) * fb
    wanted = np.clip(np.rint(u + v) + y_zero, 0, 255)
    flags = FLAGS["amx"] if is_vbmi else [*FLAGS["amx"], "-mno-avx512vbmi"]
    constants = Quick(*(getattr(by, name) for name in Quick.names))
    library = build(tmp_path, SOURCE, flags)
    library.sums(ctypes.byref(constants), *map(pointer, (q, b, y)), ctypes.c_int64(q.size))
    np.testing.assert_array_equal(y, wanted)


def test_scales_with_exact_ties_use_the_general_path():
    """Exact ties need the general path; a fast constant that is close is not enough."""
    assert find_constants(0.5, 0.5, (-128, 127), 0, 0) is None

"""Compare fixed-point arithmetic with values computed independently from the format's rules."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from tvmrt.compiler.ir import fixed_point
from tvmrt.compiler.ir.fixed_point import exp_fraction, logistic_fraction, tanh_fraction
from tvmrt.compiler.ir.requantization import multiplier
from tvmrt.plugins.tflite.frontend.lookup_tables_int16 import entries_of, logistic_entries


@pytest.mark.parametrize(
    ("real", "pair"),
    [
        (0.0123, (1690499128, -6)), (0.5, (1 << 30, 0)), (1.0, (1 << 30, 1)),
        (1 - 2.0**-33, (1 << 30, 1)), (3.7, (1986422374, 2)), (2.0**-32, (1 << 30, -31)),
        (2.0**-33, (0, 0)),
    ],
)  # fmt: skip
def test_multipliers(real, pair):
    assert multiplier(real) == pair


@pytest.mark.parametrize("real", [float("nan"), float("inf"), 2.0**40])
def test_multipliers_out_of_range_are_errors(real):
    with pytest.raises(ValueError, match="quantise the model again"):
        multiplier(real)


def test_both_roundings_and_wide_sums():
    m, e = np.int32(1690499128), np.int32(-6)
    assert [int(fixed_point.scale(np.int32(x), m, e)) for x in (203, -203)] == [3, -3]
    assert int(fixed_point.scale(np.int32(1 << 30), m, e)) == 13207024
    assert int(fixed_point.scale_wide(np.int64(1 << 30), m, e)) == 13207040
    half = np.int32(1 << 30), np.int32(-7)
    assert [int(fixed_point.scale(np.int32(x), *half)) for x in (-128, 127, -384)] == [-1, 1, -2]
    assert int(fixed_point.scale(np.int32(386), np.int32(1599705075), np.int32(-6))) == 5
    assert int(fixed_point.float_scale(np.int32(127), 2.0**-8)) == 0


def test_exponentials_reciprocals_and_tables():
    steps = np.array([-(2**24), -(2**26), -(2**28), -(2**31)])
    assert exp_fraction(steps, 5).tolist() == [1672462419, 790015308, 39332546, 0]
    total = 2**19 + 12345
    fraction = np.int32((total << (32 - total.bit_length())) - 2**31)
    assert int(fixed_point.reciprocal(fraction)) == 2098081754
    entries = logistic_entries().astype("<u2").tobytes()
    assert hashlib.sha256(entries).hexdigest()[:16] == "c79a34d2c8c6e794"
    powers = entries_of(np.exp, 10 / 65535, 32767, 2 / 65535, 0, np.float64)
    assert powers[[0, 254, 255, 256, 257, 510, 511, 512]].tolist() == [
        2, 212, 217, 221, 225, 31512, 32133, 32767,
    ]  # fmt: skip


def test_logistic_and_tanh_are_accurate_to_the_last_bits():
    raw = np.arange(-(2**31), 2**31 - 1, 2**23 + 12345)
    real = raw / 2.0**27
    np.testing.assert_allclose(
        logistic_fraction(raw, 4) / 2.0**31, 1 / (1 + np.exp(-real)), atol=2e-7
    )
    np.testing.assert_allclose(tanh_fraction(raw, 4) / 2.0**31, np.tanh(real), atol=2e-7)

"""Integer signal processing from audio to features, as in the microcontroller signal library.

All operators are bit-exact with TensorFlow Lite Micro. Spectra are adjacent pairs along the last
axis, the real part first.
"""

from __future__ import annotations

import numpy as np

from .contract import Contract, holds, let
from .dtype import to_integers
from .fixed_point import FixedPointOp
from .op import Kernel, Op, define, register
from .traits import Trait

SIGNAL = "scalar/signal.h"
GAIN_PLACES = 125  # entries of the table of a function over all 32-bit integers
_BEND = to_integers(
    np.rint((np.log2(1 + np.arange(129) / 128) - np.arange(129) / 128) * 65536), np.int64
)


def radices(size: int) -> list[int] | None:
    """Return the radices of a transform of ``size`` complex numbers, outermost first; None if it
    needs others than 2 to 5."""
    factors = []
    for radix in (4, 2, 3, 5):
        while size % radix == 0 and size > 1:
            factors.append(radix)
            size //= radix
    return factors if size == 1 else None


def bits(x: np.ndarray) -> np.ndarray:
    """Return the number of bits up to the highest set one; 32 for 0."""
    return np.where(x == 0, 32, np.frexp(x.astype(np.float64))[1]).astype(np.int64)


def root(x: np.ndarray) -> np.ndarray:
    """Return the square root, rounded to nearest; at most 65535 for 32-bit numbers."""
    wide = x.astype(np.uint64)
    down = to_integers(np.sqrt(wide.astype(np.float64)), np.uint64)
    most = np.where(wide >> np.uint64(32) == 0, 0xFFFF, 0xFFFFFFFF).astype(np.uint64)
    down = np.minimum(down, most)
    down = np.where(down * down > wide, down - np.uint64(1), down)
    rest = wide - down * down
    return (down + ((rest > down) & (down != most))).astype(np.uint32)


def log(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the natural logarithm in units of 1 / scale; 0 for numbers below 2."""
    value = np.maximum(x.astype(np.int64), 2)
    integer_bits = bits(value) - 1
    rest = value - (1 << integer_bits)
    part = np.where(
        integer_bits < 16,
        rest << np.maximum(16 - integer_bits, 0),
        rest >> np.maximum(integer_bits - 16, 0),
    )
    at = part >> 9
    slope = ((_BEND[at + 1] - _BEND[at]) * (part & 511)) >> 16
    log2 = (integer_bits << 16) + part + _BEND[at] + slope
    natural = (45426 * log2 + 32768) >> 16
    scaled = ((scale.astype(np.int64) * natural + 32768) & 0xFFFFFFFF) >> 16
    return np.where(x < 2, 0, scaled).astype(np.uint32)


def window(x: np.ndarray, weight: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """Return x times the weight, shifted to the right, saturated."""
    product = (x.astype(np.int32) * weight) >> (shift & 31)
    return np.clip(product, -32768, 32767).astype(np.int16)


def wide_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.uint64) * b


for _row in (
    FixedPointOp("signal_window", ["x: int16", "w: int16", "shift: int32"], window, "int16"),
    FixedPointOp(
        "wide_product",
        ["a: uint32", "b: uint32"],
        wide_product,
        "uint64",
        text="tvmrt_mul_u64({})",
        traits={Trait.COMMUTATIVE},
    ),
    FixedPointOp("signal_root", ["x: uint64"], root, "uint32"),
    FixedPointOp("signal_log", ["x: uint32", "scale: uint32"], log, "uint32"),
):
    _row.header = SIGNAL
    define(_row)


@register("signal_auto_scale")
class SignalAutoScale(Op):
    """Shift samples to the left so that the largest takes all bits; return also the shift."""

    contract = Contract("x: int16[N] -> y: int16[N], bits: int32[]")
    kernel = Kernel("op/signal.h", "tvmrt_signal_auto_scale", "*bits= x y x.size")


_LENGTH = [
    holds(
        "length is even and has no prime factors but 2, 3 and 5",
        lambda length: length % 2 == 0 and radices(length // 2) is not None,
    )
]


@register("signal_rfft")
class SignalRfft(Op):
    """Spectrum of each row, zero-padded to ``length``; in fixed point divided by the length."""

    contract = Contract(
        "x: E=int16|int32|float32[*S N] -> y: E[*S length+2]",
        "length: int 4..65536",
        rules=[
            *_LENGTH,
            holds("rows are no longer than length", lambda N, length: N <= length),
        ],
        example={"length": 12, "N": 10},
    )


@register("signal_irfft")
class SignalIrfft(Op):
    """Inverse transform: samples from each row's spectrum. In fixed point they are divided by
    ``length``, in floating point they are not."""

    contract = Contract(
        "x: E=int16|int32|float32[*S N] -> y: E[*S length]",
        "length: int 4..65536",
        rules=[
            *_LENGTH,
            holds("rows have length + 2 numbers", lambda N, length: length + 2 == N),
        ],
        example={"length": 12, "N": 14},
    )


def _is_in_bounds(N, W, first_data, first_weight_data, widths_data) -> bool:
    """Return whether each channel's frequencies and weights are in range."""
    places = zip((first_data, first_weight_data), (N, W))
    used = widths_data > 0
    return all(
        (at[used] >= 0).all() and (at.astype(np.int64) + widths_data <= extent)[used].all()
        for at, extent in places
    )


@register("signal_filter_bank")
class SignalFilterBank(Op):
    """Filter bank: each energy is added to a channel with one weight, to the next with another.
    ``first``, ``first_weight`` and ``widths`` describe each channel. An extra channel in front
    contributes only its weights for the next channel."""

    contract = Contract(
        "x: uint32[N], weights: constant int16[W], unweights: constant int16[W], "
        "first: constant int16[C], first_weight: constant int16[C], widths: constant int16[C] -> "
        "y: uint64[channels]",
        rules=[
            holds("there is a channel after the first one", lambda C: C > 1),
            holds(
                "channels lie inside of x and of the weights",
                _is_in_bounds,
            ),
            let("channels", "channels without the one in front", lambda C: C - 1),
        ],
        example={"C": 4},
    )


@register("signal_gain")
class SignalGain(Op):
    """Noise-dependent gain. ``table`` has the gain for each noise estimate; ``shift`` takes the
    product to 12 fractional bits. Quiet signals are attenuated further. The result has 6 fractional
    bits."""

    contract = Contract(
        "x: uint32[*S], noise: uint32[*S], table: constant int16[P] -> y: uint32[*S]",
        "shift: int 0..63",
        rules=[holds(f"table has {GAIN_PLACES} places", lambda P: P >= GAIN_PLACES)],
        example={"P": GAIN_PLACES},
    )
    kernel = Kernel("op/signal.h", "tvmrt_signal_gain", "x noise table y y.size shift")


@register("spectrogram")
class Spectrogram(Op):
    """Magnitudes, or with ``squared`` their squares, of the spectrum of each frame of a signal,
    zero-padded to ``length``. Frames start ``step`` samples apart; ``window`` has a weight for each
    sample of a frame."""

    contract = Contract(
        "x: float32[N C], window: constant float32[W] -> y: float32[C F bins]",
        "length: int 4..65536, step: int 1.., squared: bool",
        rules=[
            *_LENGTH,
            holds(
                "a frame fits the signal and the length",
                lambda N, W, length: 0 < W <= min(N, length),
            ),
            let("F", "frames", lambda N, W, step: 1 + (N - W) // step),
            let("bins", "half of length, and one", lambda length: length // 2 + 1),
        ],
        example={"length": 12, "W": 2, "N": 3, "step": 1},
    )

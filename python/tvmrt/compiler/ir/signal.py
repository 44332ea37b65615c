"""Steps from sound to features in integers, as the signal library for microcontrollers has them.

All are bit for bit those of TensorFlow Lite Micro. Spectra are pairs of neighbours along the last
axis, the real part first.
"""

from __future__ import annotations

import numpy as np

from .contract import Contract, holds, let
from .fixed_point import FixedPointOp
from .float_to_int import to_integers
from .op import Op, define, register

SIGNAL = "scalar/signal.h"
GAIN_PLACES = 125  # of the table of a function over all numbers of 32 bits
_BEND = to_integers(
    np.rint((np.log2(1 + np.arange(129) / 128) - np.arange(129) / 128) * 65536), np.int64
)


def radices(size: int) -> list[int] | None:
    """The radices of a transform of so many complex numbers, outermost first; None where it has
    others than 2 to 5."""
    found = []
    for radix in (4, 2, 3, 5):
        while size % radix == 0 and size > 1:
            found.append(radix)
            size //= radix
    return found if size == 1 else None


def bits(x: np.ndarray) -> np.ndarray:
    """The number of bits up to the highest one; of 0 it is 32."""
    return np.where(x == 0, 32, np.frexp(x.astype(np.float64))[1]).astype(np.int64)


def root(x: np.ndarray) -> np.ndarray:
    """The square root to the nearest; at most 65535 for numbers of 32 bits."""
    wide = x.astype(np.uint64)
    down = to_integers(np.sqrt(wide.astype(np.float64)), np.uint64)
    most = np.where(wide >> np.uint64(32) == 0, 0xFFFF, 0xFFFFFFFF).astype(np.uint64)
    down = np.minimum(down, most)
    down = np.where(down * down > wide, down - np.uint64(1), down)
    rest = wide - down * down
    return (down + ((rest > down) & (down != most))).astype(np.uint32)


def log(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """The natural logarithm in units of 1 / scale; 0 of what is below 2."""
    value = np.maximum(x.astype(np.int64), 2)
    whole = bits(value) - 1
    rest = value - (1 << whole)
    part = np.where(
        whole < 16, rest << np.maximum(16 - whole, 0), rest >> np.maximum(whole - 16, 0)
    )
    at = part >> 9
    slope = ((_BEND[at + 1] - _BEND[at]) * (part & 511)) >> 16
    log2 = (whole << 16) + part + _BEND[at] + slope
    natural = (45426 * log2 + 32768) >> 16
    scaled = ((scale.astype(np.int64) * natural + 32768) & 0xFFFFFFFF) >> 16
    return np.where(x < 2, 0, scaled).astype(np.uint32)


def window(x: np.ndarray, weight: np.ndarray, shift: np.ndarray) -> np.ndarray:
    """x times the weight, shifted to the right, saturated."""
    product = (x.astype(np.int32) * weight) >> (shift & 31)
    return np.clip(product, -32768, 32767).astype(np.int16)


def wide_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.uint64) * b


for _row in (
    FixedPointOp("signal_window", ["x: int16", "w: int16", "shift: int32"], window, "int16"),
    FixedPointOp("wide_product", ["a: uint32", "b: uint32"], wide_product, "uint64"),
    FixedPointOp("signal_root", ["x: uint64"], root, "uint32"),
    FixedPointOp("signal_log", ["x: uint32", "scale: uint32"], log, "uint32"),
):
    _row.header = SIGNAL
    define(_row)


@register("signal_auto_scale")
class SignalAutoScale(Op):
    """Samples shifted to the left so that the largest takes all bits, and by how many bits."""

    contract = Contract("x: int16[N] -> y: int16[N], bits: int32[]")


_LENGTH = [
    holds(
        "length is even and has no prime factors but 2, 3 and 5",
        lambda length: length % 2 == 0 and radices(length // 2) is not None,
    )
]


@register("signal_rfft")
class SignalRfft(Op):
    """The spectrum of each row, with zeros behind it up to ``length``; in fixed point divided by
    the length."""

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
    """The samples of each row's spectrum: in fixed point divided by ``length``, in floating point
    those of which it is the spectrum times half the length."""

    contract = Contract(
        "x: E=int16|int32|float32[*S N] -> y: E[*S length]",
        "length: int 4..65536",
        rules=[
            *_LENGTH,
            holds("rows have length + 2 numbers", lambda N, length: length + 2 == N),
        ],
        example={"length": 12, "N": 14},
    )


def _inside(N, W, first_data, first_weight_data, widths_data) -> bool:
    """Whether each channel's frequencies and weights are there."""
    places = zip((first_data, first_weight_data), (N, W))
    used = widths_data > 0
    return all(
        (at[used] >= 0).all() and (at.astype(np.int64) + widths_data <= extent)[used].all()
        for at, extent in places
    )


@register("signal_filter_bank")
class SignalFilterBank(Op):
    """Sums of energies with two weights each: one for a channel, one for the next. ``first``,
    ``first_weight`` and ``widths`` tell each channel's; there is one more in front, of which only
    the weights for the next one count."""

    contract = Contract(
        "x: uint32[N], weights: constant int16[W], unweights: constant int16[W], "
        "first: constant int16[C], first_weight: constant int16[C], widths: constant int16[C] -> "
        "y: uint64[channels]",
        rules=[
            holds("there is a channel behind the one in front", lambda C: C > 1),
            holds(
                "channels lie inside of x and of the weights",
                _inside,
            ),
            let("channels", "channels without the one in front", lambda C: C - 1),
        ],
        example={"C": 4},
    )


@register("signal_gain")
class SignalGain(Op):
    """x with a gain that ``table`` tells for each estimate of the noise; ``shift`` from their
    product to 12 bits behind the point. What is quiet is made quieter; the result has 6 bits behind
    the point."""

    contract = Contract(
        "x: uint32[*S], noise: uint32[*S], table: constant int16[P] -> y: uint32[*S]",
        "shift: int 0..63",
        rules=[holds(f"table has {GAIN_PLACES} places", lambda P: P >= GAIN_PLACES)],
        example={"P": GAIN_PLACES},
    )


@register("spectrogram")
class Spectrogram(Op):
    """Absolute values, or with ``squared`` their squares, of the spectrum of each frame of a
    signal, with zeros behind it up to ``length``. Frames begin ``step`` samples apart; ``window``
    has a weight for each sample of one."""

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

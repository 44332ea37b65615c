"""How far a result may be from the right one, by the kind of its elements.

- floats: ``|error| <= 1e-3 |right| + max(1e-4 max|right|, 10 noise, 1e-6)``, element by element
- what is made of products in bfloat16, or by a DynamicQuantizeLSTM, whose state has 8 bits as well
  in onnxruntime: ``|error| <= 2**-6 max|right|`` behind one layer; behind a network, which may make
  it larger, half of max|right|: what that means for results, data tell
- floats beside a judge that quantises activations to 8 bits, where tvmrt does not:
  ``|error| <= 2**-4 max|right|``
- 8-bit integers: at most 1 step, or the noise if that is more; so are a network's results that are
  dequantised of them
- other integers and booleans: at most 0.1 % of the elements, and twice the noise, differ

``noise`` is how far another faithful computation came out, in the same unit as ``difference``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

# How far results of one layer, and of all of a network's, are allowed to be off in bfloat16.
ROUNDED_LAYER, ROUNDED_NETWORK = 2.0**-6, 0.5
BYTES_OF_FLOATS = 2.0**-4  # where the judge has activations of 8 bits

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Verdict:
    """``error`` and ``allowed`` in the same unit; ``excess`` is their worst ratio (<= 1: right).
    ``relative`` is the error in parts of the largest right number, of integers 0."""

    error: float
    allowed: float
    excess: float
    problem: str = ""
    relative: float = 0.0

    @property
    def right(self) -> bool:
        """Tell whether the result is good enough."""
        return self.excess <= 1.0 and not self.problem


@dataclass(frozen=True)
class Row:
    """One tensor compared; ``part`` tells the network itself from the one with all tensors kept."""

    part: str
    tensor: str
    made_by: str
    dtype: str
    shape: tuple[int, ...]
    verdict: Verdict


def difference(actual: np.ndarray, right: np.ndarray) -> float:
    """Return the largest difference: absolute, in steps, or as a share of the elements."""
    import numpy as np

    if right.size == 0:
        return 0.0
    if right.dtype.kind in {"f", "V"}:
        return float(np.max(_float_errors(actual, right)))
    if right.dtype.itemsize == 1 and right.dtype.kind in "iu":
        return float(np.max(np.abs(actual.astype(np.int64) - right.astype(np.int64))))
    return float(np.mean(actual != right))


def _float_errors(actual: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return absolute differences; equal infinities and NaN in both places differ by 0."""
    import numpy as np

    a, r = actual.astype(np.float64), right.astype(np.float64)
    with np.errstate(invalid="ignore"):
        errors = np.abs(a - r)
    same = (a == r) | (np.isnan(a) & np.isnan(r))
    return np.where(same, 0.0, np.where(np.isnan(errors), np.inf, errors))


def same(actual: np.ndarray, right: np.ndarray) -> Verdict:
    """Compare a result with the right one: integers must be equal, floats as by ``judge``."""
    verdict = judge(actual, right)
    if verdict.problem or right.dtype.kind in "fV":
        return verdict
    return Verdict(verdict.error, 0.0, float("inf") if verdict.error else 0.0)


def judge(
    actual: np.ndarray,
    right: np.ndarray,
    noise: float = 0.0,
    rounded: float = 0.0,
    step: float = 0.0,
) -> Verdict:
    """Compare a result with the right one. ``rounded``: how far floats may be off besides, in parts
    of the largest, where they are made of rounded numbers; ``step``: what one step is worth where
    they are made of bytes."""
    import numpy as np

    for what, got, wanted in (
        ("shape", tuple(actual.shape), tuple(right.shape)),
        ("type", str(actual.dtype), str(right.dtype)),
    ):
        if got != wanted:
            return Verdict(float("inf"), 0.0, float("inf"), f"{what} {got}, not {wanted}")
    error = difference(actual, right)
    if right.size == 0:
        return Verdict(0.0, 0.0, 0.0)
    if right.dtype.kind in "fV":
        magnitude = np.atleast_1d(np.abs(right.astype(np.float64)))
        finite = magnitude[np.isfinite(magnitude)]
        largest = float(finite.max(initial=0.0))
        # the numbers are products with the step, each of them rounded
        apart = step + 2.0**-22 * largest if step else 0.0
        floor = max(max(1e-4, rounded) * largest, 10 * noise, apart, 1e-6)
        allowed = 1e-3 * np.where(np.isfinite(magnitude), magnitude, 0.0) + floor
        ratio = np.atleast_1d(_float_errors(actual, right)) / allowed
        worst = int(np.argmax(ratio))  # of the flattened array
        relative = error / largest if largest else error
        return Verdict(error, float(allowed.flat[worst]), float(ratio.flat[worst]), "", relative)
    eight_bit = right.dtype.itemsize == 1 and right.dtype.kind in "iu"
    allowed = max(1.0, noise) if eight_bit else 1e-3 + 2 * noise
    return Verdict(error, allowed, error / allowed)

"""Allowed error of a result compared with a reference, by the type of its elements.

- floats: ``|error| <= 1e-3 |right| + max(1e-4 max|right|, 10 noise, 1e-6)``, element by element
- results of bfloat16 matmuls: ``|error| <= 2**-6 max|right|`` after one layer; of operators with a
  tolerance t of a plug-in: ``|error| <= t max|right|``. After a network, which may amplify the
  error, half of max|right|; measure the effect on accuracy with real data
- floats compared with a reference that quantises activations to 8 bits, unlike tvmrt:
  ``|error| <= 2**-4 max|right|``
- results of a node in bfloat16: ``|error| <= 2**-6 max|right|``; of a network, that for each such
  node, at most half of max|right|
- floats of 8 and 4 bits, integers of 4 and 2 bits: at most 1 % of the elements, but at least one,
  are the next number of the type, and twice the noise any other
- 8-bit integers, and results of a network that are dequantised from them: at most 1 step, or the
  noise if that is more
- other integers and booleans: at most 0.1 % of the elements plus twice the noise differ

``noise`` is the error of another faithful computation, in the unit of ``difference``.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING

from tvmrt import plugin
from tvmrt.compiler.operator_key import domain_of

# Allowed errors in reduced precision: of one layer, and of a whole network.
ROUNDED_LAYER, ROUNDED_NETWORK = 2.0**-6, 0.5
INT8_ACTIVATION_TOLERANCE = (
    2.0**-4
)  # allowed error if the reference quantises activations to 8 bits

if TYPE_CHECKING:
    import numpy as np
    import onnx


def of_plugins(model: onnx.ModelProto, with_followers: bool = False) -> dict[str, float]:
    """Return the allowed errors, relative to the maximum, of results of operators for which a
    plug-in states one, by tensor name.

    ``with_followers``: of these and of the tensors computed from them, in a whole network.
    """
    allowed: dict[str, float] = {}
    growth = ROUNDED_NETWORK / ROUNDED_LAYER if with_followers else 1.0
    for node in model.graph.node:
        found = [allowed[name] for name in node.input if name in allowed and with_followers]
        own = plugin.find("tolerances", (domain_of(node.domain), node.op_type), Real)
        found += [] if own is None else [min(growth * own, ROUNDED_NETWORK)]
        if found:
            allowed.update(dict.fromkeys(filter(None, node.output), max(found)))
    return allowed


@dataclass(frozen=True)
class Verdict:
    """Judgement of a result.

    ``allowed``: Tolerance, in the unit of the error. ``excess``: Largest ratio of error to
    tolerance; correct up to 1. ``relative``: Error relative to the largest expected value; 0 for
    integers. ``note``: Why a result that differs is not wrong.
    """

    error: float
    allowed: float
    excess: float
    problem: str = ""
    relative: float = 0.0
    note: str = ""

    @property
    def right(self) -> bool:
        """Return whether the result is within the tolerance."""
        return self.excess <= 1.0 and not self.problem


@dataclass(frozen=True)
class TensorComparison:
    """One compared tensor; ``part`` separates the network from the one with all tensors kept."""

    part: str
    tensor: str
    made_by: str
    dtype: str
    shape: tuple[int, ...]
    verdict: Verdict


def difference(actual: np.ndarray, right: np.ndarray) -> float:
    """Return the maximum difference: absolute, in steps, or as a fraction of the elements."""
    import numpy as np

    if right.size == 0:
        return 0.0
    if _has_few_bits(right.dtype):
        return float(np.mean(_steps(actual, right) > 0))
    if right.dtype.kind in {"f", "V"}:
        return float(np.max(_float_errors(actual, right)))
    if right.dtype.itemsize == 1 and right.dtype.kind in "iu":
        return float(np.max(np.abs(actual.astype(np.int64) - right.astype(np.int64))))
    return float(np.mean(actual != right))


def _has_few_bits(dtype: np.dtype) -> bool:
    """Return whether it is a type of at most 8 bits that NumPy lacks."""
    return dtype.kind in "fV" and dtype.itemsize == 1


def _steps(actual: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return how many numbers of their type, of at most 8 bits, elements are apart."""
    import numpy as np

    a, r = (each.astype(np.float32) for each in (actual, right))
    numbers = np.unique(np.arange(256, dtype=np.uint8).view(right.dtype).astype(np.float32))
    numbers = numbers[~np.isnan(numbers)]
    apart = np.abs(np.searchsorted(numbers, a) - np.searchsorted(numbers, r))
    either = np.isnan(a) | np.isnan(r)
    return np.where(either, np.where(np.isnan(a) & np.isnan(r), 0, numbers.size), apart)


def _judge_few_bits(actual: np.ndarray, right: np.ndarray, noise: float) -> Verdict:
    import numpy as np

    steps = _steps(actual, right)
    error, far = float(np.mean(steps > 0)), float(np.mean(steps > 1))
    allowed = max(0.01, 1 / right.size) + 2 * noise
    problem = f"by {int(steps.max())} steps" if far > 2 * noise else ""
    return Verdict(error, allowed, error / allowed, problem)


def _float_errors(actual: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return absolute differences; 0 for equal infinities and for NaN in both arrays."""
    import numpy as np

    a, r = actual.astype(np.float64), right.astype(np.float64)
    with np.errstate(invalid="ignore"):
        errors = np.abs(a - r)
    compare_exactly = (a == r) | (np.isnan(a) & np.isnan(r))
    return np.where(compare_exactly, 0.0, np.where(np.isnan(errors), np.inf, errors))


def compare_exactly(actual: np.ndarray, right: np.ndarray) -> Verdict:
    """Compare a result with a reference: integers must be equal, floats as in ``judge``."""
    verdict = judge(actual, right)
    if verdict.problem or (right.dtype.kind in "fV" and not _has_few_bits(right.dtype)):
        return verdict
    return Verdict(verdict.error, 0.0, float("inf") if verdict.error else 0.0)


def judge(
    actual: np.ndarray,
    right: np.ndarray,
    noise: float = 0.0,
    rounded: float = 0.0,
    step: float = 0.0,
) -> Verdict:
    """Compare a result with a reference. ``rounded`` is a further allowed error of floats, relative
    to the maximum, for reduced precision. ``step`` is the scale of floats that are dequantised from
    8-bit integers."""
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
    if _has_few_bits(right.dtype):
        return _judge_few_bits(actual, right, noise)
    if right.dtype.kind in "fV":
        magnitude = np.atleast_1d(np.abs(right.astype(np.float64)))
        finite = magnitude[np.isfinite(magnitude)]
        largest = float(finite.max(initial=0.0))
        # dequantised values are rounded products of integers with the scale
        quantization_step = step + 2.0**-22 * largest if step else 0.0
        floor = max(max(1e-4, rounded) * largest, 10 * noise, quantization_step, 1e-6)
        allowed = 1e-3 * np.where(np.isfinite(magnitude), magnitude, 0.0) + floor
        ratio = np.atleast_1d(_float_errors(actual, right)) / allowed
        worst = int(np.argmax(ratio))  # of the flattened array
        relative = error / largest if largest else error
        return Verdict(error, float(allowed.flat[worst]), float(ratio.flat[worst]), "", relative)
    eight_bit = right.dtype.itemsize == 1 and right.dtype.kind in "iu"
    allowed = max(1.0, noise) if eight_bit else 1e-3 + 2 * noise
    return Verdict(error, allowed, error / allowed)

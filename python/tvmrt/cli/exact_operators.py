"""Operators of the ONNX reference evaluator in exact arithmetic, where the package's wrap around.

They share no code with the compiler: integers are those of Python.
"""

from __future__ import annotations

from math import isfinite, isnan

import numpy as np

STRING = 8  # TensorProto.STRING
BITS = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}


def lowest_bits(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Round floats to the nearest integer, ties to even, and keep the lowest bits of ``dtype``.

    NaN and infinities become 0.
    """
    mask = (1 << BITS[dtype.name]) - 1
    values = x.astype(np.float64).reshape(-1).tolist()
    codes = [round(v) & mask if isfinite(v) else 0 for v in values]
    return np.asarray(codes, np.uint8).view(dtype).reshape(x.shape)


def to_integers(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Round floats toward zero to integers of ``dtype``, out of range to its bounds, NaN to 0."""
    ends = np.iinfo(dtype)
    values = x.astype(np.float64).reshape(-1).tolist()
    low, high = float(ends.min), float(ends.max)
    found = [
        0 if isnan(v) else ends.min if v <= low else ends.max if v >= high else int(v)
        for v in values
    ]
    return np.asarray(found, dtype).reshape(x.shape)


def _is_float(dtype: np.dtype) -> bool:
    """Return whether a NumPy type, or one of ml_dtypes, is a floating-point type."""
    return "float" in dtype.name


def evaluators() -> list[type]:
    """Return MaxPool, Cast, CastLike and Pow for the reference evaluator of onnx."""
    from onnx.helper import np_dtype_to_tensor_dtype, tensor_dtype_to_np_dtype
    from onnx.reference.op_run import OpRun
    from onnx.reference.ops.op_cast import cast_to
    from onnx.reference.ops.op_max_pool import MaxPool as PlainPool

    def convert(x, to: int, saturate=None, round_mode=None):
        dtype = np.dtype(object) if to == STRING else tensor_dtype_to_np_dtype(to)
        if _is_float(x.dtype) and (dtype.name in BITS or dtype.kind in "iu"):
            return ((lowest_bits if dtype.name in BITS else to_integers)(x, dtype),)
        return (cast_to(x, to, saturate is None or bool(saturate), round_mode or "up"),)

    class MaxPool(PlainPool):
        """MaxPool whose maximum is NaN if NaN is in the window."""

        op_domain = ""

        def _run(self, x, **attributes):
            y, *places = super()._run(x, **attributes)
            nan = np.isnan(x) if _is_float(x.dtype) else np.zeros(0)
            if nan.any():
                found, *_ = super()._run(nan.astype(np.float32), **attributes)
                y = np.where(found > 0, np.asarray(np.nan, y.dtype), y)
            return (y, *places)

    class Cast(OpRun):
        """Cast with the standard's rule for 4-bit integers, and saturation for wider ones."""

        op_domain = ""

        def _run(self, x, to=None, **attributes):
            return convert(x, to, **attributes)

    class CastLike(OpRun):
        """CastLike as Cast above."""

        op_domain = ""

        def _run(self, x, like, **attributes):
            return convert(x, np_dtype_to_tensor_dtype(like.dtype), **attributes)

    class Pow(OpRun):
        """Pow, saturated where an integer has a floating-point exponent."""

        op_domain = ""

        def _run(self, x, exponent, **attributes):
            if x.dtype.kind in "iu" and _is_float(exponent.dtype):
                power = np.power(x.astype(np.float64), exponent.astype(np.float64))
                return (to_integers(power, x.dtype),)
            return (np.power(x, exponent).astype(x.dtype),)

    return [MaxPool, Cast, CastLike, Pow]

"""Inputs of a network: those of callers, and random ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvmrt.network import array_conversion
from tvmrt.option_syntax import choose
from tvmrt.tensor_info import TensorInfo

if TYPE_CHECKING:
    import numpy as np


def largest(info: TensorInfo, bounds: Mapping[str, Sequence[int]]) -> TensorInfo:
    """Return an input with its dynamic dimensions at the maximum of ``bounds``, (min, max) by name.

    Raises ValueError if an extent depends on other extents.
    """
    unknown = [e for e in info.shape if isinstance(e, str) and e not in bounds]
    if unknown:
        raise ValueError(
            f"input {info.name} has the extent {unknown[0]}, which depends on other dimensions; "
            "give the inputs"
        )
    shape = tuple(bounds[e][1] if isinstance(e, str) else e for e in info.shape)
    return TensorInfo(info.name, info.dtype, shape)


def random_inputs(infos: Iterable[TensorInfo]) -> dict[str, np.ndarray]:
    """Return reproducible random inputs that suit most networks.

    Floats are normally distributed, 8-bit integers cover their range, other integers are 0 or 1.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    arrays = {}
    for info in infos:
        shape: Any = info.shape  # integers only
        values: np.ndarray[Any, Any]
        if info.dtype in ("int8", "uint8"):
            limits = np.iinfo(info.dtype)
            values = rng.integers(limits.min, limits.max, shape, endpoint=True)
        elif info.dtype.startswith(("int", "uint", "bool")):
            values = rng.integers(0, 1, shape, endpoint=True)
        else:
            values = rng.standard_normal(shape)
        try:
            arrays[info.name] = np.asarray(values).astype(_numpy_dtype(info.dtype))
        except TypeError:
            raise ValueError(
                f"input {info.name}: no values can be made up for type {info.dtype}; "
                f"give {choose('the inputs', '--inputs FILE.npz')}"
            ) from None
    return arrays


def _numpy_dtype(name: str) -> Any:
    if name == "bfloat16":
        import ml_dtypes

        return ml_dtypes.bfloat16
    return name


def converted(
    values: Sequence[Any], infos: Sequence[TensorInfo], columns: Sequence[str] = ()
) -> list[Any]:
    """Return inputs as arrays of the network's types.

    Raises TypeError or ValueError, naming the input; also for a table that does not begin with the
    columns in their order.
    """
    found = []
    for value, info in zip(values, infos):
        try:
            _check_columns(value, columns)
            array = array_conversion.as_array(value)
            found.append(array_conversion.convert_dtype(array, info.dtype))
        except (TypeError, ValueError) as error:
            raise type(error)(f"input {info.name}: {error}") from None
    return found


def _check_columns(value: Any, columns: Sequence[str]) -> None:
    given = getattr(value, "columns", None) if columns else None
    for i, (name, expected) in enumerate(zip(() if given is None else given, columns)):
        if name != expected:
            raise ValueError(
                f"column {i} is {name!r}, but the model was fitted with {expected!r} there; give "
                "the columns in the order of its feature_names_in_"
            )

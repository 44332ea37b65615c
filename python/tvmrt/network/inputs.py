"""Random inputs for a network."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tvmrt.network.open_sizes import example_maximum, value_of
from tvmrt.option_syntax import choose
from tvmrt.tensor_info import TensorInfo

if TYPE_CHECKING:
    import numpy as np


def largest(info: TensorInfo, bounds: Mapping[str, Sequence[int]]) -> TensorInfo:
    """Return an input with its dynamic dimensions at the maximum of ``bounds``, (min, max) by name,
    or at a moderate size if that is not limited.

    Raises ValueError if an extent depends on other extents by more than sums and products.
    """
    sizes = {name: example_maximum(name, each) for name, each in bounds.items()}
    shape = tuple(e if isinstance(e, int) else _size_of(info, e, sizes) for e in info.shape)
    return TensorInfo(info.name, info.dtype, shape)


def _size_of(info: TensorInfo, extent: str, sizes: Mapping[str, int]) -> int:
    size = value_of(extent, sizes)
    if size is None:
        raise ValueError(
            f"input {info.name} has the extent {extent}, which depends on other dimensions; "
            "give the inputs"
        )
    return size


def random_inputs(infos: Iterable[TensorInfo]) -> dict[str, np.ndarray]:
    """Return reproducible random inputs that suit most networks.

    Floats are normally distributed (positive for types without a sign), integers of 8 and fewer
    bits cover their range, other integers are 0 or 1.
    """
    import numpy as np

    rng = np.random.default_rng(0)
    arrays = {}
    for info in infos:
        shape: Any = info.shape  # integers only
        values: np.ndarray[Any, Any]
        few_bits = re.fullmatch("u?int([248])", info.dtype)
        if few_bits:
            low = 0 if info.dtype.startswith("u") else -(1 << int(few_bits[1])) // 2
            values = rng.integers(low, low + (1 << int(few_bits[1])), shape)
        elif info.dtype.startswith(("int", "uint", "bool")):
            values = rng.integers(0, 1, shape, endpoint=True)
        else:
            values = rng.standard_normal(shape)
            values = abs(values) if info.dtype == "float8_e8m0fnu" else values
        try:
            arrays[info.name] = np.asarray(values).astype(_numpy_dtype(info.dtype))
        except TypeError:
            raise ValueError(
                f"input {info.name}: no values can be made up for type {info.dtype}; "
                f"give {choose('the inputs', '--inputs FILE.npz')}"
            ) from None
    return arrays


def _numpy_dtype(name: str) -> Any:
    if name == "bfloat16" or re.match("(float[48]_|u?int[24]$)", name):
        import ml_dtypes

        return getattr(ml_dtypes, name)
    return name

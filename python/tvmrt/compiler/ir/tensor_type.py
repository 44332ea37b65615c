"""Types of tensors: shape and element type."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple

from tvmrt.error import UnsupportedError

from .dtype import DType, SourceType
from .sizes import SymInt, expected_size, extent_text

# Dimensions of a tensor: as many as numpy and the runtime have (TVMRT_MAX_NDIM).
MAX_RANK = 64


def check_rank(shape: Sequence[object], what: str) -> None:
    """Raise UnsupportedError, which names ``what``, for more than MAX_RANK dimensions."""
    if len(shape) > MAX_RANK:
        raise UnsupportedError(f"{what} has {len(shape)} dimensions; the maximum is {MAX_RANK}")


class PerTensor(NamedTuple):
    """Quantisation of an input or output: integers q stand for (q - zero_point) * scale."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class TensorType:
    """Logical shape (ONNX order) and element type of a tensor; symbolic extents have bounds.

    ``source``: the element type in the network's file if the graph stores another one, see
    ``SourceType``. Kernels do not depend on it, so types that differ only in it are equal. Raises
    UnsupportedError for more than MAX_RANK dimensions.
    """

    shape: tuple[SymInt, ...]
    dtype: DType
    source: SourceType | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_rank(self.shape, "a tensor")

    @property
    def element(self) -> str:
        """Name of the element type in the network's file."""
        return self.dtype.name if self.source is None else self.source.name

    @property
    def is_string(self) -> bool:
        """Whether its elements are strings: handles, or indices of strings known at import."""
        return self.source is not None and self.source.name == "string"

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Strings that its elements or columns stand for; None if there are none."""
        return None if self.source is None else self.source.labels

    def with_shape(self, shape: Iterable[SymInt]) -> TensorType:
        """Return the type of a tensor of the same elements in another shape."""
        return replace(self, shape=tuple(shape))

    def with_source(self, source: SourceType | None) -> TensorType:
        """Return the type with another element type in the network's file."""
        return replace(self, source=source)

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> SymInt:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Maximum number of bytes of its elements, or an estimate, without bounds."""
        return self.dtype.nbytes(expected_size(self.size))

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(extent_text, self.shape))}]"

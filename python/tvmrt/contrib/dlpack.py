"""Names of ``tvm.contrib.dlpack``: call packed functions with tensors of other libraries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmrt.runtime.ndarray import from_dlpack

__all__ = ["convert_func", "to_pytorch_func"]


def convert_func(
    tvm_func: Callable[..., Any], tensor_type: type, to_dlpack_func: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return a function that passes tensors of another library to a packed function.

    Parameters
    ----------
    tvm_func
        A PackedFunc, or a callable module.
    tensor_type
        The class of the other library's tensors; other arguments are passed unchanged.
    to_dlpack_func
        A function that returns the DLPack capsule of such a tensor.
    """

    def call(*args: Any) -> Any:
        return tvm_func(
            *(from_dlpack(to_dlpack_func(a)) if isinstance(a, tensor_type) else a for a in args)
        )

    return call


def to_pytorch_func(tvm_func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes PyTorch tensors, see convert_func(); memory is shared."""
    import torch
    import torch.utils.dlpack

    return convert_func(tvm_func, torch.Tensor, torch.utils.dlpack.to_dlpack)

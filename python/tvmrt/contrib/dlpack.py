"""Functions of tensors of other libraries, under the names of ``tvm.contrib.dlpack``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvmrt.runtime.ndarray import from_dlpack

__all__ = ["convert_func", "to_pytorch_func"]


def convert_func(
    tvm_func: Callable[..., Any], tensor_type: type, to_dlpack_func: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Return a function that gives a packed function its tensors as NDArrays.

    Parameters
    ----------
    tvm_func
        A PackedFunc, or a module that can be called.
    tensor_type
        The class of the other library's tensors; other arguments go as they are.
    to_dlpack_func
        Makes a DLPack capsule of one.
    """

    def call(*args: Any) -> Any:
        return tvm_func(
            *(from_dlpack(to_dlpack_func(a)) if isinstance(a, tensor_type) else a for a in args)
        )

    return call


def to_pytorch_func(tvm_func: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of torch's tensors: ``convert_func()`` for them. The memory is shared."""
    import torch
    import torch.utils.dlpack

    return convert_func(tvm_func, torch.Tensor, torch.utils.dlpack.to_dlpack)

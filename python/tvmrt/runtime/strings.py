"""Tensors of strings: each element, of type ``handle``, is the address of NUL-terminated UTF-8
bytes; address 0 is the empty string."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tvmrt.runtime.dense_array import dense_array
from tvmrt.runtime.ndarray import NDArray, empty

__all__ = ["StringTensor", "packed", "unpacked"]


def packed(value: Any, shape: tuple[int, ...] | None = None) -> tuple[NDArray, Any]:
    """Return a tensor with the strings of an array or sequence, and the owner of their bytes.

    Parameters
    ----------
    value
        Strings, or bytes in UTF-8: a NumPy array of objects or text, or anything that
        ``numpy.asarray`` takes.
    shape
        The required shape; any if absent.

    Returns
    -------
    The tensor, and an object that must stay alive as long as the tensor is read.

    Raises
    ------
    TypeError
        If an element is not a string.
    ValueError
        If the shape differs, or a string contains a NUL.
    """
    if isinstance(value, StringTensor):
        value = value.numpy()
    array = dense_array(value)
    if array.dtype.kind not in "OUST" and array.size:
        raise TypeError(f"the elements of a {type(value).__name__} are not strings")
    if shape is not None and array.shape != tuple(shape):
        raise ValueError(
            f"an array of shape {array.shape} does not match the tensor's shape {tuple(shape)}"
        )
    texts = [_bytes(element) for element in array.reshape(-1).tolist()]
    buffer = ctypes.create_string_buffer(b"\0".join(texts))
    lengths = np.array([0, *(len(text) + 1 for text in texts)], np.uint64)
    string_addresses = np.cumsum(lengths)[:-1] + np.uint64(ctypes.addressof(buffer))
    return empty(array.shape, "handle").copyfrom(string_addresses.reshape(array.shape)), buffer


def _bytes(element: Any) -> bytes:
    if isinstance(element, str):
        element = element.encode("utf-8", "surrogateescape")
    if not isinstance(element, bytes):
        raise TypeError(f"an element is a {type(element).__name__}, not a string")
    if b"\0" in element:
        raise ValueError("a string contains a NUL character, which is not supported")
    return element


def unpacked(tensor: NDArray) -> np.ndarray[Any, Any]:
    """Return the strings of a tensor as a NumPy array of objects.

    Its elements must be addresses of valid strings.
    """
    addresses = tensor.numpy()
    result = np.empty(addresses.shape, object)
    flat = result.reshape(-1)
    for i, address in enumerate(addresses.reshape(-1).tolist()):
        text = ctypes.string_at(address) if address else b""
        flat[i] = text.decode("utf-8", "surrogateescape")
    return result


class StringTensor:
    """An output of strings; ``numpy()`` returns them as an array of objects.

    The strings are valid until the executor's next run; the array is independent of it. ``tensor``
    contains their addresses.
    """

    __slots__ = ("tensor",)

    dtype = "string"

    def __init__(self, tensor: NDArray) -> None:
        self.tensor = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.tensor.shape

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the strings as an array of objects."""
        return unpacked(self.tensor)

    asnumpy = numpy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def __repr__(self) -> str:
        return f"<tvmrt strings shape={self.shape}>\n{self.numpy()!r}"

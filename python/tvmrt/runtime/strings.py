"""Strings in tensors: each element of type ``handle`` is the address of UTF-8 bytes that end with a
NUL; 0 is the empty string."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tvmrt.runtime.ndarray import NDArray, empty

__all__ = ["StringTensor", "packed", "unpacked"]


def packed(value: Any, shape: tuple[int, ...] | None = None) -> tuple[NDArray, Any]:
    """Return a tensor of the strings in an array or sequence, and what holds their bytes.

    Parameters
    ----------
    value
        Strings, or bytes in UTF-8: a numpy array of objects or of text, or what
        ``numpy.asarray`` takes.
    shape
        The shape that it must have; any if absent.

    Returns
    -------
    The tensor, and an object to keep for as long as anybody reads it.

    Raises
    ------
    TypeError
        If an element is no string.
    ValueError
        If the shape is another one, or a string has a NUL in it.
    """
    if isinstance(value, StringTensor):
        value = value.numpy()
    array = np.asarray(value)
    if array.dtype.kind not in "OUST" and array.size:
        raise TypeError(f"the elements of a {type(value).__name__} are not strings")
    if shape is not None and array.shape != tuple(shape):
        raise ValueError(f"an array of shape {array.shape} was given for one of {tuple(shape)}")
    texts = [_bytes(element) for element in array.reshape(-1).tolist()]
    buffer = ctypes.create_string_buffer(b"\0".join(texts))
    lengths = np.array([0, *(len(text) + 1 for text in texts)], np.uint64)
    places = np.cumsum(lengths)[:-1] + np.uint64(ctypes.addressof(buffer))
    return empty(array.shape, "handle").copyfrom(places.reshape(array.shape)), buffer


def _bytes(element: Any) -> bytes:
    if isinstance(element, str):
        element = element.encode("utf-8", "surrogateescape")
    if not isinstance(element, bytes):
        raise TypeError(f"an element is a {type(element).__name__}, not a string")
    if b"\0" in element:
        raise ValueError("a string contains a NUL character, which is not supported")
    return element


def unpacked(tensor: NDArray) -> np.ndarray[Any, Any]:
    """Return the strings of a tensor as a numpy array of objects.

    Its elements must be addresses of strings that are still there.
    """
    addresses = tensor.numpy()
    found = np.empty(addresses.shape, object)
    flat = found.reshape(-1)
    for i, address in enumerate(addresses.reshape(-1).tolist()):
        text = ctypes.string_at(address) if address else b""
        flat[i] = text.decode("utf-8", "surrogateescape")
    return found


class StringTensor:
    """An output of strings: ``numpy()`` gives them as an array of objects.

    They are there until the executor's next run; the array is one's own. ``tensor`` has their
    addresses.
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
        """Return the strings, an array of objects."""
        return unpacked(self.tensor)

    asnumpy = numpy

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def __repr__(self) -> str:
        return f"<tvmrt strings shape={self.shape}>\n{self.numpy()!r}"

"""Containers of the runtime: Array, Map, String, ShapeTuple and ADT.

A packed function takes Python's list, tuple and dict as Array and Map. It returns objects of these
classes, which behave as read-only Python sequences and mappings.
"""

from __future__ import annotations

import collections.abc
from collections.abc import Iterator
from typing import Any, cast

from tvmrt.runtime import _core
from tvmrt.runtime.object import Object, _enter, register_object
from tvmrt.runtime.packed_func import get_global_func

__all__ = ["ADT", "Array", "Map", "ShapeTuple", "String", "getitem_helper", "tuple_object"]

_functions: dict[str, Any] = {}


def _call(name: str, *args: Any) -> Any:
    function = _functions.get(name)
    if function is None:
        function = _functions[name] = get_global_func(f"runtime.{name}")
    return function(*args)


def getitem_helper(obj: Any, elem_getter: Any, length: int, idx: int | slice) -> Any:
    """Return ``obj[idx]`` with an element getter; slices and negative indices are supported."""
    if isinstance(idx, slice):
        return [elem_getter(obj, i) for i in range(*idx.indices(length))]
    if not -length <= idx < length:
        raise IndexError(f"index {idx} is out of range for {length} elements")
    return elem_getter(obj, idx % length)


class _Sequence(Object, collections.abc.Sequence[Any]):
    """Sequence methods based on two packed functions, for the size and for an element."""

    _size = ""
    _item = ""

    def __len__(self) -> int:
        return _call(self._size, self)

    def __getitem__(self, index: Any) -> Any:
        return getitem_helper(self, lambda obj, i: _call(self._item, obj, i), len(self), index)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (list, tuple, _Sequence)):
            return list(self) == list(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.handle)

    def __repr__(self) -> str:
        return repr(list(self))


@register_object("Array")
class Array(_Sequence):
    """A read-only list.

    Parameters
    ----------
    values
        Elements of any type that a packed function takes.
    """

    _size = "ArraySize"
    _item = "ArrayGetItem"

    def __init__(self, values: Any = ()) -> None:
        self._move_from(_call("Array", *[_element(value) for value in values]))

    def __reduce__(self) -> tuple[Any, ...]:
        return Array, (list(self),)


@register_object("Map")
class Map(Object, collections.abc.Mapping[Any, Any]):
    """A read-only dictionary with strings or objects as keys.

    Parameters
    ----------
    values
        Items, as a mapping.
    """

    def __init__(self, values: Any = ()) -> None:
        flat: list[Any] = []
        for key, value in dict(values).items():
            flat += (_element(key), _element(value))
        self._move_from(_call("Map", *flat))

    def __len__(self) -> int:
        return _call("MapSize", self)

    def __getitem__(self, key: Any) -> Any:
        if key not in self:
            raise KeyError(key)
        return _call("MapGetItem", self, _element(key))

    def __contains__(self, key: object) -> bool:
        return bool(_call("MapCount", self, _element(key)))

    def __iter__(self) -> Iterator[Any]:
        flat = _call("MapItems", self)
        return iter(flat[0::2])

    def items(self) -> Any:
        """Return the pairs of keys and values."""
        flat = list(_call("MapItems", self))
        return list(zip(flat[0::2], flat[1::2]))

    def __repr__(self) -> str:
        return repr(dict(self.items()))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (dict, Map)):
            return dict(self.items()) == dict(cast(Any, other).items())
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.handle)

    def __reduce__(self) -> tuple[Any, ...]:
        return Map, (dict(self.items()),)


@register_object("runtime.ShapeTuple")
class ShapeTuple(_Sequence):
    """The extents of a tensor as an object.

    Parameters
    ----------
    shape
        Extents; integers.
    """

    _size = "GetShapeTupleSize"
    _item = "GetShapeTupleElem"

    def __init__(self, shape: Any) -> None:
        self._move_from(_call("ShapeTuple", *[int(extent) for extent in shape]))

    def __repr__(self) -> str:
        return repr(tuple(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return ShapeTuple, (tuple(self),)


@register_object("runtime.ADT")
class ADT(_Sequence):
    """A tagged tuple of objects.

    Parameters
    ----------
    tag
        Number of the constructor that created it.
    fields
        Elements; objects.
    """

    _size = "GetADTSize"
    _item = "GetADTFields"

    def __init__(self, tag: int, fields: Any) -> None:
        self._move_from(_call("ADT", tag, *[_element(field) for field in fields]))

    @property
    def tag(self) -> int:
        """Number of the constructor that created it."""
        return _call("GetADTTag", self)


class String(str):
    """A string that is also a runtime object.

    It behaves as a Python string. A packed function receives the object.
    """

    __slots__ = ("__tvm_object__",)
    __tvm_object__: Any

    def __new__(cls, content: str = "") -> String:
        self = super().__new__(cls, content)
        self.__tvm_object__ = None
        return self

    @classmethod
    def _of_object(cls, obj: _core.Object) -> String:
        self = cls(_call("GetFFIString", obj))
        self.__tvm_object__ = obj
        return self

    def asobject(self) -> Any:
        """Return the C object, which is created at first use."""
        if self.__tvm_object__ is None:
            made = _call("String", str(self))
            self.__tvm_object__ = made.__tvm_object__ if isinstance(made, String) else made
        return self.__tvm_object__

    def __reduce__(self) -> tuple[Any, ...]:
        return String, (str(self),)


def _unbox(obj: _core.Object) -> Any:
    """Return the number that a container stores as an object."""
    return _call("Unbox", obj)


def _report(made: Object) -> Any:
    """Convert a profiling report from a C object."""
    from tvmrt.runtime.profiling import Report

    return Report(get_global_func("runtime.profiling.AsJSON")(made))


_enter("runtime.String", String._of_object)
_enter("runtime.profiling.Report", _report)
for _boxed in ("runtime.BoxInt", "runtime.BoxFloat", "runtime.BoxBool"):
    _enter(_boxed, _unbox)


def tuple_object(fields: Any = ()) -> ADT:
    """Return an ADT with the tag 0."""
    return ADT(0, fields)


def _element(value: Any) -> Any:
    """Convert a value to an element of a container: strings become objects."""
    if isinstance(value, str):
        return String(value).asobject()
    return value


def to_container(value: Any) -> Any:
    """Convert a list or tuple to an Array and a dict to a Map."""
    return Map(value) if isinstance(value, dict) else Array(value)

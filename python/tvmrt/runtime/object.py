"""Reference-counted objects of the runtime, created in C and held by Python."""

from __future__ import annotations

from typing import Any, Callable

from tvmrt.runtime import _core
from tvmrt.runtime._library import check, decode, encode, ffi, lib

__all__ = ["Object", "ObjectGeneric", "ObjectRValueRef", "register_object"]

_classes_by_key: dict[str, Any] = {}
_classes_by_index: dict[int, Any] = {}


class Object(_core.Object):
    """A runtime object other than a module, function or tensor.

    It owns one reference. register_object() registers a class for a C type.
    """

    @property
    def type_key(self) -> str:
        """The name of the C type."""
        index = ffi.new("unsigned*")
        check(lib.TVMObjectGetTypeIndex(ffi.cast("void*", self.handle), index))
        return _type_key(index[0])

    def _move(self) -> ObjectRValueRef:
        """Return this object as an argument whose reference the callee may take over."""
        return ObjectRValueRef(self)

    def __init_handle_by_constructor__(self, constructor: Callable[..., Any], *args: Any) -> None:
        """Take over the handle of the object that a packed function returns."""
        self._move_from(constructor(*args))

    def __eq__(self, other: object) -> bool:
        return self.same_as(other)

    def __hash__(self) -> int:
        return hash(self.handle)

    def __repr__(self) -> str:
        kind = self.type_key if self.handle else "null"
        return f"<{type(self).__module__}.{type(self).__name__} of type {kind}>"


class ObjectGeneric:
    """Base of Python classes that represent a runtime object; ``asobject()`` returns it."""

    def asobject(self) -> Any:
        """Return the object, or any value that a packed function takes."""
        raise NotImplementedError(f"{type(self).__name__}.asobject()")


class ObjectRValueRef:
    """An object whose reference a callee may take over; the object is null after that.

    Parameters
    ----------
    obj
        The object.
    """

    __slots__ = ("obj",)

    def __init__(self, obj: Object) -> None:
        self.obj = obj


def register_object(type_key: str | type | None = None) -> Callable[[type], type] | type:
    """Register the Python class for objects of a C type, as a decorator.

    Parameters
    ----------
    type_key
        Name of the C type; the class's name if absent. The class must derive from Object.
    """
    if isinstance(type_key, type):
        return register_object(type_key.__name__)(type_key)

    def register(cls: type) -> type:
        _enter(type_key or cls.__name__, cls)
        return cls

    return register


def _enter(type_key: str, maker: Any) -> None:
    _classes_by_key[type_key] = maker
    _classes_by_index.clear()


def _type_key(index: int) -> str:
    out = ffi.new("char**")
    check(lib.TVMObjectTypeIndex2Key(index, out))
    try:
        return decode(out[0])
    finally:
        lib.free(out[0])


def type_index(type_key: str) -> int:
    """Return the index of a C type."""
    out = ffi.new("unsigned*")
    check(lib.TVMObjectTypeKey2Index(encode(type_key), out))
    return out[0]


def _object_class(index: int) -> Any:
    """Return the factory of Python objects for a C type; called by the extension module."""
    maker = _classes_by_index.get(index)
    if maker is None:
        maker = _classes_by_key.get(_type_key(index), Object)
        _classes_by_index[index] = maker
    return maker

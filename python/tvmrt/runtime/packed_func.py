"""Packed functions and the global registry of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, TypeVar, overload

if TYPE_CHECKING:
    from typing import Literal

from tvmrt.runtime._core import PackedFunc, function_from_callable, function_from_handle
from tvmrt.runtime._library import address, check, decode, encode, ffi, lib, pointer

__all__ = [
    "PackedFunc",
    "convert_to_tvm_func",
    "get_global_func",
    "list_global_func_names",
    "register_func",
    "remove_global_func",
]


def convert_to_tvm_func(function: Callable[..., Any]) -> PackedFunc:
    """Return a packed function that calls a Python callable.

    The callable lives as long as the packed function does, in C too. C may call it from any thread.
    An exception that it raises goes through C to the caller, with its traceback if that is Python.
    """
    return function if isinstance(function, PackedFunc) else function_from_callable(function)


_Function = TypeVar("_Function", bound=Callable[..., Any])


@overload
def get_global_func(name: str, allow_missing: Literal[False] = False) -> PackedFunc: ...
@overload
def get_global_func(name: str, allow_missing: bool) -> PackedFunc | None: ...
def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """Return a function of the global registry.

    Parameters
    ----------
    name
        Its name.
    allow_missing
        Whether to return None if there is none.

    Raises
    ------
    ValueError
        If there is none and `allow_missing` is false.
    """
    out = ffi.new("TVMFunctionHandle*")
    check(lib.TVMFuncGetGlobal(encode(name), out))
    function = function_from_handle(address(out[0]))
    if function is None and not allow_missing:
        raise ValueError(f"there is no global function named '{name}'")
    return function


def register_func(
    func_name: str | Callable[..., Any],
    f: Callable[..., Any] | None = None,
    override: bool = False,
) -> Callable[..., Any]:
    """Enter a function in the global registry, where C finds it by its name.

    Usable as ``@register_func``, ``@register_func("name")`` or ``register_func("name", f)``.

    Parameters
    ----------
    func_name
        The name; a callable in its place is registered by its own name.
    f
        The function; if absent, a decorator is returned.
    override
        Whether an older entry of the name is replaced.

    Raises
    ------
    ValueError
        If the name is taken and `override` is false.
    """
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    name = func_name

    def register(function: _Function) -> _Function:
        if not override and get_global_func(name, allow_missing=True) is not None:
            raise ValueError(f"a global function '{name}' exists; pass override=True")
        packed = convert_to_tvm_func(function)
        check(lib.TVMFuncRegisterGlobal(encode(name), pointer(packed.handle), int(override)))
        return function

    return register(f) if f is not None else register


def list_global_func_names() -> list[str]:
    """Return the names of all global functions."""
    count, names = ffi.new("int*"), ffi.new("const char***")
    check(lib.TVMFuncListGlobalNames(count, names))
    return [decode(names[0][i]) for i in range(count[0])]


def remove_global_func(name: str) -> None:
    """Remove a function from the global registry; nothing happens if there is none."""
    check(lib.TVMFuncRemoveGlobal(encode(name)))


def init_api(namespace: str, target_module_name: str | None = None) -> None:
    """Give a Python module the global functions whose names start with ``namespace.``."""
    module = sys.modules[target_module_name or f"tvmrt.{namespace}"]
    prefix = f"{namespace}."
    for name in list_global_func_names():
        short = name[len(prefix) :]
        if name.startswith(prefix) and "." not in short:
            setattr(module, short, get_global_func(name))

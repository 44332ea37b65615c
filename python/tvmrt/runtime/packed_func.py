"""Packed functions and their global registry."""

from __future__ import annotations

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

    The packed function keeps the callable alive, in C too. C may call it from any thread. An
    exception passes through C to the caller; a Python caller sees its traceback.
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
        Whether to return None instead of raising if there is none.

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
    """Register a function globally, so that C finds it by its name.

    Usable as ``@register_func``, ``@register_func("name")`` or ``register_func("name", f)``.

    Parameters
    ----------
    func_name
        The name; a callable is registered under its own name.
    f
        The function; if absent, a decorator is returned.
    override
        Whether to replace an existing function of this name.

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
    """Remove a function from the global registry, if it exists."""
    check(lib.TVMFuncRemoveGlobal(encode(name)))

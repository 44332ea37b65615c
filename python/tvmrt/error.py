"""Exceptions of tvmrt. Importable without the runtime library.

An error text from C that starts with the name of a registered exception and a colon is raised as
that exception; any other text becomes a TVMError. An exception raised by a Python function that C
called propagates unchanged.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Collection
from typing import Callable


class TVMError(RuntimeError):
    """Base of tvmrt's own errors; errors from C carry the C error text."""


class InternalError(TVMError):
    """An internal invariant is violated: a defect of tvmrt, not a mistake of the caller."""


class OpError(TVMError):
    """Base of errors about an operator of a network."""


class OpNotImplemented(OpError, NotImplementedError):
    """The operator is not supported."""


class OpAttributeRequired(OpError, AttributeError):
    """A required attribute of an operator is missing."""


class OpAttributeInvalid(OpError, AttributeError):
    """An attribute of an operator has a value that is not allowed."""


class OpAttributeUnImplemented(OpError, NotImplementedError):
    """An attribute of an operator has a value that is not supported."""


class DiagnosticError(TVMError):
    """A diagnostic of the compiler."""


class UnsupportedError(TVMError, NotImplementedError):
    """The network needs features that the compiler lacks; the text lists all of them."""


class UnsupportedSizes(UnsupportedError):
    """The network cannot be compiled for these sizes: closer bounds of its dynamic dimensions, or
    one size, may avoid the error."""


class UnboundedDimensionsError(TVMError, ValueError):
    """A network has dynamic dimensions without bounds.

    ``names`` are the dimensions that need bounds; it is empty if the number of an input's axes is
    unknown as well.
    """

    def __init__(self, text: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.names = names


class SizeConditionError(ValueError):
    """The sizes of a run do not satisfy a condition of the compiled network, such as that the
    height is a multiple of 16. Nothing was computed."""


class UnexpectedImportError(TVMError, ValueError):
    """A network is refused because importing one of its nodes raised an unexpected exception.

    ``__cause__`` is that exception. The network may be invalid, but tvmrt should report it better.
    """


class TvmrtWarning(UserWarning):
    """A warning with information about a compilation, besides its result; the command line prints
    it."""


def warn(text: str) -> None:
    """Warn about the call of the function that calls this one."""
    warnings.warn(text, TvmrtWarning, stacklevel=3)


class SizesWarning(TvmrtWarning):
    """A remark on a condition that several dynamic dimensions must satisfy together."""


class CompileError(TVMError):
    """The C compiler is missing or rejected the generated code; the text has its output."""


class NameNotFoundError(TVMError, KeyError):
    """There is no input, output, function or node of this name."""

    def __str__(self) -> str:
        return RuntimeError.__str__(self) if not self.args else str(self.args[0])


_registered: dict[str, type[BaseException]] = {
    kind.__name__: kind
    for kind in (
        TVMError,
        InternalError,
        OpError,
        OpNotImplemented,
        OpAttributeRequired,
        OpAttributeInvalid,
        OpAttributeUnImplemented,
        DiagnosticError,
        UnsupportedError,
        SizeConditionError,
        CompileError,
        NameNotFoundError,
    )
}


def register_error(
    name: str | type[BaseException] | None = None, cls: type[BaseException] | None = None
) -> Callable[[type[BaseException]], type[BaseException]] | type[BaseException]:
    """Map error texts from C that start with ``<name>:`` to an exception class.

    Usable as ``@register_error``, ``@register_error("mylib.MyError")`` or as a function.

    Parameters
    ----------
    name
        Prefix of the text; the class name if a class is passed instead.
    cls
        The class; if absent, a decorator is returned.
    """
    if isinstance(name, type):
        return register_error(name.__name__, name)

    def register(kind: type[BaseException]) -> type[BaseException]:
        _registered[name or kind.__name__] = kind
        return kind

    return register(cls) if cls is not None else register


def _key(message: str) -> str:
    """Return the key of a KeyError, which other frontends send in quotes, as Python prints it."""
    if message[:1] in ("'", '"'):
        try:
            key = ast.literal_eval(message)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return message
        return key if isinstance(key, str) else message
    return message


def from_text(text: str) -> BaseException:
    """Return the exception for an error text from C."""
    match = re.match(r"([A-Za-z_][\w.]*): (.*)", text, re.DOTALL)
    if match is None:
        return TVMError(text or "a function failed without an error text")
    kind = _registered.get(match[1]) or getattr(builtins, match[1], None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(_key(match[2]) if issubclass(kind, KeyError) else match[2])
        except TypeError:  # its constructor needs more arguments
            return TVMError(text)
    return TVMError(text)


MIN_SIMILARITY = 0.7  # of a suggestion; words with two swapped letters have 0.75 or more


def similar_names(name: str, names: Collection[str]) -> list[str]:
    """Return the known names that an unknown one may be a misspelling of, the likeliest first."""
    from difflib import get_close_matches  # only needed for errors

    return get_close_matches(name, names, 3, MIN_SIMILARITY)


_NAMES = "cuda|directml|dml|gpu|hip|metal|mps|nvidia|rocm|tensorrt|vulkan|webgpu"
_GPU = re.compile(rf"(?i)({_NAMES})(executionprovider)?(:\d+)?")


def gpu_advice(name: str) -> str | None:
    """Return what to do if the name is one of a GPU; None for other names."""
    return "tvmrt computes on GPUs by the device opencl alone" if _GPU.fullmatch(name) else None


def suggestion(name: str, names: Collection[str]) -> str:
    """Return the known names that an unknown one begins, or the one that is similar, or all names,
    for an error text."""
    longer = [known for known in names if known.startswith((f"{name}-", f"{name}_"))]
    similar = [name] if name in names else longer or similar_names(name, names)[:1]
    return f"did you mean {' or '.join(similar)}?" if similar else f"choose from {', '.join(names)}"

"""Exceptions of tvmrt. Importable without the runtime library.

An error text from C that starts with the name of a registered exception and a colon is raised as
that exception; any other is a TVMError. Exceptions of Python functions that C has called come back
as they were raised.
"""

from __future__ import annotations

import ast
import builtins
import re
from typing import Callable


class TVMError(RuntimeError):
    """Base of all errors that are tvmrt's own; those from C carry the C side's text."""


class InternalError(TVMError):
    """A promise inside the library is broken: a defect to report, not a mistake of the caller."""


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
    """The network asks for something that the compiler does not do; the text lists it all."""


class OpenDimensionsError(TVMError, ValueError):
    """Dimensions of a network's inputs are open, and nobody has declared their bounds.

    ``names`` has the dimensions that are to be declared; it is empty where the number of an input's
    axes is open as well.
    """

    def __init__(self, text: str, names: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.names = names


class UnforeseenError(TVMError, ValueError):
    """A network is refused because reading a node of it failed in a way that nobody has foreseen.

    ``__cause__`` is what was raised. The network may be at fault, the message is ours to mend.
    """


class Remark(UserWarning):
    """What was done with a network beside compiling it, for whoever compiles; the command prints
    it."""


class SizesRemark(Remark):
    """A remark on a condition that several open dimensions of a network must satisfy together."""


class CompileError(TVMError):
    """The C compiler is missing or refused the generated code; the text says what it said."""


class NameNotFoundError(TVMError, KeyError):
    """There is no input, output, function or node of a name."""

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
        CompileError,
        NameNotFoundError,
    )
}


def register_error(
    name: str | type[BaseException] | None = None, cls: type[BaseException] | None = None
) -> Callable[[type[BaseException]], type[BaseException]] | type[BaseException]:
    """Let texts from C that start with ``<name>:`` raise an exception class.

    Usable as ``@register_error``, ``@register_error("mylib.MyError")`` or as a function.

    Parameters
    ----------
    name
        What the text starts with; the class's own name if a class is given in its place.
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
    """The key of a KeyError, which other front ends send as Python shows it: in quotes."""
    if message[:1] in ("'", '"'):
        try:
            key = ast.literal_eval(message)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return message
        return key if isinstance(key, str) else message
    return message


def from_text(text: str) -> BaseException:
    """Return the exception that an error text from C stands for."""
    match = re.match(r"([A-Za-z_][\w.]*): (.*)", text, re.DOTALL)
    if match is None:
        return TVMError(text or "a function failed and gave no reason")
    kind = _registered.get(match[1]) or getattr(builtins, match[1], None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(_key(match[2]) if issubclass(kind, KeyError) else match[2])
        except TypeError:  # its constructor wants more than a text
            return TVMError(text)
    return TVMError(text)

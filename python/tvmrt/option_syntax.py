"""Spelling of options in messages, for the interface in use: Python or the command line.

A message never spells an option itself. It calls ``option`` with the keyword argument of
``tvmrt.compile``, or has it in braces and passes through ``options``. Python users then read
``dims={"batch": (1, 8)}``, and users of the command ``--dim batch=1..8``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tvmrt.option import Option

_NO_VALUE = object()
_MARK = re.compile(r"\{(\w+)(?:=([^}]*))?\}")

_rows: dict[str, Option] = {}  # options of the compiler; those of plug-ins have regular flags
# A stack, not a ContextVar: the worker threads of a command report errors as well.
_interfaces = ["python"]


class Unquoted(str):
    """A placeholder in a value, such as the name of a number to choose."""


def register(rows: Mapping[str, Option]) -> None:
    """Make the flags of options known; called by the module that defines the options."""
    _rows.update(rows)


@contextmanager
def command_line() -> Iterator[None]:
    """Use the spelling of the command line within this context."""
    _interfaces.append("command line")
    try:
        yield
    finally:
        _interfaces.pop()


def _on_command_line() -> bool:
    return _interfaces[-1] == "command line"


def choose(python: str, command: str) -> str:
    """Return the text for the interface in use."""
    return command if _on_command_line() else python


def option(name: str, value: Any = _NO_VALUE) -> str:
    """Return an option, with a value if one is given, as the user of this interface writes it.

    ``option("dims", {"batch": (1, 8)})`` returns ``dims={"batch": (1, 8)}`` or ``--dim
    batch=1..8``, and ``option("dims")`` returns ``dims`` or ``--dim``.
    """
    if not _on_command_line():
        return name if value is _NO_VALUE else f"{name}={_in_python(value)}"
    flag, _, negative = _flags(name).partition("/")
    if value is _NO_VALUE or value is True:
        return flag
    if value is False:
        return negative or f"no {flag}"
    if isinstance(value, Mapping):
        return " ".join(f"{flag} {_quote(each)}" for each in _pairs(name, value))
    return f"{flag} {_quote(_in_shell(value))}"


def options(text: str, values: Any = None) -> str:
    """Replace options in braces: ``{params}``, ``{params=flash}``, or ``{params=*}`` for the value
    that the request ``values`` has."""

    def spell(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        if value is None:
            return option(name)
        return option(name, getattr(values, name) if value == "*" else _plain(value))

    return _MARK.sub(spell, text)


def compile_call(output: str, model: str = "net.onnx", **given: Any) -> str:
    """Return the call, or the command, that compiles a network to a file with these options."""
    texts = [option(name, value) for name, value in given.items()]
    if _on_command_line():
        return f"'{' '.join(['tvmrt compile', model, '-o', output, *texts])}'"
    return f'tvmrt.compile({", ".join([_in_python(model), *texts])}).export("{output}")'


def value_text(value: Any) -> str:
    """Return a value as it is given to an option, for a sentence on the value itself."""
    return _in_shell(value) if _on_command_line() else _in_python(value)


def _flags(name: str) -> str:
    row = _rows.get(name)
    return (row.flag if row is not None else None) or f"--{name.replace('_', '-')}"


def _plain(text: str) -> Any:
    return {"True": True, "False": False, "None": None}.get(text, text)


def _in_python(value: Any) -> str:
    if isinstance(value, Unquoted):
        return value
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_in_python(k)}: {_in_python(v)}' for k, v in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_in_python, value))}]"
    if isinstance(value, tuple):
        items = ", ".join(map(_in_python, value))
        return f"({items},)" if len(value) == 1 else f"({items})"
    return repr(value)


def _in_shell(value: Any) -> str:
    if value is None:
        return "none"
    return ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def _pairs(name: str, value: Mapping[str, Any]) -> Iterator[str]:
    """Yield the items of a mapping in the form of the command line."""
    for key, item in value.items():
        if isinstance(item, Mapping):
            yield from (f"{key}:{k}={_in_shell(v)}" for k, v in item.items())
        elif name == "dims" and isinstance(item, (list, tuple)):
            yield f"{key}={item[0]}..{item[-1]}"
        elif name == "pools" and isinstance(item, (list, tuple)):
            yield f"{key}={item[0]}@{item[1]}"
        else:
            yield f"{key}={_in_shell(item)}"


def _quote(text: str) -> str:
    """Quote a text for the shell if necessary."""
    return text if re.fullmatch(r"[\w=.,:/@-]+", text) else f"'{text}'"

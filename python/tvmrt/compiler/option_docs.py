"""Signature and docstring of functions that take the options of the compiler."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from tvmrt.compiler.request import rows
from tvmrt.option import Option

INDENT = "    "
OPTIONS = "{options}"  # placeholder in a docstring of ``documented``
_Function = TypeVar("_Function", bound=Callable[..., Any])


def documented(function: _Function) -> _Function:
    """Decorate a function: fill ``OPTIONS`` in its docstring, and add options to its signature."""
    own = inspect.signature(function)
    parameters = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=row.default, annotation=row.type
        )
        for name, row in rows().items()
    ]
    shown: Any = function
    shown.__signature__ = own.replace(parameters=[*parameters, *options])
    function.__doc__ = inspect.cleandoc(function.__doc__ or "").replace(OPTIONS, entries())
    return function


def entries(table: Mapping[str, Option] | None = None) -> str:
    """Return options as entries of a docstring's parameters: ``table``, such as ``all_options()``,
    or the compiler's own options and a reference to those of plug-ins, which are not read here."""
    lines = []
    for name, row in (table or rows()).items():
        meanings = [f"``{key}``: {text}." for key, text in (row.table or {}).items()]
        text = " ".join(filter(None, (row.text, *meanings, row.python)))
        lines += [name, textwrap.fill(text, 96, initial_indent=INDENT, subsequent_indent=INDENT)]
    if table is None:
        lines += ["options", f"{INDENT}Those of plug-ins; ``tvmrt compile --help`` has them, too."]
    return "\n".join(lines)

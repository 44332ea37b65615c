"""The page of what plug-ins may import of the compiler, made of ``tvmrt.compiler.sdk``."""

from __future__ import annotations

import inspect
import pkgutil
import re
from importlib import import_module
from types import ModuleType
from typing import Any, get_origin

from tvmrt.compiler import sdk

HEAD = """# What plug-ins import of the compiler

This page is made from `tvmrt.compiler.sdk`.
[Plug-ins](../how-to/write-a-plugin.md) import these names from its modules, such as
`from tvmrt.compiler.sdk.graph import Node`. `help(Node)` shows the whole text.
"""


def _sentence(found: Any) -> str:
    """Return the first sentence of a docstring; for other objects what they are."""
    if get_origin(found) is not None:
        return "type"
    if not (inspect.isclass(found) or inspect.isroutine(found)):
        return f"constant of type {type(found).__name__}"
    text = " ".join(
        (inspect.getdoc(found) or "Importer of the ONNX operator of this name.").split()
    )
    match = re.match(r"(.*?)(?<!e\.g)\.( |$)", text)
    text = (match[1] if match else text).replace("``", "`").replace("|", "\\|")
    return text.replace("][", "]\\[")  # layouts of weights are no links


def _section(module: ModuleType) -> str:
    rows = [f"| `{name}` | {_sentence(getattr(module, name))} |" for name in module.__all__]
    head = f"## tvmrt.compiler.sdk.{module.__name__.rpartition('.')[2]}"
    return "\n\n".join([head, str(module.__doc__), "\n".join(["| name | |", "|---|---|", *rows])])


def page() -> str:
    """Return the page."""
    names = [each.name for each in pkgutil.iter_modules(sdk.__path__)]
    return (
        "\n\n".join(
            [
                HEAD.strip(),
                *(_section(import_module(f"tvmrt.compiler.sdk.{name}")) for name in names),
            ]
        )
        + "\n"
    )

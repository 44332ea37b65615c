"""The table of operators: a name to the function that imports it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING, NamedTuple, Union

if TYPE_CHECKING:
    from tvmrt.compiler.ir import Value
    from tvmrt.plugins.tflite.frontend.context import OpContext

Importer = Callable[["OpContext"], Union["Value", "list[Value]"]]


class Row(NamedTuple):
    """Who imports an operator, and its newest version that means what is known here."""

    importer: Importer
    newest: int


_TABLE: dict[str, Row] = {}


def tflite_op(**newest: int) -> Callable[[Importer], Importer]:
    """Decorator: the function imports these operators, up to these versions."""

    def add(function: Importer) -> Importer:
        for name, version in newest.items():
            _TABLE[name] = Row(function, version)
        return function

    return add


@cache
def _load_families() -> None:
    for module in walk_packages([str(Path(__file__).parent)], f"{__package__}."):
        import_module(module.name)


def find(name: str) -> Row | None:
    """The row of an operator, or None when it is not known."""
    _load_families()
    return _TABLE.get(name)

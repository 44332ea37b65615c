"""Table of operators: maps each name to the function that imports it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import TYPE_CHECKING, NamedTuple, Union

if TYPE_CHECKING:
    from tvmrt.compiler.sdk.graph import Value
    from tvmrt.plugins.tflite.frontend.context import OpContext

Importer = Callable[["OpContext"], Union["Value", "list[Value]"]]


class ImporterEntry(NamedTuple):
    """Importer function of an operator, and the newest operator version that it supports."""

    importer: Importer
    newest: int


_TABLE: dict[str, ImporterEntry] = {}


def tflite_op(**newest: int) -> Callable[[Importer], Importer]:
    """Register the decorated function as importer of operators, up to the given versions."""

    def add(function: Importer) -> Importer:
        for name, version in newest.items():
            _TABLE[name] = ImporterEntry(function, version)
        return function

    return add


@cache
def _load_families() -> None:
    for module in walk_packages([str(Path(__file__).parent)], f"{__package__}."):
        import_module(module.name)


def find(name: str) -> ImporterEntry | None:
    """Return the table row of an operator, or None if it is unknown."""
    _load_families()
    return _TABLE.get(name)

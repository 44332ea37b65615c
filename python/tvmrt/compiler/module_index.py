"""Index of modules by the names that they register with a decorator.

A module is imported when one of its names is first looked up. Reading the names from the sources
takes a twentieth of the time of importing all modules.
"""

from __future__ import annotations

import re
from functools import cached_property
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

_TEXT = re.compile(r"""["']([^"']+)["']""")
_ANY = ""  # key of the modules whose names are no literals, or whose source is not installed


class ModuleIndex:
    """The modules of some packages by the texts in calls of a decorator."""

    def __init__(self, decorator: str, *packages: str) -> None:
        self._packages = packages
        self._call = re.compile(rf"^@?{decorator}\(([^)]*)\)", re.MULTILINE)

    @cached_property
    def _modules(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for package in self._packages:
            folder = Path(import_module(package).__file__ or "").parent
            for module in iter_modules([str(folder)]):
                if not module.ispkg:
                    for name in self._names(folder / f"{module.name}.py"):
                        found.setdefault(name, set()).add(f"{package}.{module.name}")
        return found

    def _names(self, source: Path) -> list[str]:
        try:
            calls = self._call.findall(source.read_text("utf-8"))
        except OSError:
            return [_ANY]
        return [name for call in calls for name in _TEXT.findall(call) or [_ANY]]

    def load(self, name: str) -> None:
        """Import the modules that register a name."""
        for module in sorted(self._modules.get(name, set()) | self._modules.get(_ANY, set())):
            import_module(module)

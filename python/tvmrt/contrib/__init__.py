"""Names of ``tvm.contrib`` that deployment code uses; each is imported at first use."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tvmrt.contrib import graph_executor

    __all__ = ["graph_executor"]


def _modules() -> list[str]:
    """Return the names of the installed modules, including those of plug-ins."""
    return [module.name for module in pkgutil.iter_modules(__path__)]


def __getattr__(name: str) -> ModuleType:
    if not name.startswith("_") and name in _modules():
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_modules()])

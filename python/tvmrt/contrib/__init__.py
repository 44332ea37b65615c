"""Names of ``tvm.contrib`` that deployment code uses; each is imported when first asked for."""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = ("debugger", "graph_executor", "tvm_ffi")


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])

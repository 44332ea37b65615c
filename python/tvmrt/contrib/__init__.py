"""Names of ``tvm.contrib`` that deployment code uses; each is imported when first asked for."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from tvmrt import absent

if TYPE_CHECKING:
    from tvmrt.contrib import (
        cc,
        debugger,
        dlpack,
        graph_executor,
        graph_runtime,
        ndk,
        tar,
        tvm_ffi,
        utils,
    )

    __all__ = [
        "cc",
        "debugger",
        "dlpack",
        "graph_executor",
        "graph_runtime",
        "ndk",
        "tar",
        "tvm_ffi",
        "utils",
    ]

_MODULES = (
    "cc", "debugger", "dlpack", "graph_executor", "graph_runtime", "ndk", "tar", "tvm_ffi", "utils",
)  # fmt: skip


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    text = absent.answer(f"contrib.{name}")
    raise AttributeError(text or f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])

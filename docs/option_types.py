"""The types of the options of ``tvmrt.compile`` and ``tvmrt.load``, for mypy, pyright and editors:
``python docs/option_types.py`` writes ``python/tvmrt/compiler/option_types.pyi`` from
``tvmrt.Request``.
"""

from __future__ import annotations

from pathlib import Path

from tvmrt.compiler import request

STUB = Path(__file__).parent.parent / "python" / "tvmrt" / "compiler" / "option_types.pyi"

HEAD = '''"""Made by docs/option_types.py from tvmrt.Request: its options by their names."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from tvmrt.compiler.custom import OperatorSource
from tvmrt.devices import Device

class CompileOptions(TypedDict, total=False):
'''


def text() -> str:
    """Return the stub."""
    table = request.all_options()
    return HEAD + "".join(f"    {name}: {row.type}\n" for name, row in table.items())


if __name__ == "__main__":
    STUB.write_text(text(), encoding="utf-8")

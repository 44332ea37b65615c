"""Pytest plugin that saves every ``.tflite`` network that LiteRT runs in a test.

    RECORD_TFLITE=FOLDER python -m pytest -q -n0 -p record_networks plugins/tflite/tests

The files are called by a digest of their bytes. No C compiler runs: where a test would compile it
ends as skipped.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest


def _recording(interpreter: type) -> type:
    class Interpreter(interpreter):  # type: ignore[misc,valid-type]
        """LiteRT's interpreter, which also writes its file."""

        def __init__(self, model_path: str | None = None, *args: Any, **options: Any) -> None:
            data = options.get("model_content") or Path(model_path or "").read_bytes()
            name = f"{hashlib.sha256(data).hexdigest()[:16]}.tflite"
            (Path(os.environ["RECORD_TFLITE"]) / name).write_bytes(data)
            super().__init__(model_path, *args, **options)

    return Interpreter


def _compiled_elsewhere(*_: Any, **__: Any) -> Any:
    pytest.skip("its network was recorded")


def pytest_configure(config: pytest.Config) -> None:
    """Replace LiteRT's interpreter and the C compiler before tests are imported."""
    from ai_edge_litert import interpreter

    from tvmrt.compiler.export import library

    interpreter.Interpreter = _recording(interpreter.Interpreter)
    library.build_library = _compiled_elsewhere

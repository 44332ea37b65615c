"""One result of a conformance test."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Finding:
    """``check`` and ``subject`` say what was tested; ``detail`` says how it went, in one line."""

    check: str
    subject: str
    passed: bool
    detail: str = ""

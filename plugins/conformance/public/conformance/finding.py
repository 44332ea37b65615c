"""One result of a conformance test."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Finding:
    """``check`` and ``subject`` name the test; ``detail`` describes the result in one line."""

    check: str
    subject: str
    passed: bool
    detail: str = ""

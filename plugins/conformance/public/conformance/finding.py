"""One result of a conformance test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class Finding:
    """``check`` and ``subject`` name the test; ``detail`` describes the result in one line."""

    check: str
    subject: str
    passed: bool
    detail: str = ""


def find(check: str, subject: str, action: Callable[[], str], good: str = "") -> Finding:
    """Return a failed finding with the text of the action or of its error; if there is none, a
    passed one with the text ``good``."""
    try:
        wrong = action()
    except Exception as problem:  # a finding, not an end of the test
        wrong = str(problem) or type(problem).__name__
    return Finding(check, subject, not wrong, wrong or good)

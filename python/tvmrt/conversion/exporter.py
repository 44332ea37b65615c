"""Calls of the exporters of other frameworks."""

from __future__ import annotations

import importlib
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_KERAS_TITLE = "Exception encountered when calling"  # the reason is in the next paragraph
_MAX_LENGTH = 240  # characters of another library's error


def import_exporter(module: str, what: str, packages: str, instead: str) -> Any:
    """Import a library that converts models.

    Parameters
    ----------
    what
        The model, for the error text: ``m.pt is a PyTorch file``.
    packages
        Packages to install.
    instead
        What to do without the library.

    Raises
    ------
    ImportError
        If it is missing or does not load; the text names the packages.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        text = f"{what}, which needs {module}: pip install {packages}; or {instead}"
        raise ImportError(text, name=module) from None


@contextmanager
def report_failure(library: str, what: str, instead: str) -> Iterator[None]:
    """Raise any failure of a library as a ValueError with the first sentence of its text.

    The original exception is not chained: its text may be as large as the model.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # for developers of the exporter
            yield
    except ImportError as error:
        text = (
            f"{library} needs the package {error.name} to export {what}: pip install {error.name}"
        )
        raise ImportError(f"{text}; or {instead}", name=error.name) from None
    except Exception as error:  # exporters raise anything
        reason = first_sentence(error)
        raise ValueError(f"{library} cannot export {what}: {reason}; {instead}") from None


def first_sentence(error: BaseException) -> str:
    """Return the first sentence of an error text, without its full stop."""
    lines = [line.strip() for line in re.sub(r"\x1b\[\d+m", "", str(error)).splitlines()]
    text = next((each for each in lines if each and not each.startswith(_KERAS_TITLE)), "")
    text = re.split(r"(?<=[^.\s]{2}[.!?])\s+(?=[A-Z])", text[: 4 * _MAX_LENGTH], maxsplit=1)[0]
    text = text.rstrip(".:; ")
    if len(text) > _MAX_LENGTH:
        text = f"{text[:_MAX_LENGTH].rsplit(' ', 1)[0]}..."
    return text or type(error).__name__

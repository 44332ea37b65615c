"""The interface of network reports, which a plug-in implements."""

from __future__ import annotations

import os
from typing import Any, Protocol


class Report(Protocol):
    """A report of a network; ``data`` contains it as plain dictionaries and lists.

    Notebooks show it as a page.
    """

    data: dict[str, Any]

    def html(self) -> str:
        """Return the page as HTML text."""
        ...

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page (``.html``) or the data (``.json``)."""
        ...

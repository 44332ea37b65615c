"""What a report of a network is to programs; a plug-in makes it."""

from __future__ import annotations

import os
from typing import Any, Protocol


class Report(Protocol):
    """All that is known of a network: ``data``, plain dictionaries and lists.

    Notebooks show it as the page.
    """

    data: dict[str, Any]

    def html(self) -> str:
        """The page as text."""
        ...

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page, ``.html``, or the data, ``.json``."""
        ...

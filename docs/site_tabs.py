"""Sections of a page as tabs: between two comments, each section becomes a tab on the site.

In the repository the page has ordinary sections::

    <!-- tabs -->

    ## Python
    ...
    ## C
    ...
    <!-- end of tabs -->
"""

from __future__ import annotations

import re
import textwrap

_TABS = re.compile(r"^<!-- tabs -->\n(.*?)^<!-- end of tabs -->$", re.DOTALL | re.MULTILINE)


def as_tabs(text: str) -> str:
    """Return a page with its marked sections as tabs of pymdownx.tabbed."""

    def tabs(found: re.Match[str]) -> str:
        _, *sections = re.split(r"(?m)^## (.+)\n", found[1])
        return "".join(
            f'=== "{title}"\n\n{textwrap.indent(body.strip(), "    ")}\n\n'
            for title, body in zip(sections[::2], sections[1::2])
        )

    return _TABS.sub(tabs, text)

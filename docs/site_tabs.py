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
_CODE_OR_TITLE = re.compile(r"^```.*?^```$|^## (?P<title>[^\n]+)\n", re.DOTALL | re.MULTILINE)


def as_tabs(text: str) -> str:
    """Return a page with its marked sections as tabs of pymdownx.tabbed."""

    def tabs(found: re.Match[str]) -> str:
        titles = [each for each in _CODE_OR_TITLE.finditer(found[1]) if each["title"]]
        ends = [*(each.start() for each in titles[1:]), len(found[1])]
        bodies = [found[1][title.end() : end].strip() for title, end in zip(titles, ends)]
        return "".join(
            f'=== "{title["title"]}"\n\n{textwrap.indent(body, "    ")}\n\n'
            for title, body in zip(titles, bodies)
        )

    return _TABS.sub(tabs, text)

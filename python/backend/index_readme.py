"""Adapt README.md to package indexes, which show it without the files around it."""

from __future__ import annotations

import re

_CODE = re.compile(r"^```.*?^```$\n?", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"^<!--.*?-->\n", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]`]|`[^`]*`)*)\]\((?!\w+:|#)([^)\s]+)\)")


def described(text: str, address: str | None) -> str:
    """Return the text with links that work outside of the repository.

    Relative links get a base address such as ``https://HOST/OWNER/tvmrt/blob/v0.2.0``; pictures
    get ``raw`` instead of ``blob``. Without an address, links become plain text. Comments are
    removed.
    """
    parts, end = [], 0
    for code in _CODE.finditer(text):
        parts += [_prose(text[end : code.start()], address), code[0]]
        end = code.end()
    parts.append(_prose(text[end:], address))
    return re.sub(r"\n{3,}", "\n\n", "".join(parts))


def project_urls(address: str) -> dict[str, str]:
    """Return the package's links, by label, for the address of the files of its version."""
    base = address.rstrip("/")
    repository, _, version = base.partition("/blob/")
    urls = {"Documentation": f"{base}/docs/README.md", "Changelog": f"{base}/CHANGELOG.md"}
    return {"Source": repository, "Issues": f"{repository}/issues", **urls} if version else urls


def _prose(text: str, address: str | None) -> str:
    def link(found: re.Match[str]) -> str:
        mark, label, target = found.groups()
        if not address:
            return f"*{label}*" if mark else label
        base = address.rstrip("/")
        if mark:
            base = base.replace("/blob/", "/raw/")
        return f"{mark}[{label}]({base}/{target})"

    return _LINK.sub(link, _COMMENT.sub("", text))

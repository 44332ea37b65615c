"""Suffixes of file names, which select the format."""

from __future__ import annotations

import os


def suffix_of(path: str | os.PathLike[str]) -> str:
    """Return the suffix of a file's name in lower case, with its dot; "" if it has none.

    Names on Windows and from cameras and old file systems are often in capitals.
    """
    return os.path.splitext(os.fspath(path))[1].lower()

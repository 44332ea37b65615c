"""Files that git LFS has not fetched: in their place stands a text of some lines, a pointer."""

from __future__ import annotations

import os

POINTER = b"version https://git-lfs.github.com/spec/"


def check_is_no_pointer(path: str | os.PathLike[str]) -> None:
    """Raise ValueError if the file is a pointer; missing files are for the caller to report."""
    if not os.path.isfile(path):
        return
    with open(path, "rb") as file:
        if file.read(len(POINTER)) == POINTER:
            raise ValueError(
                f"{os.fspath(path)} is a pointer of git LFS, which stands for the file; run "
                "'git lfs pull' in its repository, or download the file itself"
            )

"""Unpack archives of networks."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a folder and return the folder.

    Pythons older than 3.9.17, 3.10.12 and 3.11.4 do not support filters.
    """
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        tar.extractall(folder)
    return folder


def deep_archive() -> bytes:
    """Return a chain of extended headers; tarfile recurses once for each."""
    header = tarfile.TarInfo("x")
    header.type = tarfile.XHDTYPE
    return header.tobuf() * 2000

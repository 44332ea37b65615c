"""Archives of networks, unpacked."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack(archive: Path, folder: Path) -> Path:
    """Unpack an archive into a folder, which is given back.

    Pythons older than 3.9.17, 3.10.12 and 3.11.4 do not know filters.
    """
    with tarfile.open(archive) as tar:
        tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, path: member)
        tar.extractall(folder)
    return folder


def deep_archive() -> bytes:
    """A chain of extended headers, for each of which the tarfile module goes a call deeper."""
    header = tarfile.TarInfo("x")
    header.type = tarfile.XHDTYPE
    return header.tobuf() * 2000

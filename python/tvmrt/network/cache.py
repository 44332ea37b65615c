"""Compiled networks kept between processes: a folder for each, named by what it was made from.

An entry is written aside and renamed, so that a reader finds all of it or nothing, and any number
of processes may use one cache. Entries that were not used for longest go when there are too many.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

FOLDER_VARIABLE = "TVMRT_CACHE"
BYTES_VARIABLE = "TVMRT_CACHE_BYTES"
MOST_BYTES = 4 << 30
STAMP = "used"  # its time is that of the entry's last use


class Cache:
    """The compiled networks of a user.

    Parameters
    ----------
    folder
        Where they are: the variable ``TVMRT_CACHE``, or ``tvmrt`` in the user's folder of caches.
    most_bytes
        How many bytes they may have: the variable ``TVMRT_CACHE_BYTES``, or 4 GiB.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, most_bytes: int | None = None
    ) -> None:
        self.folder = Path(folder or _own_folder())
        self.most_bytes = _most_bytes() if most_bytes is None else most_bytes

    def find(self, key: str) -> Path | None:
        """The folder of an entry, None where there is none."""
        entry = self.folder / key
        try:
            os.utime(entry / STAMP)
        except FileNotFoundError:
            return None
        except OSError:  # of another user, or on a medium that is not to be written
            return entry if (entry / STAMP).exists() else None
        return entry

    def add(self, key: str, write: Callable[[Path], None]) -> Path:
        """Make an entry of what ``write`` puts into a folder, and return its folder.

        Where another process was faster, its entry stays. Raises OSError as writing does.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".new-", dir=self.folder))
        try:
            write(aside)
            (aside / STAMP).touch()
            self._put(aside, self.folder / key)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        self._prune(key)
        return self.folder / key

    def remove(self, key: str) -> None:
        """Take an entry away, if it is there."""
        shutil.rmtree(self.folder / key, ignore_errors=True)

    def _put(self, aside: Path, entry: Path) -> None:
        try:
            os.rename(aside, entry)
        except OSError:
            if not (entry / STAMP).exists():
                raise

    def _prune(self, newest: str) -> None:
        """Remove what was not used for longest until the rest has room; never the newest."""
        found = []
        for stamp in self.folder.glob(f"*/{STAMP}"):
            try:
                used = stamp.stat().st_mtime
                size = sum(file.stat().st_size for file in stamp.parent.iterdir())
            except OSError:  # another process has just removed it
                continue
            found.append((used, size, stamp.parent))
        total = sum(size for _, size, _ in found)
        for _, size, entry in sorted(found):
            if total <= self.most_bytes:
                return
            if entry.name != newest:
                shutil.rmtree(entry, ignore_errors=True)
                total -= size


def _own_folder() -> Path:
    chosen = os.environ.get(FOLDER_VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tvmrt"


def _most_bytes() -> int:
    text = os.environ.get(BYTES_VARIABLE, "")
    if not text:
        return MOST_BYTES
    if not text.isdecimal():
        raise ValueError(f"{BYTES_VARIABLE} is {text!r}; it must be a number of bytes")
    return int(text)

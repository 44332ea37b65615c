"""Compiled networks kept between processes: a folder for each, named by what it was made from.

An entry is written aside and renamed, so that a reader finds all of it or nothing, and any number
of processes may use one cache. Entries that were not used for longest go when there are too many;
what killed processes have left aside goes when it is old enough.

An entry is code that is executed. So a folder of another user is refused, the system's where others
may write to it, and entries of other users are not used.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "TVMRT_CACHE"
BYTES_VARIABLE = "TVMRT_CACHE_BYTES"
MAX_BYTES = 4 << 30
STAMP = "used"  # its time is that of the entry's last use
ASIDE = ".new-"
_ASIDE_NAME = re.compile(rf"{re.escape(ASIDE)}(?P<host>.*)-(?P<process>\d+)-[^-]*")
LEFT_SECONDS, LEFT_ELSEWHERE_SECONDS = 3600, 24 * 3600
"""Seconds without a write after which a folder aside is a leftover: if this machine has no process
of its number any more, and if that cannot be asked."""


class UnusableCacheError(OSError):
    """The cache cannot keep anything; the text says why, in a few words."""


@dataclass(frozen=True)
class Entry:
    """A compiled network in the cache: its folder, the time of its last use, its size."""

    folder: Path
    used: float
    nbytes: int


class Cache:
    """The compiled networks of a user.

    Parameters
    ----------
    folder
        Where they are: the variable ``TVMRT_CACHE``, or ``tvmrt`` in the user's folder of caches.
    max_bytes
        How many bytes they may have: the variable ``TVMRT_CACHE_BYTES``, or 4 GiB.

    Raises
    ------
    UnusableCacheError
        If no folder is named and the user has no home, or if it is refused.
    PermissionError
        If a folder that was named is refused: it belongs to another user, or to the system and
        others may write to it.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, max_bytes: int | None = None
    ) -> None:
        named = folder or os.environ.get(FOLDER_VARIABLE)
        self.folder = Path(named) if named else _own_folder()
        self.max_bytes = _max_bytes() if max_bytes is None else max_bytes
        if refused := _judge(self.folder):
            raise PermissionError(refused) if named else UnusableCacheError(refused)

    def find(self, key: str) -> Path | None:
        """Return the folder of an entry, None where there is none."""
        entry = self.folder / key
        try:
            os.utime(entry / STAMP)
        except FileNotFoundError:
            return None
        except OSError:  # of another user, or on a medium that is not to be written
            if not os.path.exists(entry / STAMP):
                return None
        return entry if self._is_trusted(entry) else None

    def add(self, key: str, write: Callable[[Path], None]) -> Path:
        """Make an entry of what ``write`` puts into a folder, and return its folder.

        Where another process was faster, its entry stays. Raises UnusableCacheError where the
        folder of the cache cannot be written, and what ``write`` raises.
        """
        aside = self._make_aside()
        try:
            write(aside)
            try:
                (aside / STAMP).touch()
                self._put(aside, self.folder / key)
            except OSError as error:
                raise UnusableCacheError(error.strerror or str(error)) from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        self._prune(key)
        return self.folder / key

    def remove(self, key: str) -> None:
        """Take an entry away, if it is there."""
        _remove(self.folder / key)

    def entries(self) -> list[Entry]:
        """Return the entries, the one that was not used for longest first."""
        found = []
        for stamp in self.folder.glob(f"*/{STAMP}"):
            try:
                used = stamp.stat().st_mtime
                size = sum(file.stat().st_size for file in stamp.parent.iterdir())
            except OSError:  # another process has just removed it
                continue
            found.append(Entry(stamp.parent, used, size))
        return sorted(found, key=lambda entry: (entry.used, entry.folder))

    def leftovers(self) -> list[Entry]:
        """Return the folders of processes that were killed while they wrote an entry."""
        return [entry for entry in self._asides() if _is_left(entry)]

    def clear(self, older_than: float = 0) -> list[Entry]:
        """Remove the entries that were not used for so many seconds, and leftovers; return them.

        Raises PermissionError where one cannot be removed.
        """
        before = time.time() - older_than
        gone = [entry for entry in self.entries() if entry.used <= before] + self.leftovers()
        for entry in gone:
            _remove(entry.folder)
            if os.path.lexists(entry.folder):
                raise PermissionError(f"{entry.folder} cannot be removed; check the permissions")
        return gone

    def _make_aside(self) -> Path:
        prefix = f"{ASIDE}{_host()}-{os.getpid()}-"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return Path(tempfile.mkdtemp(prefix=prefix, dir=self.folder))
        except OSError as error:
            raise UnusableCacheError(error.strerror or str(error)) from error

    def _put(self, aside: Path, entry: Path) -> None:
        """Rename, over what is there and no entry: a link without an end, a file, half a folder."""
        try:
            os.rename(aside, entry)
        except OSError:
            if os.path.exists(entry / STAMP) and self._is_trusted(entry):
                return
            _remove(entry)
            os.rename(aside, entry)

    def _is_trusted(self, entry: Path) -> bool:
        """Whether an entry is of this user or of the system's."""
        try:
            return _owner(entry) in (0, _user())
        except OSError:
            return False

    def _asides(self) -> Iterator[Entry]:
        for folder in self.folder.glob(f"{ASIDE}*"):
            try:
                about = [path.stat() for path in (folder, *folder.rglob("*"))]
            except OSError:  # another process has just renamed it
                continue
            size = sum(one.st_size for one in about if stat.S_ISREG(one.st_mode))
            yield Entry(folder, max(one.st_mtime for one in about), size)

    def _prune(self, newest: str) -> None:
        """Remove leftovers, and what was not used for longest until the rest has room; never the
        newest."""
        for left in self.leftovers():
            _remove(left.folder)
        found = self.entries()
        total = sum(entry.nbytes for entry in found)
        for entry in found:
            if total <= self.max_bytes:
                return
            if entry.folder.name != newest:
                _remove(entry.folder)
                total -= entry.nbytes


def _remove(path: Path) -> None:
    """Remove a folder with all that is in it, or a link or a file, as far as that can be done."""
    try:
        os.unlink(path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def _host() -> str:
    """The machine's name, as names of files can have it; "" where processes are not asked for."""
    return re.sub(r"[^\w.]", "_", os.uname().nodename) if hasattr(os, "uname") else ""


def _is_left(entry: Entry) -> bool:
    """Whether the process that writes a folder is gone, as far as this machine can know."""
    quiet = time.time() - entry.used
    named = _ASIDE_NAME.fullmatch(entry.folder.name)
    if named is None or named["host"] != _host() or not _host():
        return quiet > LEFT_ELSEWHERE_SECONDS
    return quiet > LEFT_SECONDS and not _is_running(int(named["process"]))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # of another user
        return True
    return True


def _user() -> int | None:
    return os.geteuid() if hasattr(os, "geteuid") else None


def _owner(path: Path) -> int | None:
    """The owner's number, None where the system has none."""
    return os.stat(path).st_uid if hasattr(os, "geteuid") else None


def _judge(folder: Path) -> str:
    """Why a folder must not be used, "" where it may be: others could have written code there."""
    user = _user()
    try:
        owner, mode = _owner(folder), os.stat(folder).st_mode
    except OSError:  # it is still to be made, or cannot be used at all
        return ""
    if user == owner or (owner == 0 and not mode & (stat.S_IWGRP | stat.S_IWOTH)):
        return ""
    why = "" if owner else " and others may write to it"
    return (
        f"the cache {folder} belongs to user {owner}{why}, so what is in it could be another "
        f"user's code; name a folder of your own by cache= or {FOLDER_VARIABLE}"
    )


def _own_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache") / "tvmrt"
    except RuntimeError as error:
        raise UnusableCacheError(
            f"this user has no home; name a folder by {FOLDER_VARIABLE}"
        ) from error


def _max_bytes() -> int:
    text = os.environ.get(BYTES_VARIABLE, "")
    if not text:
        return MAX_BYTES
    if not text.isdecimal():
        raise ValueError(f"{BYTES_VARIABLE} is {text!r}; it must be a number of bytes")
    return int(text)

"""The cache of compiled networks: one folder per network, named by its key.

An entry is written to a staging folder and renamed, so readers find a complete entry or none, and
any number of processes may share one cache. When the cache is too large, the least recently used
entries are removed. Staging folders of killed processes are removed after a while.

An entry contains code that is executed. A folder of another user is therefore refused, as is a
system folder that others may write to, and entries of other users are ignored.
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

from tvmrt.units import BYTES

FOLDER_VARIABLE = "TVMRT_CACHE"
BYTES_VARIABLE = "TVMRT_CACHE_BYTES"
MAX_BYTES = 4 << 30
STAMP = "used"  # a file whose modification time is the last use of the entry
STAGING_PREFIX = ".new-"
_STAGING_NAME = re.compile(rf"{re.escape(STAGING_PREFIX)}(?P<host>.*)-(?P<process>\d+)-[^-]*")
ABANDONED_SECONDS, ABANDONED_REMOTE_SECONDS = 3600, 24 * 3600
"""Seconds without a write after which a folder aside is a leftover: if this machine has no process
of its number any more, and if that cannot be asked."""


class UnusableCacheError(OSError):
    """The cache cannot be used; the text is a short reason."""


@dataclass(frozen=True)
class Entry:
    """A compiled network in the cache: folder, time of last use, size."""

    folder: Path
    used: float
    nbytes: int


class Cache:
    """The compiled networks of one user.

    Parameters
    ----------
    folder
        Folder of the cache; ``TVMRT_CACHE`` or ``tvmrt`` in the user's cache folder by default.
    max_bytes
        Maximum size of the cache; ``TVMRT_CACHE_BYTES`` or 4 GiB by default.

    Raises
    ------
    UnusableCacheError
        If the default folder is refused or the user has no home folder.
    PermissionError
        If a named folder is refused: it belongs to another user, or to the system and others may
        write to it.
    """

    def __init__(
        self, folder: str | os.PathLike[str] | None = None, max_bytes: int | None = None
    ) -> None:
        named = folder or os.environ.get(FOLDER_VARIABLE)
        self.folder = Path(named) if named else _own_folder()
        self.max_bytes = _max_bytes() if max_bytes is None else max_bytes
        if refused := _unsafe_reason(self.folder):
            raise PermissionError(refused) if named else UnusableCacheError(refused)

    def find(self, key: str) -> Path | None:
        """Return the folder of an entry, or None, and update its time of last use."""
        entry = self.folder / key
        try:
            os.utime(entry / STAMP)
        except FileNotFoundError:
            return None
        except OSError:  # owned by another user, or on a read-only file system
            if not os.path.exists(entry / STAMP):
                return None
        return entry if self._is_trusted(entry) else None

    def add(self, key: str, write: Callable[[Path], None]) -> Path:
        """Create an entry from the files that ``write`` puts into a folder; return its folder.

        An entry that another process has added meanwhile stays. Raises UnusableCacheError if the
        cache is not writable, and the errors of ``write``.
        """
        staging = self._make_staging()
        try:
            write(staging)
            try:
                (staging / STAMP).touch()
                self._publish(staging, self.folder / key)
            except OSError as error:
                raise UnusableCacheError(error.strerror or str(error)) from error
        finally:
            shutil.rmtree(staging, ignore_errors=True)
        self._prune(key)
        return self.folder / key

    def remove(self, key: str) -> None:
        """Remove an entry if it exists."""
        _remove(self.folder / key)

    def entries(self) -> list[Entry]:
        """Return the entries, least recently used first."""
        found = []
        for stamp in self.folder.glob(f"*/{STAMP}"):
            try:
                used = stamp.stat().st_mtime
                size = sum(file.stat().st_size for file in stamp.parent.iterdir())
            except OSError:  # removed by another process
                continue
            found.append(Entry(stamp.parent, used, size))
        return sorted(found, key=lambda entry: (entry.used, entry.folder))

    def leftovers(self) -> list[Entry]:
        """Return the abandoned staging folders of killed processes."""
        return [entry for entry in self._staging_folders() if _is_abandoned(entry)]

    def clear(self, older_than: float = 0) -> list[Entry]:
        """Remove and return the entries unused for ``older_than`` seconds and abandoned folders.

        Raises PermissionError if one cannot be removed.
        """
        before = time.time() - older_than
        removed = [entry for entry in self.entries() if entry.used <= before] + self.leftovers()
        for entry in removed:
            _remove(entry.folder)
            if os.path.lexists(entry.folder):
                raise PermissionError(f"{entry.folder} cannot be removed; check the permissions")
        return removed

    def _make_staging(self) -> Path:
        prefix = f"{STAGING_PREFIX}{_host()}-{os.getpid()}-"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            return Path(tempfile.mkdtemp(prefix=prefix, dir=self.folder))
        except OSError as error:
            raise UnusableCacheError(error.strerror or str(error)) from error

    def _publish(self, staging: Path, entry: Path) -> None:
        """Rename a staging folder; replace a dangling link, a file or an incomplete folder."""
        try:
            os.rename(staging, entry)
        except OSError:
            if os.path.exists(entry / STAMP) and self._is_trusted(entry):
                return
            _remove(entry)
            os.rename(staging, entry)

    def _is_trusted(self, entry: Path) -> bool:
        """Return whether an entry belongs to this user or to the system."""
        try:
            return _owner(entry) in (0, _user())
        except OSError:
            return False

    def _staging_folders(self) -> Iterator[Entry]:
        for folder in self.folder.glob(f"{STAGING_PREFIX}*"):
            try:
                about = [path.stat() for path in (folder, *folder.rglob("*"))]
            except OSError:  # renamed by another process
                continue
            size = sum(one.st_size for one in about if stat.S_ISREG(one.st_mode))
            yield Entry(folder, max(one.st_mtime for one in about), size)

    def _prune(self, newest: str) -> None:
        """Remove abandoned folders, then the least recently used entries beyond the maximum size,
        except the newest."""
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
    """Remove a folder with its contents, a link or a file; errors are ignored."""
    try:
        os.unlink(path)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


def _host() -> str:
    """Return the host name in the form for file names; "" on systems without uname()."""
    return re.sub(r"[^\w.]", "_", os.uname().nodename) if hasattr(os, "uname") else ""


def _is_abandoned(entry: Entry) -> bool:
    """Return whether the process that wrote a staging folder has ended, as far as is known."""
    quiet = time.time() - entry.used
    named = _STAGING_NAME.fullmatch(entry.folder.name)
    if named is None or named["host"] != _host() or not _host():
        return quiet > ABANDONED_REMOTE_SECONDS
    return quiet > ABANDONED_SECONDS and not _is_running(int(named["process"]))


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # a process of another user
        return True
    return True


def _user() -> int | None:
    return os.geteuid() if hasattr(os, "geteuid") else None


def _owner(path: Path) -> int | None:
    """Return the user id of the owner, None on systems without user ids."""
    return os.stat(path).st_uid if hasattr(os, "geteuid") else None


def _unsafe_reason(folder: Path) -> str:
    """Return why a folder is unsafe because others could have put code there; "" if it is safe."""
    user = _user()
    try:
        owner, mode = _owner(folder), os.stat(folder).st_mode
    except OSError:  # the folder does not exist yet or is not accessible
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
            f"this user has no home folder; set {FOLDER_VARIABLE} to a cache folder"
        ) from error


def _max_bytes() -> int:
    text = os.environ.get(BYTES_VARIABLE, "")
    if not text:
        return MAX_BYTES
    try:
        return int(BYTES.parse(text))
    except ValueError as problem:
        raise ValueError(f"{BYTES_VARIABLE}: {problem}") from None

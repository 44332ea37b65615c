"""The cache of compiled networks: one folder per network, named by its key.

An entry is written to a staging folder and renamed, so readers find a complete entry or none, and
any number of processes may share one cache. When the cache is too large, the least recently used
entries are removed. Staging folders of killed processes are removed after a while.

Each folder of the cache has a mark: a file with the key and the digests of all other files. An
entry is used only if its mark names it and all digests match, so damaged, renamed and exchanged
entries are compiled again. What has no mark is never removed.

An entry contains code that is executed. A folder that belongs to another user, or that others may
write to, is therefore refused, and such entries are ignored. An empty folder of this user loses the
write permission of others before its first entry.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tvmrt.network.cache_key import digest_of_file
from tvmrt.units import BYTES

FOLDER_VARIABLE = "TVMRT_CACHE"
BYTES_VARIABLE = "TVMRT_CACHE_BYTES"
MAX_BYTES = 4 << 30
MARK = "tvmrt-cache-entry.json"  # its modification time is the last use of the entry
STAGING_PREFIX = ".new-"
_STAGING_NAME = re.compile(rf"{re.escape(STAGING_PREFIX)}(?P<host>.*)-(?P<process>\d+)-[^-]*")
ABANDONED_SECONDS, ABANDONED_REMOTE_SECONDS = 3600, 24 * 3600
"""Seconds without a write after which a folder aside is a leftover: if this machine has no process
of its number any more, and if that cannot be asked."""


_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


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
        If a named folder is refused: it belongs to another user, or others may write to it.
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
        """Return the folder of an entry, or None, and update its time of last use.

        None also for an entry that is damaged, is marked as another one, or could have been changed
        by another user. Raises no errors.
        """
        entry = self.folder / key
        if not _is_intact(entry, key):
            return None
        try:
            os.utime(entry / MARK)
        except OSError:  # owned by the system, or on a read-only file system
            pass
        return entry

    def add(self, key: str, write: Callable[[Path], None]) -> Path:
        """Create an entry from the files that ``write`` puts into a folder; return its folder.

        An intact entry that another process has added meanwhile stays. Raises UnusableCacheError if
        the cache is not writable or something without a mark has the name of the entry, and the
        errors of ``write``.
        """
        staging = self._make_staging()
        try:
            write(staging)
            try:
                _seal(staging, key)
                self._publish(staging, key)
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
        entries = [
            entry for entry in self._marked("*") if not entry.folder.name.startswith(STAGING_PREFIX)
        ]
        return sorted(entries, key=lambda entry: (entry.used, entry.folder))

    def leftovers(self) -> list[Entry]:
        """Return the abandoned staging folders of killed processes."""
        return [entry for entry in self._marked(f"{STAGING_PREFIX}*") if _is_abandoned(entry)]

    def clear(self, older_than: float = 0) -> list[Entry]:
        """Remove and return the entries unused for ``older_than`` seconds and abandoned folders.

        Raises PermissionError if one cannot be removed.
        """
        before = time.time() - older_than
        removed = [entry for entry in self.entries() if entry.used <= before] + self.leftovers()
        for entry in removed:
            _remove(entry.folder)
            if os.path.lexists(entry.folder):
                raise PermissionError(
                    f"{entry.folder} cannot be removed; check the permissions, and what is in it"
                )
        return removed

    def _make_staging(self) -> Path:
        prefix = f"{STAGING_PREFIX}{_host()}-{os.getpid()}-"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if _user() is not None and not _is_closed(self.folder):  # empty until now
                _close(self.folder)
            staging = Path(tempfile.mkdtemp(prefix=prefix, dir=self.folder))
            (staging / MARK).touch()
        except OSError as error:
            raise UnusableCacheError(error.strerror or str(error)) from error
        return staging

    def _publish(self, staging: Path, key: str) -> None:
        """Rename a staging folder; replace a damaged entry."""
        entry = self.folder / key
        try:
            os.rename(staging, entry)
        except OSError:
            if _is_intact(entry, key):
                return
            _remove(entry)
            if os.path.lexists(entry):
                text = f"{entry} is not an entry of the cache; remove it"
                raise UnusableCacheError(text) from None
            os.rename(staging, entry)

    def _marked(self, pattern: str) -> Iterator[Entry]:
        """Return the folders with a mark: time of the last write to a file, and size."""
        for mark in self.folder.glob(f"{pattern}/{MARK}"):
            try:
                if not _has_mark(mark.parent):
                    continue
                files = [path.lstat() for path in mark.parent.iterdir()]
                used = mark.lstat().st_mtime
            except OSError:  # renamed or removed by another process
                continue
            if mark.parent.name.startswith(STAGING_PREFIX):
                used = max(one.st_mtime for one in files)
            yield Entry(mark.parent, used, sum(one.st_size for one in files))

    def _prune(self, newest: str) -> None:
        """Remove abandoned folders, then the least recently used entries beyond the maximum size,
        except the newest."""
        for left in self.leftovers():
            _remove(left.folder)
        entries = self.entries()
        total = sum(entry.nbytes for entry in entries)
        for entry in entries:
            if total <= self.max_bytes:
                return
            if entry.folder.name != newest:
                _remove(entry.folder)
                total -= entry.nbytes


def _seal(folder: Path, key: str) -> None:
    """Write the mark of a complete entry, and take write permission from other users."""
    digests = {}
    for file in folder.iterdir():
        _close(file)
        if file.name != MARK:
            digests[file.name] = digest_of_file(file)
    (folder / MARK).write_text(json.dumps({"key": key, "files": digests}), encoding="utf-8")


def _is_intact(entry: Path, key: str) -> bool:
    """Return whether the mark of an entry names it, and its files are those that were written."""
    try:
        if not _has_mark(entry):
            return False
        record = json.loads((entry / MARK).read_text(encoding="utf-8"))
        files = {file.name: file for file in entry.iterdir() if file.name != MARK}
        if record["key"] != key or record["files"].keys() != files.keys():
            return False
        if not all(map(_is_own, (entry, entry / MARK, *files.values()))):
            return False
        return all(digest_of_file(file) == record["files"][name] for name, file in files.items())
    except (OSError, ValueError, TypeError, KeyError, AttributeError):  # damaged, or removed
        return False


def _has_mark(folder: Path) -> bool:
    """Return whether a folder, not a link, contains the mark of this cache, damaged or not."""
    try:
        return stat.S_ISDIR(folder.lstat().st_mode) and stat.S_ISREG(
            (folder / MARK).lstat().st_mode
        )
    except OSError:
        return False


def _is_own(path: Path) -> bool:
    """Return whether only this user and the system can have written a folder or file, not a link.
    Raises OSError."""
    if path.is_symlink():
        return False
    return _user() is None or (_owner(path) in (0, _user()) and _is_closed(path))


def _is_closed(path: Path) -> bool:
    """Return whether the mode lets only the owner write. Raises OSError."""
    return not path.stat().st_mode & _OTHERS_WRITE


def _close(path: Path) -> None:
    """Take write permission from all but the owner. Raises OSError."""
    path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS_WRITE)


def _remove(folder: Path) -> None:
    """Remove the files of a folder with a mark, and the folder; errors are ignored.

    The mark is removed last, so that a folder that is partly removed can be removed later.
    """
    if not _has_mark(folder):
        return
    try:
        for file in sorted(folder.iterdir(), key=lambda file: file.name == MARK):
            file.unlink()
        folder.rmdir()
    except OSError:
        pass


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
        owner, closed = _owner(folder), user is None or _is_closed(folder)
    except OSError:  # the folder does not exist yet or is not accessible
        return ""
    remedy = f"name a folder of your own by cache= or {FOLDER_VARIABLE}"
    if owner not in (0, user):
        why = f"belongs to user {owner}"
    elif closed or (owner == user and _is_empty(folder)):
        return ""
    else:
        why = "may be written to by other users"
        if owner == user:
            remedy += f", or clear it and run 'chmod go-w {folder}'"
    return f"the cache {folder} {why}, so what is in it could be another user's code; {remedy}"


def _is_empty(folder: Path) -> bool:
    return not folder.is_dir() or not os.listdir(folder)


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

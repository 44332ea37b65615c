"""Atomic writes: after a failure the previous files are unchanged."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Yield a temporary path in the same folder, which replaces ``path`` at the end.

    On an error it is removed and ``path`` is unchanged. Raises OSError like other writes.
    """
    target = Path(path)
    folder = target.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder; create it, then write {target.name}")
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=folder)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _copy_mode(temporary, target)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _copy_mode(temporary: Path, target: Path) -> None:
    """Set the permissions of the old file, or those that open() would have set."""
    if target.exists():
        mode = target.stat().st_mode & 0o777
    else:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask
    temporary.chmod(mode | (temporary.stat().st_mode & 0o111))


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a temporary folder. An error because its disk is full names the folder."""
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        try:
            yield Path(folder)
        except OSError as error:
            if error.errno is None or error.filename is not None:
                raise
            raise OSError(error.errno, error.strerror, folder) from None


@contextmanager
def filling(
    path: str | os.PathLike, is_stale: Callable[[Path], bool] = lambda _: False
) -> Iterator[Path]:
    """Yield a temporary folder. At the end its files are moved to ``path`` and replace files of the
    same name; other files there are kept, but those that ``is_stale``. On an error nothing
    changes."""
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{target} is a file; name a folder, or a .so or .tar file")
    parent = target if target.exists() else target.parent
    if not parent.is_dir():
        raise FileNotFoundError(f"{parent} is not a folder; create it, then write {target.name}")
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=parent))
    temporary.chmod(0o755)
    try:
        yield temporary
        if not target.exists():
            os.replace(temporary, target)
            return
        new = {file.name for file in temporary.iterdir()}
        for file in [each for each in target.iterdir() if each.name not in new and is_stale(each)]:
            file.unlink()
        for file in sorted(temporary.rglob("*")):
            if file.is_file():
                path = target / file.relative_to(temporary)
                path.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)

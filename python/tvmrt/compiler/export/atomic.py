"""Writing results so that a failure leaves what was there as it was."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """A new path in the same folder to write to; it takes the place of ``path`` at the end.

    On an error it is removed and ``path`` stays untouched. Raises OSError as writing does.
    """
    target = Path(path)
    folder = target.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is not a folder; create it, then write {target.name}")
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=folder)
    os.close(handle)
    aside = Path(name)
    try:
        yield aside
        _take_mode(aside, target)
        os.replace(aside, target)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise


def _take_mode(aside: Path, target: Path) -> None:
    """Permissions as a plain open() would have given, or as the old file had."""
    if target.exists():
        mode = target.stat().st_mode & 0o777
    else:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask
    aside.chmod(mode | (aside.stat().st_mode & 0o111))


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder for files that nobody keeps. That it is full is an error with its name."""
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        try:
            yield Path(folder)
        except OSError as error:
            if error.errno is None or error.filename is not None:
                raise
            raise OSError(error.errno, error.strerror, folder) from None


@contextmanager
def filling(path: str | os.PathLike) -> Iterator[Path]:
    """A new folder to write to; at the end its files go into ``path``, each taking the place of
    the file of its name. Other files that stand there stay. On an error nothing changes."""
    target = Path(path)
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"{target} is a file; name a folder, or a .so or .tar file")
    parent = target if target.exists() else target.parent
    if not parent.is_dir():
        raise FileNotFoundError(f"{parent} is not a folder; create it, then write {target.name}")
    aside = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=parent))
    aside.chmod(0o755)
    try:
        yield aside
        if not target.exists():
            os.replace(aside, target)
            return
        for file in sorted(aside.rglob("*")):
            if file.is_file():
                place = target / file.relative_to(aside)
                place.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, place)
    finally:
        shutil.rmtree(aside, ignore_errors=True)

"""Names of ``tvm.contrib.utils``: temporary folders that are removed automatically."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path

__all__ = ["TempDirectory", "tempdir"]


class TempDirectory:
    """A folder that is removed with this object, or when the interpreter exits.

    Parameters
    ----------
    custom_path
        Path of the folder, which must not exist; a temporary folder of the system if None.
    keep_for_debug
        Whether to keep it.
    """

    def __init__(
        self, custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool | None = None
    ) -> None:
        if custom_path is not None:
            os.mkdir(custom_path)
            self.temp_dir = os.fspath(custom_path)
        else:
            self.temp_dir = tempfile.mkdtemp(prefix="tvmrt-")
        self._remove = weakref.finalize(self, shutil.rmtree, self.temp_dir, ignore_errors=True)
        if keep_for_debug:
            self._remove.detach()

    @property
    def path(self) -> Path:
        """Path of the folder."""
        return Path(self.temp_dir)

    def __truediv__(self, other: str | os.PathLike[str]) -> Path:
        return self.path / other

    def relpath(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """Return the names of the files in the folder."""
        return os.listdir(self.temp_dir)

    def remove(self) -> None:
        """Remove the folder now."""
        self._remove()


def tempdir(
    custom_path: str | os.PathLike[str] | None = None, keep_for_debug: bool | None = None
) -> TempDirectory:
    """Create a temporary folder; see TempDirectory."""
    return TempDirectory(custom_path, keep_for_debug)

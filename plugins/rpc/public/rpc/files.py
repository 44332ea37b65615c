"""Folder for the files that a session's client uploads."""

from __future__ import annotations

import os
import shutil
import tempfile

from tvmrt.runtime.module import Module, load_module
from tvmrt.runtime.packed_func import register_func

__all__ = ["SessionFolder"]


class SessionFolder:
    """Folder of one session. Clients give names of files in it, never paths."""

    def __init__(self) -> None:
        try:
            self.path = tempfile.mkdtemp(prefix="tvmrt-rpc-")
        except OSError as error:
            raise OSError(
                f"cannot make a folder for uploads: {error.strerror}; set TMPDIR"
            ) from error

    def register(self) -> None:
        """Register the functions of TVM's servers for this folder."""
        for function in (self.upload, self.load_module):
            register_func(f"tvm.rpc.server.{function.__name__}", function, override=True)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _path_of(self, name: str) -> str:
        if not name or name.startswith(".") or "/" in name or "\0" in name:
            raise ValueError(
                f"'{name[:200]}' is not a file name in the session's folder: pass a name without "
                "directories."
            )
        return os.path.join(self.path, name)

    def upload(self, name: str, data: bytearray) -> None:
        """Write a file. It replaces an older one, which stays intact while it is loaded."""
        path = self._path_of(name)
        with open(f"{path}.part", "wb") as file:
            file.write(data)
        os.replace(f"{path}.part", path)

    def load_module(self, name: str) -> Module:
        """Load a file; objects and archives are linked with this machine's C compiler first."""
        return load_module(self._path_of(name))

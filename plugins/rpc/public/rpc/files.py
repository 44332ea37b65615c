"""Files that a session's client uploads, and the functions through which it uses them."""

from __future__ import annotations

import os
import shutil
import tempfile

from tvmrt.runtime.module import Module, load_module
from tvmrt.runtime.packed_func import register_func

__all__ = ["SessionFolder"]

_ODD = frozenset("/\\").union(map(chr, range(32)))


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
        """Register the functions of TVM's servers for this folder, in place of another's."""
        for function in (
            self.workpath, self.upload, self.download, self.remove, self.listdir, self.load_module
        ):  # fmt: skip
            register_func(f"tvm.rpc.server.{function.__name__}", function, override=True)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.path, ignore_errors=True)

    def workpath(self, name: str) -> str:
        """Return the path of a file of that name."""
        if not 0 < len(name) <= 200 or name in (".", "..") or _ODD.intersection(name):
            raise ValueError(
                f"'{name[:200]}' is not a file name in the session's folder: pass a name without "
                "directories."
            )
        return os.path.join(self.path, name)

    def upload(self, name: str, data: bytearray) -> None:
        """Write a file. It replaces an older one, which stays intact while it is loaded."""
        path = self.workpath(name)
        with open(f"{path}.part", "wb") as file:
            file.write(data)
        os.replace(f"{path}.part", path)

    def download(self, name: str) -> bytearray:
        """Return the content of a file."""
        with open(self.workpath(name), "rb") as file:
            return bytearray(file.read())

    def remove(self, name: str) -> None:
        """Delete a file."""
        os.remove(self.workpath(name))

    def listdir(self, _path: str = "") -> str:
        """Return the names of all files, each with a comma after it, as TVM's clients expect."""
        return "".join(f"{name}," for name in os.listdir(self.path))

    def load_module(self, name: str) -> Module:
        """Load a file; objects and archives are linked with this machine's C compiler first."""
        return load_module(self.workpath(name))

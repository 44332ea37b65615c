"""Names of ``tvm.contrib.tar``: archives of object files."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tvmrt.runtime.link import unpack

__all__ = ["tar", "untar"]


def tar(output: str | os.PathLike[str], files: str | Sequence[str | os.PathLike[str]]) -> None:
    """Pack files into a compressed archive, without their folders.

    Parameters
    ----------
    output
        Path of the archive; an existing one is replaced when the new one is complete.
    files
        The files.

    Raises
    ------
    ValueError
        If two files have the same name.
    OSError
        If a file cannot be read or written.
    """
    paths = [Path(file) for file in ([files] if isinstance(files, str) else files)]
    names = [path.name for path in paths]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"an archive cannot contain a name twice: {', '.join(twice)}")
    aside = f"{os.fspath(output)}.{os.getpid()}.tmp"
    try:
        with tarfile.open(aside, "w:gz") as archive:
            for path in paths:
                archive.add(path, arcname=path.name, recursive=False)
        os.replace(aside, output)
    finally:
        Path(aside).unlink(missing_ok=True)


tar.output_format = "tar"  # type: ignore[attr-defined]  # export_library() asks for it


def untar(tar_file: str | os.PathLike[str], directory: str | os.PathLike[str]) -> None:
    """Extract an archive into a folder.

    Parameters
    ----------
    tar_file
        The archive, compressed or not.
    directory
        The folder, which is created if necessary.

    Raises
    ------
    ValueError
        If a member is neither a file nor a folder, or has a path outside of the archive.
    OSError, tarfile.TarError
        If the archive cannot be read, or the files cannot be written.
    """
    unpack(tar_file, Path(directory))

"""Archives of object files, under the names of ``tvm.contrib.tar``."""

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
        The archive; an older one is replaced once the new one is whole.
    files
        The files.

    Raises
    ------
    ValueError
        If two files have one name.
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
    """Write the files of an archive into a folder.

    Parameters
    ----------
    tar_file
        The archive, compressed or not.
    directory
        The folder; made if it is not there.

    Raises
    ------
    ValueError
        If a member of it is neither a file nor a folder, or lies outside.
    OSError, tarfile.TarError
        If it cannot be read, or the files cannot be written.
    """
    unpack(tar_file, Path(directory))

"""Error texts for archives that cannot be read."""

from __future__ import annotations

import tarfile
import zlib

DAMAGED = "it is not a tar archive, or is damaged; copy or create it again"


def archive_error_text(error: BaseException) -> str:
    """Return what is wrong with an archive, on one line, for an error of reading it.

    The texts of ``tarfile`` list the failure of each compression method on a line of its own.
    """
    if isinstance(error, RecursionError):  # tarfile recurses for each extended header
        return "its headers are nested too deeply"
    without_cause = isinstance(error, OSError) and error.errno is None  # of gzip, bz2
    if without_cause or isinstance(error, (tarfile.TarError, EOFError, zlib.error)):
        return DAMAGED
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    text = error.args[0] if isinstance(error, KeyError) and len(error.args) == 1 else error
    return " ".join(str(text).split())

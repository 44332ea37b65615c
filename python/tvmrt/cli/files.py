"""Files that commands read and write, with errors that name them."""

from __future__ import annotations

import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

GOLDEN_PREFIX = "out:"  # a name with it in an .npz is an expected output, not an input


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file aside and rename it over ``path`` when all went well.

    On any failure an existing file stays as it was and nothing else is left behind.
    Raises OSError that names ``path``.
    """
    try:
        handle, aside = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        os.chmod(aside, 0o666 & ~_umask())
        os.replace(aside, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(aside)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def check_file(path: Path) -> Path:
    """Return ``path`` if it is a readable file; raise OSError that names it otherwise."""
    with open(path, "rb"):
        return path


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` by name; raise ValueError or OSError naming the file."""
    import numpy as np

    check_file(path)
    try:
        data = np.load(path, allow_pickle=False)
        if not hasattr(data, "files"):
            raise ValueError("it holds one array without a name")
        with data:
            return {name: data[name] for name in data.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{path} is not an .npz archive of arrays ({error}); "
            "write one with numpy.savez(path, name=array)"
        ) from None


def load_inputs(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` that are inputs: all but those called ``out:...``."""
    return {k: v for k, v in load_arrays(path).items() if not k.startswith(GOLDEN_PREFIX)}


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name as an ``.npz``, aside first."""
    import numpy as np

    with replacing(path) as stream:
        np.savez(stream, **arrays)


def save_text(path: Path, text: str) -> None:
    """Write UTF-8 text, aside first."""
    with replacing(path) as stream:
        stream.write(text.encode())

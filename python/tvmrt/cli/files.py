"""Files that commands read and write, with errors that name them."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tvmrt.compiler.export import atomic

if TYPE_CHECKING:
    import numpy as np

GENERATED_MARK = "_ops.h"  # every folder of generated sources has a file with this ending
GOLDEN_PREFIX = "out:"  # a name with it in an .npz is an expected output, not an input


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Let failures of writing name ``path`` rather than the file that is written aside of it.

    Those of files elsewhere, as in the folder for temporary ones, keep their own names.
    """
    try:
        yield
    except OSError as error:
        place = Path(error.filename or path).absolute()
        if error.errno is None or path.absolute().parent not in place.parents:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def check_target(path: Path) -> Path:
    """Return ``path`` if a file may be made there, before any work is done for it.

    Raises FileNotFoundError if its folder is missing, and OSError if something stands there that is
    no file: a folder, or a device such as ``/dev/null``, must not be renamed over.
    """
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{path} cannot be written: the folder {folder} does not exist; create it"
        )
    if path.exists() and not path.is_file():
        raise OSError(f"{path} cannot be written: it exists and is not a file")
    return path


def check_target_folder(path: Path) -> Path:
    """Return ``path`` if a folder of generated sources may be made there, or replaced.

    Raises OSError if something else stands there, so that no folder of a user's own is lost.
    """
    if not path.exists():
        return check_target(path)
    if not path.is_dir():
        raise OSError(f"{path} cannot be created: it exists and is not a folder")
    names = sorted(entry.name for entry in path.iterdir())
    if names and not any(name.endswith(GENERATED_MARK) for name in names):
        raise OSError(
            f"{path} is a folder that contains other files ({names[0]} ...), which are not "
            "replaced; give a new folder, or a file that ends in .so or .tar"
        )
    return path


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
    except Exception as error:  # numpy lets through whatever zlib and its parser of heads raise
        raise ValueError(
            f"{path} is not an .npz archive of arrays ({error}); "
            "write one with numpy.savez(path, name=array)"
        ) from None


def load_inputs(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` that are inputs: all but those called ``out:...``."""
    return {k: v for k, v in load_arrays(path).items() if not k.startswith(GOLDEN_PREFIX)}


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name as an ``.npz``; on failure an old file stays as it was."""
    import numpy as np

    # not by numpy.savez: it takes some names for its own parameters, and on a full disk it ends in
    # noise at exit
    memory = io.BytesIO()
    with writing(path), atomic.replacing(path) as aside:
        with zipfile.ZipFile(memory, "w") as archive:
            for name, value in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asanyarray(value), allow_pickle=False)
        aside.write_bytes(memory.getvalue())


def save_text(path: Path, text: str) -> None:
    """Write UTF-8 text; on failure an old file stays as it was."""
    with writing(path), atomic.replacing(path) as aside:
        aside.write_text(text, encoding="utf-8")

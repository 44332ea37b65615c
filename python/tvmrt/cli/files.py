"""Reading and writing of files by commands, with errors that name the file."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tvmrt.compiler.export import atomic
from tvmrt.git_lfs import check_is_no_pointer

if TYPE_CHECKING:
    import numpy as np

GENERATED_MARK = "_ops.h"  # suffix of a file in every folder of generated sources
GOLDEN_PREFIX = "out:"  # prefix of expected outputs in an .npz, which are not inputs


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Let write errors name ``path`` instead of its temporary file.

    Errors of files elsewhere, such as in the system's temporary folder, keep their file name.
    """
    try:
        yield
    except OSError as error:
        target = Path(error.filename or path).absolute()
        if error.errno is None or path.absolute().parent not in target.parents:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from None


def check_target(path: Path) -> Path:
    """Return ``path`` if a file can be created there; called before any work is done.

    Raises FileNotFoundError if its folder is missing, ValueError if it is the same file as another
    path on the command line, and OSError if the path exists but is not a file: a folder, or a
    device such as ``/dev/null``, must not be replaced.
    """
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{path} cannot be written: the folder {folder} does not exist; create it"
        )
    if path.exists() and not path.is_file():
        raise OSError(f"{path} cannot be written: it exists and is not a file")
    for each in _other_paths(path):
        if path.exists() and each.exists() and path.samefile(each):
            raise ValueError(
                f"{path} is an input of this command, which would replace it; write to another file"
            )
    return path


def _other_paths(path: Path) -> Iterator[Path]:
    """Yield the paths that the command received, except the object ``path``."""
    context = click.get_current_context(silent=True)
    for value in () if context is None else context.params.values():
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, Path) and each is not path:
                yield each


def check_target_folder(path: Path) -> Path:
    """Return ``path`` if a folder of generated sources may be created or replaced there.

    Raises OSError if the path has other contents, so that no folder of the user is lost.
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
    """Return ``path`` if it is a readable file; otherwise raise an OSError, or a ValueError for a
    pointer of git LFS, that names it."""
    with open(path, "rb"):
        check_is_no_pointer(path)
        return path


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an ``.npz`` by name. Raises ValueError or OSError, naming the file."""
    import numpy as np

    check_file(path)
    try:
        data = np.load(path, allow_pickle=False)
        if not hasattr(data, "files"):
            raise ValueError("it holds one array without a name")
        with data:
            return {name: data[name] for name in data.files}
    except Exception as error:  # NumPy propagates errors of zlib and of its header parser
        raise ValueError(
            f"{path} is not an .npz archive of arrays ({error}); "
            "write one with numpy.savez(path, name=array)"
        ) from None


def load_inputs(path: Path) -> dict[str, np.ndarray]:
    """Return the inputs in an ``.npz``: all arrays except those named ``out:...``."""
    return {k: v for k, v in load_arrays(path).items() if not k.startswith(GOLDEN_PREFIX)}


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays by name as an ``.npz``; on failure an existing file stays unchanged."""
    import numpy as np

    # numpy.savez is not used: it reserves some names for parameters, and on a full disk it prints
    # errors at exit
    memory = io.BytesIO()
    with writing(path), atomic.replacing(path) as aside:
        with zipfile.ZipFile(memory, "w") as archive:
            for name, value in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    np.lib.format.write_array(entry, np.asanyarray(value), allow_pickle=False)
        aside.write_bytes(memory.getvalue())

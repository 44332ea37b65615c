"""Load networks from source files, compiled libraries and in-memory models."""

from __future__ import annotations

import os
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tvmrt import extras
from tvmrt.compiler.request import Request, documented, make
from tvmrt.error import CompileError, Remark
from tvmrt.network import identity
from tvmrt.network.cache import FOLDER_VARIABLE, Cache, UnusableCacheError
from tvmrt.network.facts import Facts, facts_of, read_facts
from tvmrt.network.network import Network
from tvmrt.network.opened import open_library
from tvmrt.plugin import is_network

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tvmrt.compiler.export.library import CompiledLibrary
    from tvmrt.compiler.option_types import CompileOptions

LIBRARY = "network.so"
FULL_BYTES = 64 << 20  # with less free space, a C compiler may have failed for lack of it
ROWS = 64  # default maximum batch of a scikit-learn model; more rows take several runs


@documented
def load(
    model: Any,
    *,
    request: Request | None = None,
    cache: bool | str | os.PathLike[str] = True,
    **options: Unpack[CompileOptions],
) -> Network:
    """Load a network as a function of arrays and compile it if necessary.

    Compiled networks are cached in a folder of the user. The cache key covers the contents of the
    network, the options, the C compiler, the processor and the version of tvmrt. By default the
    code is for this machine only, which halves the compile time. Set a target, ISA levels or
    ``TVMRT_TARGET`` for others; a network pickled for other machines needs ``target="x86-64"``.

    Dynamic dimensions get default bounds (see ``tvmrt.Network.dims``); ``dims`` sets others.

    Parameters
    ----------
    model
        Path of an ``.onnx`` or ``.tflite`` file, of a compiled ``.so`` or of a ``tvmc`` package
        (``.tar``); an ``onnx.ModelProto``, the bytes of a ``.tflite`` file, a
        ``CompiledLibrary``, or a trained scikit-learn model (needs ``skl2onnx``).
    request
        All options of ``tvmrt.compile`` as one record, instead of keyword arguments.
    cache
        Folder for compiled networks, or ``False`` for no cache. The default is ``TVMRT_CACHE`` or
        else ``tvmrt`` in the user's cache folder. Its size limit is ``TVMRT_CACHE_BYTES`` or
        4 GiB. If the cache is not writable, a warning is issued once and nothing is cached.
    {options}

    Returns
    -------
    A Network that any number of threads may call.

    Raises
    ------
    The errors of ``tvmrt.compile``, ``CompiledLibrary.export_library`` and
    ``tvmrt.runtime.load_module``; PermissionError if the folder of ``cache`` or ``TVMRT_CACHE``
    belongs to another user, or to the system and others may write to it.
    """
    if isinstance(model, (str, os.PathLike)) and not is_network(model):
        if request is not None or options:
            raise ValueError(f"{os.fspath(model)} is already compiled; options do not apply")
        return Network(open_library(model), Facts(), os.fspath(model))
    if type(model).__name__ == "CompiledLibrary":
        return _from_library(model)
    model, given = _network_of(model, dict(options))
    if request is not None and given:
        raise TypeError("pass options by keyword, or all of them in one tvmrt.Request")
    asked = (request or make(given)).for_here()
    source = _Source(model)
    try:
        key = identity.key_of(source.digest(), asked) if cache is not False else None
    except identity.Unknowable:
        key = None
    kept = None if key is None else _cache_of(None if cache is True else cast(str, cache))
    network = _loaded(source, asked, kept, key)
    network.made_from = lambda: _library_of(source, asked)
    return network


@dataclass(frozen=True)
class _Source:
    """A network before compilation: a path, a ModelProto, bytes or a GraphBuilder."""

    model: Any

    @property
    def file(self) -> Path | None:
        return Path(self.model) if isinstance(self.model, (str, os.PathLike)) else None

    @property
    def name(self) -> str:
        return str(self.file or f"a {type(self.model).__name__}")

    def digest(self) -> str:
        """Return the digest of the contents. Raises OSError, or Unknowable if there is none."""
        if self.file is not None:
            return identity.digest_of_file(self.file)
        if isinstance(self.model, (bytes, bytearray)):
            return identity.digest(bytes(self.model))
        if hasattr(self.model, "SerializeToString"):
            return identity.digest(self.model.SerializeToString(deterministic=True))
        raise identity.Unknowable(type(self.model).__name__)

    def beside(self) -> dict[str, str]:
        """Return the digests of the external weight files, by file name."""
        if self.file is None or self.file.suffix != ".onnx":
            return {}
        from tvmrt.compiler.frontend.onnx import data_files

        folder = self.file.parent
        return {name: identity.digest_of_file(folder / name) for name in data_files(self.file)}

    def is_that_of(self, facts: Facts) -> bool:
        """Return whether the external weight files are unchanged since compilation."""
        folder = self.file.parent if self.file else Path()
        try:
            return all(
                identity.digest_of_file(folder / name) == found
                for name, found in facts.beside.items()
            )
        except OSError:
            return False


def _loaded(source: _Source, asked: Request, kept: Cache | None, key: str | None) -> Network:
    if kept is None or key is None:
        return _compiled_for_now(source, asked)
    entry = kept.find(key)
    if entry is not None:
        try:
            facts = read_facts(entry)
            if source.is_that_of(facts):
                return Network(open_library(entry / LIBRARY), facts, source.name)
        except (OSError, ValueError):  # damaged, or removed by another process
            pass
        kept.remove(key)
    library, beside = _library_of(source, asked), source.beside()
    try:
        entry = kept.add(key, lambda folder: _write(library, beside, folder))
        return Network(open_library(entry / LIBRARY), read_facts(entry), source.name)
    except (OSError, CompileError) as error:
        if not _may_be_full(error, kept.folder):
            raise
        network = _opened_for_now(library, beside, source.name)
        _say_unusable(str(kept.folder), str(error))
        return network


def _cache_of(folder: str | None) -> Cache | None:
    """Return the cache, or None if this user cannot have one."""
    try:
        return Cache(folder)
    except UnusableCacheError as error:
        _say_unusable("", str(error))
        return None


_SAID: set[str] = set()


def _say_unusable(folder: str, why: str) -> None:
    """Warn once per process and folder that the cache is not usable."""
    if folder in _SAID:
        return
    _SAID.add(folder)
    place = f"in {folder}" if folder else "in a cache"
    warnings.warn(
        f"what is compiled cannot be kept {place} ({' '.join(why.split())[-200:]}), so it is "
        f"compiled each time; name another folder by cache= or {FOLDER_VARIABLE}, or give "
        "cache=False",
        Remark,
        stacklevel=5,
    )


def _may_be_full(error: OSError | CompileError, folder: Path) -> bool:
    """Return whether a full disk may be the cause; a C compiler does not report that."""
    if not isinstance(error, CompileError):
        return True
    try:
        return shutil.disk_usage(folder).free < FULL_BYTES
    except OSError:
        return True


def _compiled_for_now(source: _Source, asked: Request) -> Network:
    return _opened_for_now(_library_of(source, asked), source.beside(), source.name)


def _opened_for_now(library: Any, beside: Mapping[str, str], name: str) -> Network:
    """Load a library without the cache; its file is deleted once it is in memory."""
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder_name:
        folder = Path(folder_name)
        _write(library, beside, folder)
        return Network(open_library(folder / LIBRARY), read_facts(folder), name)


def _library_of(source: _Source, asked: Request) -> CompiledLibrary:
    try:
        from tvmrt.compiler.pipeline import compile as compile_network
    except ModuleNotFoundError as error:
        raise extras.told(error) from error
    return compile_network(source.model, asked)


def _write(library: Any, beside: Mapping[str, str], folder: Path) -> None:
    library.export_library(folder / LIBRARY)
    facts_of(library, beside).write(folder)


def _from_library(library: Any) -> Network:
    network = _opened_for_now(library, {}, library.module_name)
    network.made_from = lambda: library
    return network


def _network_of(model: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Convert a scikit-learn model to ONNX with a dynamic batch; return other models unchanged."""
    features = getattr(model, "n_features_in_", None)
    if features is None or not hasattr(model, "fit"):
        return model, options
    try:
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType
    except ImportError:
        raise ImportError(
            f"a {type(model).__name__} is compiled by way of ONNX: "
            "'pip install tvmrt[sklearn]', or give the ONNX network"
        ) from None
    maps = {"zipmap": False} if hasattr(model, "predict_proba") else None
    types: Any = [("X", FloatTensorType([None, features]))]
    exported = to_onnx(model, initial_types=types, options=maps)
    dims = options.pop("dims", None) or {"batch": ROWS}
    return exported, {"shapes": {"X": ("batch", features)}, "dims": dims, **options}

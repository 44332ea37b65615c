"""Load networks from source files, compiled libraries and in-memory models."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tvmrt import conversion, optional_dependencies
from tvmrt.compiler.converted import exact, is_exact, with_conversion
from tvmrt.compiler.request import Request, make
from tvmrt.error import CompileError, TvmrtWarning
from tvmrt.file_suffix import suffix_of
from tvmrt.network import background, cache_key, progress
from tvmrt.network.cache import FOLDER_VARIABLE, Cache, UnusableCacheError
from tvmrt.network.default_inputs import DeclaredShapes, DefaultInputs, Shapes
from tvmrt.network.loaded_library import open_library
from tvmrt.network.network import Network
from tvmrt.network.sidecar import NetworkMetadata, metadata_of, read_metadata
from tvmrt.option_syntax import option
from tvmrt.plugin import is_network, linker_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from tvmrt.compiler.export.library import CompiledLibrary
    from tvmrt.compiler.option_types import CompileOptions

LIBRARY = "network.so"
MIN_FREE_BYTES = 64 << 20  # with less free space, a C compiler may have failed for lack of it


def load(
    model: Any,
    *,
    request: Request | None = None,
    cache: bool | str | os.PathLike[str] = True,
    threads: int | None = None,
    **options: Unpack[CompileOptions],
) -> Network:
    """Load a network as a function of arrays and compile it if necessary.

    Parameters
    ----------
    model
        Path of an ``.onnx``, ``.tflite``, TorchScript or Keras file, of a SavedModel, or of a
        compiled ``.so``, ``.tvmrt`` or ``.tar``; an ``onnx.ModelProto``, the bytes of a ``.tflite``
        file, a ``CompiledLibrary``; a PyTorch, Keras, scikit-learn, LightGBM or XGBoost model.
    request
        All options as one ``tvmrt.Request``, instead of keyword arguments.
    cache
        Folder for compiled networks, or ``False`` for none. Default: ``TVMRT_CACHE``, or ``tvmrt``
        in the user's cache folder, up to ``TVMRT_CACHE_BYTES`` or 4 GiB.
    threads
        Most threads of an operator. Default: ``TVM_NUM_THREADS``, or one per core.
    options
        Options of ``tvmrt.compile``; these are the most common:

        ===============  ===========================================================
        dims             bounds of dynamic dimensions: ``{"batch": (1, 8)}``;
                         default: any size, see ``Network.dims``
        shapes           shapes of inputs: ``{"image": (1, 3, 224, 224)}``
        example          inputs that a PyTorch or other module takes: ``(ids, mask)``
        trusted          ``True`` to read files that can run code, such as ``.pt``
        precision        ``"bf16"`` for convolutions and matmuls,
                         ``"int8"`` for matmuls with ``weights``
        weights          ``"int8"`` or ``"int4"`` for matmuls and embeddings
        devices          devices in addition to the CPU: ``["opencl"]``
        target           processor; default: this machine only
        cc               C compiler; default: the one that is found
        max_memory       limit in bytes for weights and tensors
        operators        custom operators, or files with them
        ===============  ===========================================================

    Returns
    -------
    A Network that any number of threads may call.

    Raises
    ------
    The errors of ``tvmrt.compile`` and ``tvmrt.runtime.load_module``; PermissionError if the
    folder of ``cache`` belongs to another user, or to the system and others may write to it.
    """
    _check_arguments(model, request, cache, threads)
    network = _load(model, request, cache, options)
    return network if threads is None else network.with_threads(threads)


def _load(
    model: Any,
    request: Request | None,
    cache: bool | str | os.PathLike[str],
    options: CompileOptions,
) -> Network:
    is_file = isinstance(model, (str, os.PathLike))
    if is_file and not (is_network(model) or conversion.is_foreign(model)):
        if request is not None or options.keys() - {"trusted"}:
            raise ValueError(f"{os.fspath(model)} is already compiled; options do not apply")
        if (link := linker_of(model)) is not None:
            return _open_written(partial(link, model), os.fspath(model))
        return Network(open_library(model), NetworkMetadata(), os.fspath(model))
    if type(model).__name__ == "CompiledLibrary":
        return _from_library(cast("CompiledLibrary", model))
    if request is not None and options:
        raise TypeError("pass options by keyword, or all of them in one tvmrt.Request")
    model, requested, converted = with_conversion(model, request or make(options))
    network = _from_network(_Source(model), requested.for_here(), cache)
    if converted.original is not None:  # also if cached: other models may convert to its bytes
        from tvmrt.conversion.agreement import check  # not needed for networks of files

        compared, other = network, converted.original.network_to_compare(model)
        if other is not model or not is_exact(requested):
            compared = _from_network(_Source(other), exact(requested), cache)
        check(compared.new_executor(), converted.original)
    return network


def _from_network(
    source: _Source, requested: Request, cache: bool | str | os.PathLike[str]
) -> Network:
    """Return a network from the cache, or compile it."""
    digest, key = source.digest(), None
    if digest is not None and cache is not False:
        with suppress(cache_key.UncacheableOptionError):
            key = cache_key.key_of(digest, requested)
    store = None if key is None else _cache_of(None if cache is True else cast(str, cache))
    network = _loaded(source, requested, store, key)
    network.recompile = lambda: _library_of(source, requested)

    def check_unchanged(files: Mapping[str, str]) -> None:
        if (source.digest(), files) != (digest, network.metadata.external_files):
            raise OSError(f"{source.name} has changed since it was loaded; load it again")

    def compile_variant(other_request: Request) -> Network:
        check_unchanged(source.external_files())
        other = _from_network(source, other_request, cache)
        check_unchanged(other.metadata.external_files)
        return other

    def compile_for(dims: Mapping[str, Any]) -> Network:
        return compile_variant(replace(requested, dims={**(requested.dims or {}), **dims}))

    def compile_with_inputs(shapes: Shapes) -> Network:
        if network.keeps_state:
            raise ValueError(
                f"the network keeps state between calls, and {min(shapes)!r} has a default value, "
                f"which is a constant in it; load it with {option('shapes', shapes)} and give the "
                "value in each call"
            )
        return compile_variant(replace(requested, shapes={**(requested.shapes or {}), **shapes}))

    network.compile_on_demand(compile_for)
    if source.is_onnx:
        network.default_inputs = DefaultInputs(source.default_inputs, compile_with_inputs)
    return network


def _check_arguments(model: Any, request: Any, cache: Any, threads: Any) -> None:
    """Raise an error for arguments of other types than declared, and for an empty path."""
    if model in ("", Path()) if isinstance(model, (str, Path)) else model is None:
        raise ValueError("no model is given; give the path of a network, or a model")
    if request is not None and not isinstance(request, Request):
        raise TypeError(f"request: give a tvmrt.Request, not {request!r:.60}")
    if not isinstance(cache, (bool, str, os.PathLike, type(None))):
        raise TypeError(f"cache: give a folder, True or False, not {cache!r:.60}")
    if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool)):
        raise TypeError(f"threads: give a number of threads, not {threads!r:.60}")
    if threads is not None and threads < 1:
        raise ValueError(f"threads: give 1 or more, not {threads}")


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

    def digest(self) -> str | None:
        """Return the digest of the contents; None for a builder. Raises OSError."""
        if self.file is not None:
            return cache_key.digest_of_file(self.file)
        if isinstance(self.model, (bytes, bytearray)):
            return cache_key.digest(bytes(self.model))
        if hasattr(type(self.model), "SerializeToString"):  # a builder has every name
            return cache_key.digest(self.model.SerializeToString(deterministic=True))
        return None

    @property
    def is_onnx(self) -> bool:
        """Whether it is an ONNX file or a ModelProto."""
        if self.file is not None:
            return suffix_of(self.file) == ".onnx"
        return type(self.model).__name__ == "ModelProto"

    def default_inputs(self) -> DeclaredShapes:
        """Return the declared shapes of an ONNX network's inputs that have a default value."""
        from tvmrt.compiler.frontend.onnx import default_inputs

        return default_inputs(self.model)

    def external_files(self) -> dict[str, str]:
        """Return the digests of the external weight files, by file name."""
        if self.file is None or not self.is_onnx:
            return {}
        from tvmrt.compiler.frontend.onnx import data_files

        folder = self.file.parent
        return {name: cache_key.digest_of_file(folder / name) for name in data_files(self.file)}

    def is_unchanged(self, metadata: NetworkMetadata) -> bool:
        """Return whether the external weight files are unchanged since compilation."""
        folder = self.file.parent if self.file else Path()
        try:
            return all(
                cache_key.digest_of_file(folder / name) == digest
                for name, digest in metadata.external_files.items()
            )
        except OSError:
            return False


def _loaded(source: _Source, requested: Request, store: Cache | None, key: str | None) -> Network:
    if store is not None and key is not None and (entry := store.find(key)) is not None:
        try:
            metadata = read_metadata(entry)
            if source.is_unchanged(metadata):
                return Network(open_library(entry / LIBRARY), metadata, source.name)
        except (OSError, ValueError):  # damaged, or removed by another process
            pass
        store.remove(key)
    if store is not None and key is not None and (early := background.pack_request(requested)):
        digest = cast(str, source.digest())
        network = _loaded(source, early, store, cache_key.key_of(digest, early))
        background.start(source.model, requested, store.folder, key, source.name)
        return network
    with progress.shown(requested.progress, source.name) as report:
        return _compiled(source, replace(requested, progress=report), store, key)


def _compiled(source: _Source, requested: Request, store: Cache | None, key: str | None) -> Network:
    """Compile a network, and keep it in the cache if possible."""
    library, weight_files = _library_of(source, requested), source.external_files()
    _check_target(library, requested)
    write = partial(_write, library, weight_files, source.name, report=requested.progress)
    if store is None or key is None:
        return _open_written(write, source.name)
    try:
        entry = store.add(key, write)
        return Network(open_library(entry / LIBRARY), read_metadata(entry), source.name)
    except (OSError, CompileError) as error:
        if not _disk_may_be_full(error, store.folder):
            raise
        network = _open_written(write, source.name)
        _warn_unusable(str(store.folder), str(error))
        return network


def _cache_of(folder: str | None) -> Cache | None:
    """Return the cache, or None if this user cannot have one."""
    try:
        return Cache(folder)
    except UnusableCacheError as error:
        _warn_unusable("", str(error))
        return None


_WARNED: set[str] = set()


def _warn_unusable(folder: str, why: str) -> None:
    """Warn once per process and folder that the cache is not usable."""
    if folder in _WARNED:
        return
    _WARNED.add(folder)
    location = f"in {folder}" if folder else "in a cache"
    warnings.warn(
        f"the compiled network cannot be stored {location} ({' '.join(why.split())[-400:]}), so it "
        f"is compiled each time; set another folder with cache= or {FOLDER_VARIABLE}, or give "
        "cache=False",
        TvmrtWarning,
        stacklevel=5,
    )


def _disk_may_be_full(error: OSError | CompileError, folder: Path) -> bool:
    """Return whether a full disk may be the cause; a C compiler does not report that."""
    if not isinstance(error, CompileError):
        return True
    try:
        return shutil.disk_usage(folder).free < MIN_FREE_BYTES
    except OSError:
        return True


def _open_written(write: Callable[[Path], None], name: str) -> Network:
    """Load a library, which a function writes to a folder with its metadata, without the cache; its
    file is deleted once it is in memory."""
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder_name:
        folder = Path(folder_name)
        write(folder)
        loaded = open_library(folder / LIBRARY)
        loaded.module.hold_file()
        return Network(loaded, read_metadata(folder), name)


def _library_of(source: _Source, requested: Request) -> CompiledLibrary:
    try:
        with _no_garbage_collection():
            from tvmrt.compiler.pipeline import compile as compile_network
    except ModuleNotFoundError as error:
        raise optional_dependencies.with_install_advice(error) from error
    return compile_network(source.model, requested)


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Pause the garbage collector, which takes a tenth of the time of a large import."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _check_target(library: CompiledLibrary, requested: Request) -> None:
    """Raise ValueError for a network of a board, of another system or another processor."""
    if _runs_here(library):
        return
    name = next((n for n in ("board", "target") if requested.value_of(n) is not None), "runtime")
    text = option(name, requested.value_of(name))
    is_library = not library.options.firmware and library.target.library_suffix == ".so"
    raise ValueError(
        f"tvmrt.load runs networks on this machine, and {text} is for another "
        f"{'processor' if is_library else 'place'}; compile the network with "
        f"tvmrt.compile(model, {text}), and write it with its method export()"
    )


def _runs_here(library: CompiledLibrary) -> bool:
    return not library.options.firmware and library.target.runs_here


def _write(
    library: Any,
    weight_files: Mapping[str, str],
    name: str,
    folder: Path,
    report: progress.Report | None = None,
) -> None:
    """Write a library and its metadata to a folder. ``name``: path of the source, or what it is."""
    if report is not None:
        from tvmrt.compiler.pipeline import C_COMPILER, STAGES

        report(C_COMPILER, STAGES - 1, STAGES)
    library.export_library(folder / LIBRARY)
    metadata_of(library, weight_files, os.path.basename(name)).write(folder)


def _from_library(library: CompiledLibrary) -> Network:
    if not _runs_here(library):
        runtime = " and the runtime crt" if library.options.firmware else ""
        raise ValueError(
            f"tvmrt.load runs networks on this machine, and this one was compiled for the target "
            f"{library.target.name}{runtime}; write it with its method export(), or compile it "
            f"without {option('target', library.target.name)}"
        )
    name = library.module_name
    network = _open_written(partial(_write, library, {}, name), name)
    network.recompile = lambda: library
    return network

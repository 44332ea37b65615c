"""Modules: sets of packed functions, loaded from files or created by other modules."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tvmrt.error import NameNotFoundError
from tvmrt.file_suffix import suffix_of
from tvmrt.plugin import is_network, linker_of
from tvmrt.runtime import _core
from tvmrt.runtime._core import function_from_handle
from tvmrt.runtime._library import address, check, encode, ffi, lib, pointer
from tvmrt.runtime.device import Device
from tvmrt.runtime.metadata import ModelMetadata, read
from tvmrt.runtime.packed_func import PackedFunc, get_global_func

__all__ = [
    "BenchmarkResult",
    "Module",
    "ModulePropertyMask",
    "enabled",
    "load_module",
    "num_threads",
    "system_lib",
]


class ModulePropertyMask:
    """Bits that describe the abilities of a module."""

    BINARY_SERIALIZABLE = 0b001
    RUNNABLE = 0b010
    DSO_EXPORTABLE = 0b100


class BenchmarkResult:
    """Times of repeated runs, in seconds.

    Parameters
    ----------
    results
        Mean seconds of a run, one value per repeat.
    """

    def __init__(self, results: Any) -> None:
        self.results = tuple(float(seconds) for seconds in results)

    @property
    def mean(self) -> float:
        """Arithmetic mean."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """Median."""
        return float(np.median(self.results))

    @property
    def min(self) -> float:
        """Smallest value, from the least disturbed repeat."""
        return min(self.results)

    @property
    def max(self) -> float:
        """Largest value."""
        return max(self.results)

    @property
    def std(self) -> float:
        """Standard deviation."""
        return float(np.std(self.results))

    def __repr__(self) -> str:
        return (
            f"BenchmarkResult(min={self.min}, mean={self.mean}, median={self.median}, "
            f"max={self.max}, std={self.std}, results={self.results})"
        )

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = "".join(f"{name + ' (ms)':^14}" for name in names)
        row = "".join(f"{getattr(self, name) * 1000:^14.4f}" for name in names)
        return f"Execution time summary:\n{head}\n{row}"


class Module(_core.Module):
    """A set of packed functions and the modules that it imports.

    ``module["name"]`` is a function; ``module(...)`` calls the entry function. Functions keep their
    module alive. Look-ups are thread-safe; import_module() is not.
    """

    entry_name = "__tvm_main__"

    def __init__(self) -> None:
        raise TypeError("modules come from load_module(), system_lib() and packed functions")

    # ---- functions ----

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunc:
        """Return a function of the module.

        Parameters
        ----------
        name
            Its name.
        query_imports
            Whether to search the imported modules too.

        Raises
        ------
        AttributeError
            If there is no such function.
        """
        function = self._find(name, query_imports)
        if function is None:
            raise AttributeError(f"{self!r} has no function '{name}'")
        return function

    def _find(self, name: str, query_imports: bool) -> PackedFunc | None:
        out = ffi.new("TVMFunctionHandle*")
        check(lib.TVMModGetFunction(self._pointer(), encode(name), int(query_imports), out))
        function = function_from_handle(address(out[0]))
        release = self.__dict__.get("_release_gil")
        if release is not None and function is not None:
            function.release_gil = release
        return function

    @property
    def release_gil(self) -> bool:
        """Whether other Python threads may run during calls of the module and of functions returned
        from now on; see ``PackedFunc.release_gil``. True by default."""
        return self.__dict__.get("_release_gil", True)

    @release_gil.setter
    def release_gil(self, release: bool) -> None:
        self.__dict__["_release_gil"] = bool(release)
        self.__dict__.pop("_entry", None)

    def _pointer(self) -> ffi.CData:
        return pointer(self.handle)

    def implements_function(self, func_name: str, query_imports: bool = False) -> bool:
        """Return whether a function of this name exists."""
        return self._find(func_name, query_imports) is not None

    def __getitem__(self, name: str) -> PackedFunc:
        if not isinstance(name, str):
            raise ValueError(f"the name of a function must be a str, not {name!r}")
        return self.get_function(name)

    @property
    def entry_func(self) -> PackedFunc:
        """The function that calling the module executes."""
        entry = self.__dict__.get("_entry")
        if entry is None:
            entry = self.__dict__["_entry"] = self.get_function(self.entry_name)
        return entry

    def __call__(self, *args: Any) -> Any:
        return self.entry_func(*args)

    # ---- properties ----

    @property
    def type_key(self) -> str:
        """The kind of the module, such as ``library`` or ``GraphExecutorFactory``."""
        return get_global_func("runtime.ModuleGetTypeKey")(self)

    @property
    def format(self) -> str:
        """The format of the module's source or file, such as ``c`` or ``so``; may be empty."""
        return get_global_func("runtime.ModuleGetFormat")(self)

    @property
    def level(self) -> str:
        """The ISA level of the code that a library uses, such as ``v3``; empty if the library has a
        single ISA variant."""
        get_level = self._find("get_level", True)
        if get_level is None:
            return ""
        return ffi.string(ffi.cast("const char*", get_level().value)).decode()

    def get_source(self, fmt: str = "") -> str:
        """Return the source text in a format; empty if there is none."""
        return get_global_func("runtime.ModuleGetSource")(self, fmt)

    def metadata(self, network: str = "") -> ModelMetadata:
        """Return the functions of a compiled network: their parameters and memory.

        Parameters
        ----------
        network
            Name of one of several networks in the library.

        Raises
        ------
        ValueError
            If the module has no metadata, or is on another machine.
        """
        if self.type_key == "rpc":
            raise ValueError(f"{self!r} is on another machine; load its library here")
        if network:
            name = f"tvmgen_{network}_get_model_metadata"
            if not self.implements_function(name, query_imports=True):
                raise NameNotFoundError(
                    f"{self!r} has no metadata of a network '{network}'; tvmrt inspect lists the "
                    "functions of a library"
                )
            return read(self.get_function(name, query_imports=True)().value)
        # derives the struct for libraries of other compilers, which have only the classic one
        reader = get_global_func("runtime.MetadataModuleCreate")()
        reader.import_module(self)
        return read(reader["get_model_metadata"]().value)

    def get_property_mask(self) -> int:
        """Return the bits of ModulePropertyMask that are set."""
        return get_global_func("runtime.ModuleGetPropertyMask")(self)

    @property
    def is_binary_serializable(self) -> bool:
        """Whether a library can embed the module as bytes."""
        return bool(self.get_property_mask() & ModulePropertyMask.BINARY_SERIALIZABLE)

    @property
    def is_runnable(self) -> bool:
        """Whether its functions can be called."""
        return bool(self.get_property_mask() & ModulePropertyMask.RUNNABLE)

    @property
    def is_dso_exportable(self) -> bool:
        """Whether export compiles the module into a library as machine code."""
        return bool(self.get_property_mask() & ModulePropertyMask.DSO_EXPORTABLE)

    # ---- imports and files ----

    @property
    def imported_modules(self) -> list[Module]:
        """The modules that it imports."""
        count = get_global_func("runtime.ModuleImportsSize")(self)
        get = get_global_func("runtime.ModuleGetImport")
        return [get(self, i) for i in range(count)]

    def import_module(self, module: Module) -> None:
        """Add a module to the imports, where generated code finds its functions.

        Raises
        ------
        ValueError
            If the imports would form a cycle.
        """
        if not isinstance(module, Module):
            raise TypeError(f"a Module is needed, not {type(module).__name__}")
        check(lib.TVMModImport(self._pointer(), module._pointer()))

    def clear_imports(self) -> None:
        """Remove all imports."""
        get_global_func("runtime.ModuleClearImports")(self)

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:
        """Write the module to a file in the format of its kind."""
        get_global_func("runtime.ModuleSaveToFile")(self, os.fspath(file_name), fmt)

    # ---- measurements ----

    def time_evaluator(
        self,
        func_name: str,
        dev: Device,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Any:
        """Return a function that measures a function of the module.

        Parameters
        ----------
        func_name
            Name of the function to measure.
        dev
            The device that it runs on; measurements wait for it.
        number
            Runs per repeat; the result of a repeat is their mean time.
        repeat
            Number of repeats.
        min_repeat_ms
            Minimum duration of a repeat in milliseconds; `number` grows until it is reached.
        limit_zero_time_iterations
            Maximum number of times that `number` grows while the measured time is zero.
        cooldown_interval_ms
            Milliseconds to wait after every `repeats_to_cooldown` repeats.
        cache_flush_bytes
            Bytes to write before every repeat to flush the caches; 0 for none.
        f_preproc
            Global function to call with the arguments before every repeat; empty for none.

        Returns
        -------
        callable
            A function that runs the measured function and returns a BenchmarkResult.
        """
        if not self.implements_function(func_name, query_imports=True):
            raise NameNotFoundError(f"{self!r} has no function '{func_name}' to be measured")
        make = get_global_func("runtime.RPCTimeEvaluator")
        repeats = number, repeat, min_repeat_ms, limit_zero_time_iterations
        between = cooldown_interval_ms, repeats_to_cooldown, cache_flush_bytes, f_preproc
        evaluate = make(self, func_name, dev.device_type, dev.device_id, *repeats, *between)

        def evaluator(*args: Any) -> BenchmarkResult:
            """Measure the function with these arguments."""
            return BenchmarkResult(np.frombuffer(evaluate(*args), dtype=np.float64))

        return evaluator

    # ---- identity and pickling ----

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Module) and self.handle == other.handle

    def __hash__(self) -> int:
        return hash(self.handle)

    def __repr__(self) -> str:
        return f"Module({self.type_key}, {self.handle:x})"

    def __reduce__(self) -> tuple[Any, ...]:
        origin = self.__dict__.get("_origin")
        if origin is None:
            raise TypeError(
                f"{self!r} cannot be pickled: it was not loaded from a file; pickle the module "
                "that load_module() returned and create this one from it after unpickling"
            )
        return origin.reduce()

    def hold_file(self) -> None:
        """Keep the file that the module was loaded from open, so that it can be deleted at once and
        the module still pickled."""
        self.__dict__["_origin"].hold()


class _SystemLibrary:
    """The origin of a module that is linked into the program."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix

    def reduce(self) -> tuple[Any, ...]:
        return system_lib, (self.prefix,)


class _File:
    """The origin of a module loaded from a file; it is pickled as the bytes of the file."""

    def __init__(self, path: str, fmt: str) -> None:
        self.path, self.fmt, self.state = os.path.realpath(path), fmt, _file_state(path)
        self.held: int | None = None

    def hold(self) -> None:
        self.held = os.open(self.path, os.O_RDONLY)
        weakref.finalize(self, os.close, self.held)

    def reduce(self) -> tuple[Any, ...]:
        try:
            with open(self.path if self.held is None else os.dup(self.held), "rb") as file:
                state = _file_state(file.fileno())
                data = _read_from_start(file.fileno(), state[1])
        except OSError as error:
            raise OSError(f"the module cannot be pickled: {self.path}: {error.strerror}") from None
        if state != self.state:
            raise OSError(f"the module cannot be pickled: {self.path} changed since it was loaded")
        return _load_from_bytes, (data, os.path.basename(self.path), self.fmt)


def _read_from_start(file: int, size: int) -> bytes:
    """Read without the file's position, which other threads and forked processes share."""
    parts: list[bytes] = []
    done = 0
    while done < size and (part := os.pread(file, size - done, done)):
        parts.append(part)
        done += len(part)
    return b"".join(parts)


def _file_state(path: str | int) -> tuple[int, int, int]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns


def _load_from_bytes(data: bytes, name: str, fmt: str) -> Module:
    """Load a module from the bytes of its file; called when unpickling."""
    return _load_written(lambda folder: Path(folder, name).write_bytes(data), name, fmt)


def _load_written(write: Callable[[str], object], name: str, fmt: str) -> Module:
    """Load a module from the file ``name`` that a function writes to a folder."""
    # Deleted at once, since workers that were forked end without finalizers.
    with tempfile.TemporaryDirectory(prefix="tvmrt-") as folder:
        write(folder)
        module = load_module(os.path.join(folder, name), fmt)
        module.hold_file()
    return module


LOADER = "runtime.module.loadfile_"


def load_module(path: str | os.PathLike[str], fmt: str = "") -> Module:
    """Load a module from a file.

    Parameters
    ----------
    path
        A shared library, or a file whose suffix has a registered loader
        ``runtime.module.loadfile_<suffix>``. An object file (``.o``), or an archive of objects and
        C sources (``.tar``), is first linked to ``<path>.so`` by the C compiler. A package of
        ``tvmc compile`` (``.tar`` of mod.so, mod.json and mod.params) becomes a graph executor
        factory: ``module["default"](device)`` creates an executor.
    fmt
        The format, if the suffix does not determine it.

    Raises
    ------
    OSError
        If the file cannot be read.
    TVMError
        If the file is damaged or its format has no loader.
    ValueError
        If the file is a network that is not compiled.
    """
    path = os.fsdecode(encode(path))
    if os.path.isdir(path):
        raise IsADirectoryError(f"{path} is a folder; give the library in it, or compile a network")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"there is no file {path} to load a module from; check the path")
    if suffix_of(path) == ".tar":
        from tvmrt.runtime.package import is_package, load_package

        if is_package(path):
            module = load_package(path, load_module)
            module.__dict__["_origin"] = _File(path, fmt)
            return module
    if (link := linker_of(path)) is not None:
        return _load_written(partial(link, path), "network.so", "")
    if suffix_of(path) in (".o", ".tar"):
        from tvmrt.runtime.link import link_shared

        path, fmt = link_shared(path), "so"
    suffix = suffix_of(path)
    if is_network(path) and get_global_func(f"{LOADER}{suffix[1:]}", True) is None and not fmt:
        raise ValueError(f"{path} is not compiled; tvmrt.load compiles it and returns a function")
    if not path.endswith(suffix) and not fmt:  # the runtime distinguishes cases
        fmt = suffix[1:]
    # called as a packed function, so exceptions of Python loaders propagate unchanged
    module = get_global_func("runtime.ModuleLoadFromFile")(path, fmt)
    module.__dict__["_origin"] = _File(path, fmt)
    return module


def system_lib(symbol_prefix: str = "") -> Module:
    """Return the module of the functions that are linked into the program itself.

    Parameters
    ----------
    symbol_prefix
        Prefix of the symbols of one of several system libraries.
    """
    module = get_global_func("runtime.SystemLib")(symbol_prefix)
    module.__dict__["_origin"] = _SystemLibrary(symbol_prefix)
    return module


def enabled(target: str) -> bool:
    """Return whether modules for a target can run here."""
    return bool(get_global_func("runtime.RuntimeEnabled")(target))


def num_threads() -> int:
    """Return the number of threads in the runtime's thread pool."""
    return get_global_func("runtime.NumThreads")()

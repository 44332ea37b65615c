"""Loaded libraries that contain a network, and their executors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmrt import conversion
from tvmrt.connection import advice_for_file
from tvmrt.error import NameNotFoundError, TVMError
from tvmrt.file_suffix import suffix_of
from tvmrt.git_lfs import check_is_no_pointer
from tvmrt.plugin import is_network, linker_of, network_suffixes
from tvmrt.runtime import Module, cpu, get_global_func, load_module
from tvmrt.runtime.executor.aot_executor import AotModule
from tvmrt.runtime.executor.base import Executor
from tvmrt.runtime.executor.graph_executor import GraphModule
from tvmrt.runtime.package import has_sources

_LIBRARIES = (".so", ".dylib", ".dll", ".o", ".tar")
_LOADER = "runtime.module.loadfile_"  # before the suffix: name of the function that loads a file

EXECUTORS: Mapping[str, type[Executor]] = {
    "GraphExecutorFactory": GraphModule,
    "AotExecutorFactory": AotModule,
}


@dataclass(frozen=True)
class LoadedLibrary:
    """A loaded library."""

    module: Module
    create: Callable[[], Executor]
    threads: int | None = None  # of an operator, at most; None: as many as the process may use

    def make(self) -> Executor:
        """Return a new executor; all share only the weights."""
        executor = self.create()
        if self.threads is not None:
            executor.set_num_threads(self.threads)
        return executor

    def facts(self) -> dict[str, Any]:
        """Return what the library states about its network: ``columns``, the names of the columns
        of tables; ``carried``, outputs by the input that has their value in the next run;
        ``in_place``, those of the inputs that may share the output's memory."""
        try:
            text: str = self.module.get_function("get_facts", True)()
        except (AttributeError, TVMError):
            return {}
        facts: dict[str, Any] = json.loads(text)
        return facts

    def keeps_state(self) -> bool:
        """Return whether an executor keeps state between its runs."""
        try:
            self.module.get_function("get_state", True)
        except (AttributeError, TVMError):
            return False
        return True


def open_library(path: str | os.PathLike[str]) -> LoadedLibrary:
    """Load a library, or a package of ``tvmc compile``, that contains one network.

    Raises
    ------
    OSError
        If the file does not exist or the system cannot load it.
    ValueError
        If the network is not compiled, or the file contains none.
    TVMError
        If the file is damaged.
    """
    file = Path(path)
    check_compiled(file)
    return open_module(load_module(file), str(file))


def check_compiled(file: Path) -> None:
    """Raise ValueError, with the file name, for a network that is not compiled."""
    check_is_no_pointer(file)
    if is_network(file):
        raise ValueError(
            f"{file} is not compiled; run 'tvmrt compile {file} -o net.so', then use net.so"
        )
    if (advice := conversion.advice_for_file(file)) is not None:
        raise ValueError(advice)
    suffix = suffix_of(file)
    if suffix == ".elf":
        raise ValueError(f"{file} is an image for a board{advice_for_file(suffix)}")
    if suffix == ".tar" and has_sources(file):
        raise ValueError(
            f"{file} is an archive of C sources for a program; compile the network to a .so file "
            "to run it here"
        )
    is_library = suffix in _LIBRARIES or linker_of(file)
    is_library = is_library or get_global_func(f"{_LOADER}{suffix[1:]}", True)
    if file.is_file() and not is_library:
        raise ValueError(
            f"{file} is neither a network ({', '.join(network_suffixes())}) nor a compiled library "
            "(.so, .tar); give one of these"
        )


def open_module(module: Module, name: str) -> LoadedLibrary:
    """Return the network of a module loaded from ``name``. Raises ValueError if it has none."""
    kind = EXECUTORS.get(module.type_key)
    names = _names(module) if kind else []
    if kind is None or not names:
        raise ValueError(
            f"{name} contains functions but no network; 'tvmrt inspect' lists its contents"
        )
    make_module = module[names[0]]
    return LoadedLibrary(module, lambda: kind(make_module(cpu(0))))


def _names(module: Module) -> list[str]:
    try:
        return [str(name) for name in module["list_module_names"]()]
    except (NameNotFoundError, AttributeError):  # packages of tvmc
        return ["default"]


def unique_output_names(executor: Executor) -> list[str]:
    """Return the unique names of the outputs, in order.

    Graph executors name outputs ``name:index``; the index is removed if the name is unique.
    """
    count = executor.get_num_outputs()
    full = [str(executor.module["get_output_name"](i)) for i in range(count)]
    if not isinstance(executor, GraphModule):
        return full
    short = [name.removesuffix(f":{i}") for i, name in enumerate(full)]
    names: Sequence[str] = [s if short.count(s) == 1 else f for s, f in zip(short, full)]
    return list(names) if len(set(names)) == count else full


def format_shape(shape: Sequence[Any]) -> str:
    """Format a shape: ``1 x 3 x H``."""
    return " x ".join(str(extent) for extent in shape) or "scalar"

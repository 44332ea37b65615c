"""Libraries that hold a network, and the executors that they make."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tvmrt.connection import advice_for_file
from tvmrt.error import NameNotFoundError, TVMError
from tvmrt.plugin import is_network
from tvmrt.runtime import Module, cpu, load_module
from tvmrt.runtime.executor.aot_executor import AotModule
from tvmrt.runtime.executor.base import Executor
from tvmrt.runtime.executor.graph_executor import GraphModule

EXECUTORS: Mapping[str, type[Executor]] = {
    "GraphExecutorFactory": GraphModule,
    "AotExecutorFactory": AotModule,
}


@dataclass(frozen=True)
class Opened:
    """A library in this process; ``make`` gives executors that share nothing but the weights."""

    module: Module
    make: Callable[[], Executor]

    def keeps_state(self) -> bool:
        """Whether a run finds what the last one of its executor left."""
        try:
            self.module.get_function("get_state", True)
        except (AttributeError, TVMError):
            return False
        return True


def open_library(path: str | os.PathLike[str]) -> Opened:
    """Load a library, or a package of ``tvmc compile``, that holds one network.

    Raises
    ------
    OSError
        If there is no such file, or the system cannot load it.
    ValueError
        If it is a network that is not compiled, or holds none.
    TVMError
        If it is damaged.
    """
    file = Path(path)
    check_compiled(file)
    return open_module(load_module(file), str(file))


def check_compiled(file: Path) -> None:
    """Raise ValueError for a network that is still to be compiled, by its name."""
    if is_network(file):
        raise ValueError(
            f"{file} is not compiled; run 'tvmrt compile {file} -o net.so', then use net.so"
        )
    if file.suffix == ".elf":
        raise ValueError(f"{file} is an image for a board{advice_for_file(file.suffix)}")


def open_module(module: Module, name: str) -> Opened:
    """The network of a module that was loaded from ``name``. Raises ValueError if it has none."""
    kind = EXECUTORS.get(module.type_key)
    names = _names(module) if kind else []
    if kind is None or not names:
        raise ValueError(
            f"{name} contains functions but no network; 'tvmrt inspect' lists its contents"
        )
    make_module = module[names[0]]
    return Opened(module, lambda: kind(make_module(cpu(0))))


def _names(module: Module) -> list[str]:
    try:
        return [str(name) for name in module["list_module_names"]()]
    except (NameNotFoundError, AttributeError):  # packages of tvmc
        return ["default"]


def names_of_outputs(executor: Executor) -> list[str]:
    """Return the names of the outputs in their order, each different from the others.

    Graph executors say ``name:position``; the position is left out where the name alone tells.
    """
    count = executor.get_num_outputs()
    full = [str(executor.module["get_output_name"](i)) for i in range(count)]
    if not isinstance(executor, GraphModule):
        return full
    short = [name.removesuffix(f":{i}") for i, name in enumerate(full)]
    names: Sequence[str] = [s if short.count(s) == 1 else f for s, f in zip(short, full)]
    return list(names) if len(set(names)) == count else full


def shown(shape: Sequence[Any]) -> str:
    """A shape in words: ``1 x 3 x H``."""
    return " x ".join(str(extent) for extent in shape) or "scalar"

"""Operators from Python files, and from shared libraries with declarations in C."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Union

from tvmrt.file_suffix import suffix_of

from .catalogue import Catalogue, flatten
from .operator import Operator
from .plugin import load_library

OperatorSource = Union[str, "os.PathLike[str]", Operator, Catalogue]


def load_operators(path: str | os.PathLike[str]) -> list[Operator]:
    """Return the operators of a Python file (its global variables) or a shared library.

    Raises OSError when the file does not exist, ValueError when it has no operators, ImportError
    when it cannot be loaded.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: the operator file does not exist")
    operators = _from_python(path) if suffix_of(path) == ".py" else load_library(path)
    for operator in operators:
        operator.reloaded = (_reload, (str(path.resolve()), operator.name, operator.version))
    return operators


def _reload(file: str, name: str, version: int) -> Operator:
    """Return an operator of a file; called for unpickling."""
    for operator in load_operators(file):
        if (operator.name, operator.version) == (name, version):
            return operator
    raise ValueError(f"{file} no longer declares operator {name}, version {version}")


def _from_python(path: Path) -> list[Operator]:
    operators = [v for v in vars(_import_file(path)).values() if isinstance(v, Operator)]
    if not operators:
        raise ValueError(
            f"{path} declares no operator at its top level; use tvmrt.custom.Kernel or composed"
        )
    return list(dict.fromkeys(operators))


def _import_file(path: Path) -> ModuleType:
    """Import the module of a file, once per process, under a name that pickles can find."""
    name = path.stem
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) == str(path.resolve()):
        return loaded
    if loaded is not None:
        name = f"tvmrt_operators_{abs(hash(str(path.resolve()))):x}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} cannot be loaded: not a Python module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as problem:
        del sys.modules[name]
        raise ImportError(
            f"{path} cannot be loaded ({type(problem).__name__}: {problem})"
        ) from problem
    return module


def gather(operators: Iterable[Any] | Operator | str | os.PathLike[str] | None) -> Catalogue:
    """Return a catalogue of the listed and of all installed operators. The list may have operators,
    files and libraries; a single one needs no list."""
    if isinstance(operators, Catalogue):
        return operators
    listed: Iterable[Any]
    if operators is None or isinstance(operators, (str, os.PathLike, Operator)):
        listed = () if operators is None else [operators]
    else:
        listed = operators
    explicit: list[Operator] = []
    for item in listed:
        if isinstance(item, (str, os.PathLike)):
            explicit += load_operators(item)
        else:
            explicit += flatten(item)
    return Catalogue(dict.fromkeys(explicit), installed=True)

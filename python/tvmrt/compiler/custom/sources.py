"""Operators from Python files."""

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

OperatorSource = Union[str, "os.PathLike[str]", Operator, Catalogue]


def load_operators(path: str | os.PathLike[str]) -> list[Operator]:
    """Return the operators of a Python file: its global variables.

    Raises OSError when the file does not exist, ValueError when it has no operators, ImportError
    when it cannot be loaded.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: the operator file does not exist")
    if suffix_of(path) != ".py":
        raise ValueError(f"{path}: operators are declared in a Python file; give a .py file")
    operators = [v for v in vars(_import_file(path)).values() if isinstance(v, Operator)]
    operators = list(dict.fromkeys(operators))
    if not operators:
        raise ValueError(
            f"{path} declares no operator at its top level; use tvmrt.custom.Kernel or composed"
        )
    return operators


def _import_file(path: Path) -> ModuleType:
    """Import the module of a file, once per process."""
    name = f"tvmrt_operators_{abs(hash(str(path.resolve()))):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None and spec.loader is not None  # of a file whose name ends in .py
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
    """Return a catalogue of the listed and of all installed operators. The list may have operators
    and files; a single one needs no list."""
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

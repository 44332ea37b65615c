"""Catalogue of operators by name: given ones, those of Python files and of installed wheels."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any, Union

from tvmrt.compiler.operator_key import domain_of
from tvmrt.entry_points import entry_points
from tvmrt.file_suffix import suffix_of

from .operator import Operator

ENTRY_POINTS = "tvmrt.operators"


class Catalogue:
    """Operators by domain and name.

    A duplicate is a ValueError, as is an operator that overrides an unknown one of ONNX. With
    ``installed``, the operators of installed wheels are added when a name in a domain other than
    ONNX's is not known. So an installed wheel adds names, but does not change networks that do not
    use it.
    """

    def __init__(self, operators: Iterable[Operator] = (), installed: bool = False) -> None:
        self._operators: dict[tuple[str, str], Operator] = {}
        self._look_further = installed
        for operator in operators:
            self.enter(operator)

    def enter(self, operator: Operator) -> None:
        """Add one operator."""
        if not isinstance(operator, Operator):
            raise TypeError(
                f"{operator!r} is not an operator; create one with tvmrt.custom.Kernel or composed"
            )
        if operator.overrides:
            _check_override(operator)
        key = (operator.domain, operator.op_type)
        if self._operators.setdefault(key, operator) is not operator:
            raise ValueError(f"operator {operator.name} is declared twice; rename one")

    def find(self, domain: str, op_type: str, version: int) -> Operator | None:
        """Return the operator for a network's version of the domain; None if there is none.

        One of a later version is an error, except in ONNX's domain: the built-in operator is used.
        """
        key = (domain_of(domain), op_type)
        if key not in self._operators and self._look_further and domain_of(domain):
            self._enter_installed()
        operator = self._operators.get(key)
        if operator is None or operator.version <= version:
            return operator
        if domain_of(domain):
            raise ValueError(
                f"{operator.name} is declared from version {operator.version} of its domain on, "
                f"but the network uses version {version}; declare it from that version on"
            )
        return None

    def _enter_installed(self) -> None:
        """Add the operators of wheels; operators that were given explicitly take precedence."""
        self._look_further = False
        explicit = set(self._operators)
        for operator in installed_operators():
            if not operator.overrides and (operator.domain, operator.op_type) not in explicit:
                self.enter(operator)


def _check_override(operator: Operator) -> None:
    from tvmrt.compiler.frontend.onnx.registry import find

    if find("", operator.op_type) is None:
        raise ValueError(
            f"operator {operator.name} overrides {operator.op_type}, which is not a built-in "
            "operator; give it a domain of its own, or correct the name"
        )


def installed_operators() -> list[Operator]:
    """Return the operators of installed wheels: the entry points of the group "tvmrt.operators".

    Each refers to an operator or a list of them. Raises ImportError naming an entry point that
    cannot be loaded.
    """
    operators: list[Operator] = []
    for entry in entry_points(ENTRY_POINTS):
        try:
            operators += _as_list(entry.load())
        except Exception as problem:
            raise ImportError(
                f"entry point {entry.name} ({entry.value}) of group {ENTRY_POINTS} cannot be "
                f"loaded ({type(problem).__name__}: {problem}); repair or uninstall its package"
            ) from problem
    return list(dict.fromkeys(operators))


OperatorSource = Union[str, "os.PathLike[str]", Operator, Catalogue]


def gather(operators: Iterable[Any] | Operator | str | os.PathLike[str] | None) -> Catalogue:
    """Return a catalogue of the listed and of all installed operators. The list may have operators
    and files; a single one needs no list."""
    if isinstance(operators, Catalogue):
        return operators
    explicit: list[Operator] = []
    for item in _as_list(() if operators is None else operators):
        explicit += load_operators(item) if isinstance(item, (str, os.PathLike)) else _as_list(item)
    return Catalogue(dict.fromkeys(explicit), installed=True)


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


def _as_list(item: Any) -> list[Any]:
    """Return one item or several as a list."""
    is_one = isinstance(item, (str, os.PathLike)) or not isinstance(item, Iterable)
    return [item] if is_one else list(item)

"""Catalogue of operators by name, including those of installed wheels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvmrt.compiler.operator_key import domain_of
from tvmrt.entry_points import entry_points

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
            operators += flatten(entry.load())
        except Exception as problem:
            raise ImportError(
                f"entry point {entry.name} ({entry.value}) of group {ENTRY_POINTS} cannot be "
                f"loaded ({type(problem).__name__}: {problem}); repair or uninstall its package"
            ) from problem
    return list(dict.fromkeys(operators))


def flatten(item: Any) -> list[Operator]:
    """Return one operator or several as a list."""
    return list(item) if isinstance(item, (list, tuple)) else [item]

"""Catalogue of operators by name and version, including those of installed wheels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from tvmrt.compiler.operator_key import domain_of
from tvmrt.entry_points import entry_points

from .operator import Operator

ENTRY_POINTS = "tvmrt.operators"


class Catalogue:
    """Operators by (domain, name, version).

    A duplicate is a ValueError, as is an operator that overrides an unknown one of ONNX. With
    ``installed``, the operators of installed wheels are added when a name in a domain other than
    ONNX's is not known. So an installed wheel adds names, but does not change networks that do not
    use it.
    """

    def __init__(self, operators: Iterable[Operator] = (), installed: bool = False) -> None:
        self._versions: dict[tuple[str, str], dict[int, Operator]] = {}
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
        versions = self._versions.setdefault((operator.domain, operator.op_type), {})
        existing = versions.setdefault(operator.version, operator)
        if existing is not operator:
            raise ValueError(
                f"operator {operator.name}, version {operator.version}, is declared twice: in "
                f"{existing.home} and in {operator.home}; rename one or raise its version"
            )

    def find(self, domain: str, op_type: str, version: int) -> Operator | None:
        """Return the newest operator up to the network's version of the domain.

        If all are newer, return None for ONNX's domain, so that the built-in operator is used;
        otherwise raise ValueError.
        """
        key = (domain_of(domain), op_type)
        if key not in self._versions and self._look_further and domain_of(domain):
            self._enter_installed()
        versions = self._versions.get(key)
        if not versions:
            return None
        fitting = [v for v in versions if v <= version]
        if not fitting and not domain_of(domain):
            return None
        if not fitting:
            raise ValueError(
                f"{domain}::{op_type} is declared from version {min(versions)} of its domain on, "
                f"but the network uses version {version}; declare that version too"
            )
        return versions[max(fitting)]

    def _enter_installed(self) -> None:
        """Add the operators of wheels; operators that were given explicitly take precedence."""
        self._look_further = False
        explicit = set(self._versions)
        for operator in installed_operators():
            if not operator.overrides and (operator.domain, operator.op_type) not in explicit:
                self.enter(operator)

    def __iter__(self) -> Iterator[Operator]:
        for versions in self._versions.values():
            yield from versions.values()


def _check_override(operator: Operator) -> None:
    from tvmrt.compiler.frontend.onnx.registry import find

    if find("", operator.op_type) is None:
        raise ValueError(
            f"operator {operator.name} overrides {operator.op_type}, which is not a built-in "
            "operator; give it a domain of its own, or correct the name"
        )


def installed_operators() -> list[Operator]:
    """Return the operators of installed wheels: the entry points of the group "tvmrt.operators".

    Each refers to an operator, a list of them, or a function without parameters that returns one.
    Raises ImportError naming an entry point that cannot be loaded.
    """
    operators: list[Operator] = []
    for entry in entry_points(ENTRY_POINTS):
        try:
            target = entry.load()
            operators += flatten(target() if _is_factory(target) else target)
        except Exception as problem:
            raise ImportError(
                f"entry point {entry.name} ({entry.value}) of group {ENTRY_POINTS} cannot be "
                f"loaded ({type(problem).__name__}: {problem}); repair or uninstall its package"
            ) from problem
    return list(dict.fromkeys(operators))


def _is_factory(target: Any) -> bool:
    return callable(target) and not isinstance(target, Operator)


def flatten(item: Any) -> list[Operator]:
    """Return one operator or several as a list."""
    return list(item) if isinstance(item, (list, tuple)) else [item]

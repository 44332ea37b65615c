"""Contract of one operator: parsed once, then checked for each application."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..tensor_type import TensorType
from .attributes import Attribute
from .element_types import Elements, ResultElements
from .extent_formula import ContractError, size_problem
from .rules import Rule, value_text
from .shapes import Shape

_OPERAND = re.compile(
    r"(?P<name>[a-z_][a-z_0-9]*)(?P<mark>[?+*]?): (?P<constant>constant )?(?P<types>\S+?)"
    r"\[(?P<shape>[^\]]*)\]"
)


class Operand:
    """Contract of one operand or result. Raises ValueError when the line cannot be read."""

    def __init__(self, line: str, attributes: frozenset[str] | None = None) -> None:
        match = _OPERAND.fullmatch(line)
        if match is None:
            raise ValueError(f"operand {line!r} is not of the form 'name: types[extents]'")
        self.line = line
        self.name: str = match["name"]
        self.mark: str = match["mark"]
        self.optional = match["mark"] in ("?", "*")
        self.repeated = match["mark"] in ("+", "*")
        self.constant = bool(match["constant"])
        types = match["types"]
        self.elements = Elements(types) if attributes is None else ResultElements(types, attributes)
        self.shape = Shape(match["shape"])
        self.by = f"operand {self.name}"

    def bind(self, type: TensorType, bindings: dict[str, Any], origin: dict[str, str]) -> None:
        """Compare a type with the known values, and bind the extents and types that it names."""
        if not (
            self.elements.admits(type.dtype, bindings, origin, self.by)
            and self.shape.bind(type.shape, bindings, origin, self.by)
        ):
            raise self._mismatch_error(type, bindings, origin)

    def check_formulas(
        self, type: TensorType, bindings: Mapping[str, Any], origin: Mapping[str, str]
    ) -> None:
        """Compare the extents that are formulas, after all operands are bound."""
        try:
            fits = self.shape.formulas_match(type.shape, bindings)
        except ContractError as problem:
            raise ContractError(f"{self.by} is {type}, expected {self.text}: {problem}") from None
        if not fits:
            raise self._mismatch_error(type, bindings, origin)

    @property
    def text(self) -> str:
        return f"{self.elements.text}{self.shape}"

    def _mismatch_error(
        self, type: TensorType, bindings: Mapping, origin: Mapping
    ) -> ContractError:
        letter = self.elements.letter
        if not self.repeated:
            # names that this operand itself has bound explain nothing
            bindings = {k: v for k, v in bindings.items() if origin.get(k) != self.by}
        element, values = self.elements.expected(bindings), self.shape.values_text(bindings)
        names = [letter, *sorted(self.shape.names)] if letter else sorted(self.shape.names)
        reasons = ", ".join(
            f"{name} = {value_text(bindings[name])} by {origin[name]}"
            for name in names
            if name in origin and bindings.get(name) is not None
        )
        message = f"{self.by} is {type}, expected {element}{self.shape}"
        return ContractError(
            f"{message}{f' = {values}' if values else ''}{f' ({reasons})' if reasons else ''}"
        )


def _lines(text: str) -> list[str]:
    """Return the non-empty parts between commas."""
    return [line for line in map(str.strip, text.split(",")) if line]


class Contract:
    """Operands, results, attributes and rules of an operator; the head of the package has the
    notation.

    ``example`` gives extents and attributes of a valid application if the default values of
    tests are not valid: ``{"C": 4, "groups": 2}``. Raises ValueError when a line cannot be read
    or uses an undefined name.
    """

    def __init__(
        self,
        signature: str = "",
        attributes: str = "",
        rules: Sequence[Rule] = (),
        example: Mapping[str, Any] | None = None,
    ) -> None:
        operands, _, results = signature.partition("->")
        self.operands = [Operand(line) for line in _lines(operands)]
        self.attributes = {a.name: a for a in map(Attribute, _lines(attributes))}
        self.results = [Operand(line, frozenset(self.attributes)) for line in _lines(results)]
        self.rules = tuple(rules)
        self.example = dict(example or {})
        self.min_count = sum(not o.optional for o in self.operands)
        self.repeated = bool(self.operands) and self.operands[-1].repeated
        self._data = {n for rule in rules for n in rule.reads if n.endswith("_data")}
        self._check_names()

    def _check_names(self) -> None:
        names = [o.name for o in self.operands] + list(self.attributes)
        if len(set(names)) != len(names):
            raise ValueError(f"a name is given twice: {', '.join(names)}")
        defined = set(names) | {f"{o.name}_data" for o in self.operands}
        for operand in self.operands:
            defined |= operand.shape.symbols | ({operand.elements.letter} - {None})
        defined |= {rule.name for rule in self.rules if rule.name}
        used = {n for o in (*self.operands, *self.results) for n in o.shape.names}
        used |= {n for rule in self.rules for n in rule.reads}
        used |= {n for a in self.attributes.values() for n in (a.of, a.like) if n}
        if used - defined:
            raise ValueError(f"{', '.join(sorted(used - defined))} is not defined by any operand")

    def bind(
        self,
        types: Sequence[TensorType | None],
        attrs: Mapping[str, Any],
        data: Sequence[np.ndarray | None] | None = None,
        open: bool = False,
    ) -> dict[str, Any]:
        """Check one application and return the values of all names of the contract.

        ``data``: the elements of constant operands, None for others; without it elements are not
        checked. ``open``: attributes may be missing, and others may be present. Raises
        ``ContractError``.
        """
        bindings: dict[str, Any] = {}
        origin: dict[str, str] = {}
        self._bind_attributes(attrs, bindings, origin, open)
        named_types = self._pair(types, bindings)
        for operand, type in named_types:
            operand.bind(type, bindings, origin)
        for operand, type in named_types:
            operand.check_formulas(type, bindings, origin)
        for attribute in self.attributes.values():
            value = bindings.get(attribute.name)
            if attribute.late and not (value is None and (attribute.optional or open)):
                attribute.check(value, bindings, origin)
        if data is not None:
            self._bind_data(data, bindings)
        self._apply_rules(bindings)
        return bindings

    def _apply_rules(self, bindings: dict[str, Any]) -> None:
        """Apply the rules whose attributes are known; an open application may lack some."""
        missing = {n for n, a in self.attributes.items() if n not in bindings and not a.optional}
        for rule in self.rules:
            if not missing or missing.isdisjoint(rule.reads):
                rule.apply(bindings)
            elif rule.name is not None:
                missing.add(rule.name)

    def _bind_attributes(self, attrs, bindings: dict, origin: dict, open: bool) -> None:
        if not open and not attrs.keys() <= self.attributes.keys():
            name = next(iter(attrs.keys() - self.attributes.keys()))
            expected = ", ".join(self.attributes) or "no attributes"
            raise ContractError(f"unknown attribute {name}; expected {expected}")
        for name, attribute in self.attributes.items():
            if name not in attrs:
                if attribute.optional or open:
                    continue
                raise ContractError(
                    f"attribute {name} is missing; expected {attribute.expected({})}"
                )
            value = bindings[name] = attrs[name]
            origin[name] = f"attribute {name}"
            if not attribute.late and not (value is None and attribute.optional):
                attribute.check(value, bindings, origin)

    def _pair(self, types: Sequence[TensorType | None], bindings: dict) -> list:
        """Return the operands that are present, each with its type."""
        count, max_count = len(types), len(self.operands)
        if count < self.min_count or (count > max_count and not self.repeated):
            expected = (
                f"{self.min_count}"
                if self.min_count == max_count
                else f"{self.min_count} to {max_count}"
            )
            if self.repeated:
                expected = f"{self.min_count} or more"
            raise ContractError(f"{count} operands, expected {expected}: {self._names()}")
        pairs = []
        for i, operand in enumerate(self.operands):
            if operand.repeated:
                bindings[operand.name] = tuple(types[i:])
                pairs += [(operand, t) for t in types[i:]]
                break
            type = types[i] if i < count else None
            bindings[operand.name] = type
            pairs.append((operand, type))
        for operand, type in pairs:
            if type is None and not operand.optional:
                raise ContractError(f"{operand.by} is missing, expected {operand.text}")
        return [pair for pair in pairs if pair[1] is not None]

    def _names(self) -> str:
        return ", ".join(o.name + o.mark for o in self.operands)

    def _bind_data(self, data: Sequence[np.ndarray | None], bindings: dict) -> None:
        for i, operand in enumerate(self.operands[: len(data)]):
            arrays = data[i:] if operand.repeated else data[i : i + 1]
            if (
                operand.constant
                and bindings[operand.name] is not None
                and any(a is None for a in arrays)
            ):
                raise ContractError(f"{operand.by} is computed at run time, expected a constant")
            if f"{operand.name}_data" in self._data:
                bindings[f"{operand.name}_data"] = arrays if operand.repeated else arrays[0]

    def result_types(self, bindings: Mapping[str, Any]) -> list[TensorType] | None:
        """Return the types of the results from the values that ``bind`` returned; None if an open
        application lacks an attribute that they depend on."""
        types = []
        for result in self.results:
            try:
                shape = result.shape.extents(bindings)
            except KeyError:
                return None
            except ContractError as problem:
                raise ContractError(f"result {result.name}: {problem}") from None
            problem = size_problem(shape)
            type = TensorType(shape, result.elements.of_result(bindings))
            if problem is not None:
                raise ContractError(f"result {result.name} would be {type}; {problem}")
            types.append(type)
        return types

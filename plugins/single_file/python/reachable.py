"""Which items of a C text its roots need, directly or indirectly."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, product

from tvmrt.plugins.single_file.items import (
    CONDITIONALS,
    Item,
    Macro,
    Macros,
    declared_names,
    plain,
    split_outside,
    words,
)

_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_WORD = re.compile(r"[A-Za-z_]\w*")
_MAX_DEPTH = 12  # macros of macros
_MAX_FORMS = 64  # combinations of definitions
_MAX_ARGUMENT = 120  # characters; longer arguments are statements, which name no parts of names


def expand_calls(text: str, macros: Macros, depth: int = 0) -> str:
    """Return the texts of the calls of function-like macros in a text, with ``##`` applied.

    Names that macros join from parts become visible. The calls are appended to each other, for each
    definition of a macro; the result is not a C program.
    """
    if depth == _MAX_DEPTH:
        return ""
    texts = []
    for match in _CALL.finditer(text):
        arguments: list[str] | None = None
        for macro in macros.get(match.group(1), ()):
            if macro.parameters is None:
                continue
            arguments = arguments or _arguments(text, match.end())[0]
            for body in _bodies(macro, arguments, macros, depth):
                texts += [body, expand_calls(body, macros, depth + 1)]
    return "\n".join(texts)


def _arguments(text: str, start: int) -> tuple[list[str], int]:
    """Return the arguments of a call after its "(", and where the call ends."""
    call = next(split_outside(text, ")", start - 1))
    arguments = split_outside(f"{call[1:-1]},", ",")
    return [each[:-1].strip() for each in arguments], start - 1 + len(call)


def _bodies(macro: Macro, arguments: Sequence[str], macros: Macros, depth: int) -> Iterator[str]:
    """Yield a macro's body for arguments; those that are not pasted are expanded first, once for
    each combination of the definitions of the macros in them."""
    given = dict(zip(macro.parameters or (), arguments))
    if macro.parameters and macro.parameters[-1] == "__VA_ARGS__":
        given["__VA_ARGS__"] = ", ".join(arguments[len(macro.parameters) - 1 :])
    pasted = re.sub(
        r"\b\w+\b(?=\s*##)|(?<=##)\s*\b\w+\b",
        lambda m: given.get(m.group().strip(), m.group()),
        macro.body,
    )
    values = [_values(argument, macros, depth) for argument in given.values()]
    for combination in islice(product(*values), _MAX_FORMS):
        full = dict(zip(given, combination))
        yield re.sub(r"\s*##\s*", "", _replaced(pasted, full))


def _replaced(body: str, values: Mapping[str, str]) -> str:
    return _WORD.sub(lambda m: values.get(m.group(), m.group()), body)


def _values(argument: str, macros: Macros, depth: int) -> list[str]:
    """Return a short argument as its macros expand it: one text for each of their definitions."""
    first = next((m for m in _WORD.finditer(argument) if m.group() in macros), None)
    if first is None or len(argument) > _MAX_ARGUMENT or depth >= _MAX_DEPTH:
        return [argument]
    found: list[str] = []
    for macro in macros[first.group()]:
        if macro.parameters is None:
            bodies, end = [macro.body], first.end()
        elif argument[first.end() :].lstrip().startswith("("):
            inner, end = _arguments(argument, argument.index("(", first.end()) + 1)
            bodies = [*_bodies(macro, inner, macros, depth + 1)]
        else:
            continue
        rest = argument[: first.start()], argument[end:]
        for body in bodies:
            found += _values(f"{rest[0]}{body}{rest[1]}", macros, depth + 1)
    return list(dict.fromkeys(found))[:_MAX_FORMS] or [argument]


def needed(items: Sequence[Item], macros: Macros, roots: Iterable[str]) -> set[int]:
    """Return the positions of the items that the names in ``roots`` need.

    An item without a recognized name is kept if all names that it uses are kept.
    """
    _name_macro_calls(items, macros)
    by_name: defaultdict[str, list[int]] = defaultdict(list)
    for i, item in enumerate(items):
        for name in item.names:
            by_name[name].append(i)
    needed_items: set[int] = set()
    waiting = list(roots)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for i in by_name[name]:
            for j in (i, *items[i].conditions):
                if j not in needed_items:
                    needed_items.add(j)
                    waiting += _uses(items[j], macros)
    defined = {name for name in by_name if name in seen}
    needed_items |= {i for i, item in enumerate(items) if _is_checked(item, by_name, defined)}
    return needed_items | {j for i in needed_items for j in items[i].conditions}


def _uses(item: Item, macros: Macros) -> set[str]:
    if item.kind == "define":
        return item.uses
    return item.uses | words(expand_calls(plain(item.text), macros))


def _name_macro_calls(items: Sequence[Item], macros: Macros) -> None:
    """Name the items that call a macro to define functions or types."""
    for item in items:
        call = _CALL.match(item.text.lstrip()) if item.kind == "code" else None
        call = call or (_CALL.match(plain(item.text).strip()) if item.kind == "code" else None)
        if call is None or call.group(1) not in macros:
            continue
        names: set[str] = set()
        for piece in _definitions(expand_calls(plain(item.text), macros)):
            names |= declared_names(piece)
        item.names = names


def _definitions(text: str) -> list[str]:
    """Split an expanded text at the ends of its top-level definitions."""
    pieces = split_outside(text, ";}\n")
    # other pieces are parts of definitions, such as types
    return [each for each in pieces if each.strip(" ;\n\\") and each.rstrip().endswith((";", "}"))]


def _is_checked(item: Item, by_name: Mapping[str, list[int]], defined: set[str]) -> bool:
    """Return whether an item without a name, such as an assertion, concerns kept items only."""
    if item.kind == "undef":
        return bool(item.uses & defined)
    if item.names or item.kind in ("define", "comment", *CONDITIONALS):
        return False
    return all(name in defined for name in item.uses if name in by_name)

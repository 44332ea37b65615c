"""Loops over elements of a network's C as calls of functions of rows (row_functions.py).

A loop whose body computes each element from others at the same place becomes a loop over pieces of
256 elements, with one call for each operation; the results of a piece stay in the cache. What is
computed and how it is rounded stays the same; sums that may have any order get another one. Other
loops stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import row_functions as rows
from .expressions import NotCovered, Tree, parse

PIECE = 256
MAX_ROWS = 64  # of a piece, on the stack: at most 128 KiB
MIN_EXTENT = 8  # a shorter loop takes less time than the calls
_T = "float|double|u?int(?:8|16|32|64)_t|int"
_LOOP = re.compile(
    # whole blocks of the loop after them
    r"^(?P<blocks>[ ]*for \(; (?P<index>\w+) \+ \d+ <= [^;{}]+; (?P=index) \+= \d+\) \{\n"
    r"[^{}]*\{[^{}]*\}\n[ ]*\}\n)?"
    r"(?P<indent>[ ]*)for \((?:int (?P<name>\w+) = (?P<first>[^;{}]+))?; "
    r"(?P<variable>\w+) < (?P<last>[^;{}]+); \+\+(?P=variable)\) "
    r"(?:\{\n(?P<body>[^{}]*)\}|(?P<statement>[^{};]*;))",
    re.MULTILINE,
)
_FUNCTION = re.compile(
    rf"^static inline ({_T}) (\w+)\(([^(){{}}*]*)\) \{{\n([^{{}}]*)\n\}}", re.MULTILINE
)
_PARAMETER = re.compile(rf"(?:const )?({_T}) (\w+)")
_DECLARED = re.compile(
    rf"\b(?P<type>{_T})\s+(?P<pointer>\*\s*)?(?:(?:restrict|const)\s+)*(?P<name>\w+)\s*(?P<array>\[)?"
)
_ASSIGNED = re.compile(r"(?s)(.+?) ([|+])?= *(.+)")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True)
class _Value:
    """The value of an expression: its C type, and the C of a row or of a number for all
    elements."""

    type: str
    text: str
    is_row: bool = False


@dataclass(frozen=True)
class _Inline:
    """A function of scalars in a network's C."""

    type: str
    parameters: tuple[tuple[str, str], ...]
    body: str


def with_rows(text: str, signatures: Mapping[str, tuple[str, tuple[str, ...]]]) -> str:
    """Return a network's C with calls of functions of rows in place of loops. ``signatures``: types
    of the result and the operands of the scalar functions that the pack has as functions of rows.
    """
    inline = {
        name: _Inline(
            _plain(kind), tuple((_plain(t), n) for t, n in _PARAMETER.findall(rest)), body
        )
        for kind, name, rest, body in _FUNCTION.findall(text)
    }
    parts, end, prototypes = [], 0, {}
    for match in _LOOP.finditer(text):
        loop = _Loop(match, text, signatures, inline)
        try:
            replaced = loop.printed()
        except NotCovered:
            continue
        parts += [text[end : match.start()], replaced]
        end = match.end()
        prototypes.update(dict.fromkeys(loop.prototypes))
    head = "".join(f"extern {each}; " for each in prototypes)
    return "".join([head, *parts, text[end:]])


def _plain(kind: str) -> str:
    return "int32_t" if kind == "int" else kind


def _promoted(kind: str) -> str:
    return kind if kind in rows.ARITHMETIC else "int32_t"


def _common(*kinds: str) -> str:
    """Return the type of C's arithmetic with operands of these types."""
    return max((_promoted(kind) for kind in kinds), key=rows.ARITHMETIC.index)


@dataclass
class _Loop:
    """One loop of a network's C, ``match`` in ``text``."""

    match: re.Match[str]
    text: str
    signatures: Mapping[str, tuple[str, tuple[str, ...]]]
    inline: Mapping[str, _Inline]
    lines: list[str] = field(default_factory=list)
    prototypes: list[str] = field(default_factory=list)
    known: dict[str, _Value] = field(default_factory=dict)
    stored: dict[str, str] = field(default_factory=dict)
    loaded: set[str] = field(default_factory=set)
    row_count: int = 0
    conditions: int = 0  # conditional operators around the current expression

    def printed(self) -> str:
        """Return the loop over pieces. Raises NotCovered if rows cannot compute it."""
        self.variable, first, last = self.match["variable"], self.match["first"], self.match["last"]
        if self.match["name"] not in (None, self.variable):
            raise NotCovered(self.variable)
        count = None
        if first is not None and first.isdigit() and last.isdigit():
            count = int(last) - int(first)
            if count < MIN_EXTENT:
                raise NotCovered("a short loop")
        begin = self.text.rfind("\n}\n", 0, self.match.start()) + 1
        self.scope = {
            match["name"]: (_plain(match["type"]), bool(match["pointer"] or match["array"]))
            for match in _DECLARED.finditer(self.text, begin, self.match.start())
        }
        self._print_statements()
        head = f"int {self.variable} = {first}, tvmrt_n" if first is not None else "int tvmrt_n"
        rest = f"({last}) - {self.variable}"
        lines = [
            f"for ({head}; {self.variable} < {last}; {self.variable} += tvmrt_n) {{",
            f"  tvmrt_n = {rest} < {PIECE} ? (int)({rest}) : {PIECE};",
        ]
        if count is not None and count <= PIECE:
            lines = [f"{{ const int {self.variable} = {first}; const int tvmrt_n = {count};"]
        return "\n".join([*lines, *(f"  {line}" for line in self.lines), "}"])

    def _print_statements(self) -> None:
        body = self.match["body"] or self.match["statement"]
        statements = [each.split() for each in _COMMENT.sub("", body).split(";")]
        texts = [
            " ".join(words) for words in statements if words and not words[0].startswith("(void)")
        ]
        for text in texts:
            self._note_store(text)
        if not texts or not (self.stored or self._folds(texts[-1])):
            raise NotCovered("no result")
        for text in texts[:-2]:
            self._print(text)
        # a row that is only stored is computed in its place
        if len(texts) == 1 or not self._print_direct(*texts[-2:]):
            for text in texts[-2:]:
                self._print(text)

    def _note_store(self, text: str) -> None:
        assigned = _ASSIGNED.fullmatch(text)
        if assigned is None:
            raise NotCovered(text)
        if _PARAMETER.fullmatch(assigned[1]):
            return
        left = parse(assigned[1])
        if left.kind == "index" and self.stored.setdefault(left.text, left.c) != left.c:
            raise NotCovered(text)

    def _folds(self, text: str) -> bool:
        assigned = _ASSIGNED.fullmatch(text)
        return assigned is not None and assigned[1].isidentifier()

    def _print_direct(self, declaration: str, store: str) -> bool:
        """Print a declared value into the elements that the next statement stores it to; return
        whether this is possible."""
        assigned, stored = _ASSIGNED.fullmatch(declaration), _ASSIGNED.fullmatch(store)
        declared = _PARAMETER.fullmatch(assigned[1])
        left = parse(stored[1])
        if not declared or assigned[2] or stored[2] or left.kind != "index":
            return False
        if stored[3] != declared[2] or self._array(left.text) != _plain(declared[1]):
            return False
        self._store(left, parse(assigned[3]))
        return True

    def _print(self, text: str) -> None:
        """Print one statement."""
        target, sign, value = _ASSIGNED.fullmatch(text).groups()
        tree = parse(value)
        if declared := _PARAMETER.fullmatch(target):
            if sign:
                raise NotCovered(text)
            self._declare(_plain(declared[1]), declared[2], self._value(tree))
            return
        left = parse(target)
        if left.kind == "name":
            self._fold(left, sign, tree)
            return
        if sign:
            tree = Tree("binary", sign, (left, tree))
        if left.kind != "index":
            raise NotCovered(text)
        self._store(left, tree)

    def _store(self, left: Tree, tree: Tree) -> None:
        """Print the store of a value to the elements of an array."""
        step, kind = self._step(left.parts[0]), self._array(left.text)
        if step == "0":
            raise NotCovered(left.c)
        target = _Value(kind, f"&{self._renamed(left).c}", True)
        place = target if step == "1" else None
        result = self._convert(self._value(tree, place), kind, place)
        if result.text != target.text:
            self._copy(target.text, step, result)

    def _declare(self, kind: str, name: str, value: _Value) -> None:
        value = self._convert(value, kind)
        if not value.is_row:
            local = f"{name}_{len(self.lines)}"
            self.lines.append(f"const {kind} {local} = {value.text};")
            value = _Value(kind, local)
        self.known[name] = value

    def _fold(self, left: Tree, sign: str | None, tree: Tree) -> None:
        """Print a sum of all elements."""
        kind, is_array = self.scope.get(left.text, ("", True))
        if sign is None and tree.kind == "binary" and tree.parts[0] == left:
            sign, tree = tree.text, tree.parts[1]
        if (
            is_array
            or left.text in tree.names()
            or sign not in rows.FOLDS
            or kind not in rows.ARITHMETIC
        ):
            raise NotCovered(left.text)
        if kind not in rows.INTEGERS:
            marked = f"TVMRT_SIMD_REDUCTION({sign}, {left.text})"
            if not self.text[: self.match.start()].rstrip().endswith(marked):
                raise NotCovered("an ordered sum")
        elif sign == "|" and kind == "int64_t":
            raise NotCovered(kind)
        value = self._as_row(self._convert(self._value(tree), kind))
        self._print_call(rows.fold(sign, kind), left.text, value.text, result=f"{left.text} = ")

    def _value(self, tree: Tree, place: _Value | None = None) -> _Value:
        """Return the value of an expression; a row of the type of ``place`` is computed there."""
        if tree.kind == "number":
            return _Value(_type_of_number(tree.text), tree.text)
        if tree.kind == "name":
            return self._named(tree.text)
        if tree.kind == "index":
            return self._loaded(tree)
        if tree.kind == "call":
            return self._called(tree, place)
        if tree.kind == "cast":
            return self._convert(self._value(tree.parts[0]), tree.text, place)
        if tree.kind == "unary":
            return self._unary(tree, place)
        if tree.kind == "binary":
            left = self._value(tree.parts[0])
            self.conditions += tree.text in ("&&", "||")
            right = self._value(tree.parts[1])
            self.conditions -= tree.text in ("&&", "||")
            return self._binary(tree.text, left, right, place)
        return self._selected(tree, place)

    def _named(self, name: str) -> _Value:
        if name in self.known:
            return self.known[name]
        if name == self.variable:
            row = self._row("int32_t")
            self._print_call(rows.COUNT, row.text, name)
            return row
        if name in ("INFINITY", "NAN"):
            return _Value("float", name)
        kind, is_array = self.scope.get(name, ("", True))
        if is_array or name in self.stored:
            raise NotCovered(name)
        return _Value(kind, name)

    def _loaded(self, tree: Tree) -> _Value:
        kind, step = self._array(tree.text), self._step(tree.parts[0])
        stored = self.stored.get(tree.text, tree.c)
        if stored != tree.c and not self._is_after(stored, tree):
            raise NotCovered(f"{tree.c} depends on other elements")
        if self.conditions and tree.c not in (*self.loaded, *self.stored.values()):
            raise NotCovered(f"{tree.c} is read on a condition")
        if not self.conditions:
            self.loaded.add(tree.c)
        text = self._renamed(tree).c
        if step in "01":
            return _Value(kind, f"&{text}" if step == "1" else text, step == "1")
        row = self._row(kind)
        self._print_copy(kind, row.text, "1", f"&{text}", step)
        return row

    def _is_after(self, stored: str, tree: Tree) -> bool:
        """Return whether an element lies after all elements that the loop stores."""
        first, last = self.match["first"], self.match["last"]
        beyond = f"{tree.text}[{parse(f'{self.variable} + {last}').c}]"
        return first == "0" and stored == f"{tree.text}[{self.variable}]" and tree.c == beyond

    def _called(self, tree: Tree, place: _Value | None) -> _Value:
        values = [self._value(part) for part in tree.parts]
        if tree.text in self.inline:
            return self._inlined(self.inline[tree.text], values, place)
        if tree.text not in self.signatures:
            raise NotCovered(tree.text)
        result, kinds = self.signatures[tree.text]
        if len(kinds) != len(values):
            raise NotCovered(tree.text)
        values = [self._convert(value, kind) for value, kind in zip(values, kinds)]
        return self._call(rows.scalar_function(tree.text, result, kinds), values, place)

    def _inlined(self, function: _Inline, values: list[_Value], place: _Value | None) -> _Value:
        """Print the body of a function in a network's C in place of its call."""
        known, self.known = self.known, {}
        for (kind, name), value in zip(function.parameters, values, strict=True):
            self._declare(kind, name, value)
        *statements, end = [
            " ".join(each.split()) for each in function.body.split(";") if each.strip()
        ]
        for text in statements:
            assigned = _ASSIGNED.fullmatch(text)
            if assigned is None or assigned[2] or not _PARAMETER.fullmatch(assigned[1]):
                raise NotCovered(text)
            self._print(text)
        if not end.startswith("return "):
            raise NotCovered(end)
        value = self._convert(self._value(parse(end[7:]), place), function.type, place)
        self.known = known
        return value

    def _unary(self, tree: Tree, place: _Value | None) -> _Value:
        value = self._value(tree.parts[0])
        if tree.text == "!":
            return self._binary("==", value, _Value("int32_t", "0"), place)
        kind = _promoted(value.type)
        if tree.text == "~" and kind not in rows.INTEGERS:
            raise NotCovered(tree.c)
        function = rows.negation(kind) if tree.text == "-" else rows.complement(kind)
        return self._call(function, [self._convert(value, kind)], place)

    def _binary(self, sign: str, a: _Value, b: _Value, place: _Value | None = None) -> _Value:
        if sign in ("&&", "||"):
            return self._binary(sign[0], self._truth(a), self._truth(b), place)
        kind = _promoted(a.type) if sign in ("<<", ">>") else _common(a.type, b.type)
        if sign in rows.BITWISE and kind not in rows.INTEGERS:
            raise NotCovered(sign)
        if self.conditions and sign in "/%" and kind in rows.INTEGERS:
            raise NotCovered("a division on a condition")
        values = [self._convert(each, kind) for each in (a, b)]
        return self._call(rows.operator(sign, kind), values, place)

    def _truth(self, value: _Value) -> _Value:
        """Return 1 or 0 for a condition."""
        return self._binary("!=", value, _Value("int32_t", "0"))

    def _selected(self, tree: Tree, place: _Value | None) -> _Value:
        condition = self._value(tree.parts[0])
        if _promoted(condition.type) != "int32_t":
            condition = self._truth(condition)
        self.conditions += 1
        values = [self._value(part) for part in tree.parts[1:]]
        self.conditions -= 1
        kind = _common(*(value.type for value in values))
        values = [self._convert(value, kind) for value in values]
        return self._call(
            rows.selection(kind), [self._convert(condition, "int32_t"), *values], place
        )

    def _call(
        self, function: rows.RowFunction, values: list[_Value], place: _Value | None
    ) -> _Value:
        """Print the call of a function of rows; for operands that all elements share, return the
        expression of the number."""
        if not any(value.is_row for value in values):
            text = function.expression.format(*(value.text for value in values))
            return _Value(function.result, f"({text})")
        mask = "".join("v" if value.is_row else "u" for value in values)
        if mask not in function.masks:
            values, mask = list(map(self._as_row, values)), "v" * len(values)
        fits = place is not None and place.type == function.result
        row = place if fits else self._row(function.result)
        self._print_call(function.prototype(mask), row.text, *(value.text for value in values))
        return row

    def _print_call(self, prototype: str, *operands: str, result: str = "") -> None:
        """Print the call of a function of rows, and note that it must be declared."""
        self.prototypes.append(prototype)
        name = prototype.partition("(")[0].split()[-1]
        self.lines.append(f"{result}{name}(tvmrt_n, {', '.join(operands)});")

    def _convert(self, value: _Value, kind: str, place: _Value | None = None) -> _Value:
        if value.type == kind:
            return value
        return self._call(rows.conversion(value.type, kind), [value], place)

    def _as_row(self, value: _Value) -> _Value:
        if value.is_row:
            return value
        row = self._row(value.type)
        self._print_call(rows.fill(value.type), row.text, value.text)
        return row

    def _row(self, kind: str) -> _Value:
        """Declare a row."""
        self.row_count += 1
        if self.row_count > MAX_ROWS:
            raise NotCovered("the rows would take much of the stack")
        name = f"tvmrt_r{len(self.lines)}"
        self.lines.append(f"{kind} {name}[{PIECE}];")
        return _Value(kind, name, True)

    def _copy(self, place: str, step: str, value: _Value) -> None:
        """Print the store of a value to elements of its type."""
        if step == "1" and not value.is_row:
            self._print_call(rows.fill(value.type), place, value.text)
            return
        self._print_copy(value.type, place, step, self._as_row(value).text, "1")

    def _print_copy(self, kind: str, place: str, step: str, source: str, source_step: str) -> None:
        size = int(rows.TYPES[kind][1:]) // 8  # the names end in bits
        self._print_call(rows.copy(size), place, step, source, source_step)

    def _array(self, name: str) -> str:
        """Return the type of an array's elements."""
        kind, is_array = self.scope.get(name, ("", False))
        if not is_array:
            raise NotCovered(name)
        return kind

    def _renamed(self, tree: Tree) -> Tree:
        """Return the tree with the local names of numbers that are the same for all elements."""
        parts = tuple(map(self._renamed, tree.parts))
        text = (
            self.known[tree.text].text
            if tree.kind == "name" and tree.text in self.known
            else tree.text
        )
        return Tree(tree.kind, text, parts)

    def _step(self, tree: Tree) -> str:
        """Return by how much an index grows with the loop's variable, in C; "0" if it does not."""
        if self.variable not in tree.names():
            if any(self.known[name].is_row for name in tree.names() if name in self.known):
                raise NotCovered(f"{tree.c} differs by element")
            return "0"
        if tree.kind == "name":
            return "1"
        if tree.kind == "binary" and tree.text in "+-*":
            a, b = map(self._step, tree.parts)
            if tree.text == "*" and "0" in (a, b):
                step, factor = (a, tree.parts[1]) if b == "0" else (b, tree.parts[0])
                factor_c = self._renamed(factor).c
                return factor_c if step == "1" else f"({step} * {factor_c})"
            if tree.text == "+" and "0" in (a, b):
                return a if b == "0" else b
            if tree.text == "-" and b == "0":
                return a
        raise NotCovered(tree.c)


def _type_of_number(text: str) -> str:
    suffix = re.search(r"[fFuUlL]*$", text)[0].lower()
    if text.startswith("0x"):
        suffix = re.search(r"[uUlL]*$", text)[0].lower()
    elif re.search(r"[.eE]", text):
        return "float" if suffix == "f" else "double"
    is_wide = "l" in suffix or int(text.rstrip("uUlL"), 0) > 0x7FFFFFFF
    return {(False, False): "int32_t", (True, False): "int64_t", (False, True): "uint32_t"}.get(
        (is_wide, "u" in suffix), "uint64_t"
    )

"""The top-level items of a C text: declarations, definitions, macros and conditional directives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tvmrt.plugins.single_file.preprocess import DIRECTIVE, without_comments

CONDITIONALS = ("if", "elif", "else", "endif")
_WORD = re.compile(r"[A-Za-z_]\w*")
_TOKEN = re.compile(
    r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*'
    r"|[(){};]|\n\n",
    re.DOTALL | re.MULTILINE,
)
OPENING, CLOSING = ("(", "{"), (")", "}")
_QUOTED = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'')
_CALL = re.compile(r"^\s*([A-Z][A-Z0-9_]*)\s*\(")
# a variable, perhaps an array with attributes after it, as in: int a[2] TVMGEN_RODATA
_VARIABLE = re.compile(r"([A-Za-z_]\w*)\s*(?:\[[^\]]*\]\s*)*(?:\bTVM[A-Z_]+\s*)*;?\s*$")
_ATTRIBUTE = re.compile(r"\b__attribute__\s*(?=\()")
_BODY_OF_TYPE = re.compile(r"[\w\s]*\b(struct|union|enum)\b\s*\w*\s*(?=\{)")
_BRACES = re.compile(r"\{[^{}]*\}")
_MACRO_CALL = re.compile(r"\b[A-Z][A-Z0-9_]*\s*\([^()]*\)", re.DOTALL)


@dataclass
class Item:
    """One top-level item with the comments before it.

    ``kind`` is "code", "define" or another directive. ``names`` are the names that it defines, or
    empty if none was recognized; ``uses`` are all identifiers in it. ``conditions`` are the
    positions of the directives of the conditional blocks around it.
    """

    kind: str
    text: str
    names: set[str] = field(default_factory=set)
    uses: set[str] = field(default_factory=set)
    conditions: tuple[int, ...] = ()


@dataclass(frozen=True)
class Macro:
    """A function-like macro, or an object-like one, whose ``parameters`` are None."""

    parameters: tuple[str, ...] | None
    body: str


Macros = Mapping[str, Sequence[Macro]]


def plain(text: str) -> str:
    """Return C text without comments, strings and characters."""
    return _QUOTED.sub('""', without_comments(text))


def words(text: str) -> set[str]:
    """Return the identifiers of a C text."""
    return set(_WORD.findall(plain(text)))


def macros_of(text: str) -> Macros:
    """Return the macros that a text defines, each with all its definitions."""
    macros: dict[str, list[Macro]] = {}
    for match in re.finditer(
        r"^\s*#\s*define\s+(\w+)(\([^)]*\))?((?:\\\n|[^\n])*)", text, re.MULTILINE
    ):
        name, parameters, body = match.groups()
        names = None if parameters is None else tuple(_WORD.findall(parameters))
        body = without_comments(body.replace("\\\n", "\n")).strip()
        macros.setdefault(name, []).append(Macro(names, body))
    return macros


def items_of(text: str, macros: Macros) -> list[Item]:
    """Split a text into its items; positions in ``conditions`` are indices into the result."""
    items: list[Item] = []
    open_blocks: list[list[int]] = []
    for kind, found in _pieces(text, macros):
        piece = found
        if kind in ("elif", "else"):
            open_blocks[-1].append(len(items))
        if kind == "code" and _closes_block(piece) and items and items[-1].kind == "if":
            piece = f"{items.pop().text}\n{piece}"  # a condition within a declaration
            open_blocks.pop()
        around = tuple(i for block in open_blocks for i in block)
        if kind == "if":
            open_blocks.append([len(items)])
        if kind == "endif":
            open_blocks[-1].append(len(items))
            _close(items, open_blocks.pop())
        items.append(Item(kind, piece, _names(kind, piece), words(piece), around))
    return items


def _closes_block(code: str) -> bool:
    """Return whether a directive in an item ends a block that begins before the item."""
    kinds = [_directive_kind(line) for line in code.split("\n")]
    return kinds.count("endif") > kinds.count("if")


def _close(items: list[Item], block: list[int]) -> None:
    """Give all items of a conditional block all of its directives, also the later ones."""
    for item in items[block[0] + 1 :]:
        item.conditions = tuple(dict.fromkeys((*item.conditions, *block)))


def _pieces(text: str, macros: Macros) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each item, with comments before it."""
    start, depth = 0, 0
    depths: list[int] = []  # at the open conditional directives: each branch may open a brace
    code: list[str] = []  # the item so far, without comments and what is in braces
    last = 0
    for token in _TOKEN.finditer(text):
        between = text[last : token.start()].strip()
        mark, last = token.group(), token.end()
        if between and depth == 0:
            code.append(between)
        kind = _directive_kind(mark)
        depth = _depth_after(kind, depth, depths)
        if kind and not code:
            before = text[start : token.start()].strip()
            if kind in CONDITIONALS and before:
                yield "comment", before
                before = ""
            yield kind, f"{before}\n{mark.strip()}".strip()
            start = last
            continue
        if mark.startswith(("/*", "//", '"', "'", "#")) or kind:
            continue
        if mark == "\n\n" and not code and text[start:last].strip():
            yield "comment", text[start:last].strip()
            start = last
        elif mark in OPENING:
            code += [mark] if depth == 0 else []
            depth += 1
        elif mark in CLOSING:
            depth -= 1
            code += [mark] if depth == 0 else []
        if depth == 0 and code and _ends(mark, " ".join(code), macros):
            last = _end_of_line(text, last)
            yield "code", text[start:last].strip("\n ")
            start, code = last, []
    if text[start:].strip():
        yield "code", text[start:].strip()


def _depth_after(kind: str, depth: int, depths: list[int]) -> int:
    """Return the depth of braces after a directive: a later branch starts with that of the first.

    ``depths``: those at the open conditional directives, which are changed.
    """
    if kind == "if":
        depths.append(depth)
    elif kind in ("elif", "else") and depths:
        return depths[-1]
    elif kind == "endif" and depths:
        depths.pop()
    return depth


def _directive_kind(mark: str) -> str:
    directive = DIRECTIVE.match(mark) if mark.lstrip().startswith("#") else None
    kind = directive.group(1) if directive else ""
    return "if" if kind in ("ifdef", "ifndef") else kind


def _end_of_line(text: str, at: int) -> int:
    """Return the end of the comments that follow on the same line."""
    match = re.compile(r"[ \t]*(/\*[^\n]*?\*/|//[^\n]*)?").match(text, at)
    return match.end() if match else at


def _ends(mark: str, code: str, macros: Macros) -> bool:
    """Return whether a mark at depth 0 ends an item with this code, whose braces are empty."""
    if mark == ";":
        return True
    if mark == "}":
        return "=" not in code.split("{", 1)[0] and not _is_type(code)
    if mark != ")":
        return False
    call = _CALL.match(code)
    definitions = macros.get(call.group(1), ()) if call and code.endswith(")") else ()
    return any(_is_complete(macro.body) for macro in definitions)


def _is_complete(body: str) -> bool:
    """Return whether a macro's body is a whole item; an initializer in braces lacks its ";"."""
    before, brace, _ = body.partition("{")
    return ";" in body or (bool(brace) and "=" not in before)


def _is_type(code: str) -> bool:
    """Return whether a complete text in braces is a type that still lacks its ";"."""
    head = code.split("{", 1)[0]
    return bool(re.search(r"\b(typedef|struct|union|enum)\b", head)) and "(" not in head


def _names(kind: str, text: str) -> set[str]:
    if kind == "define":
        return set(re.findall(r"#\s*define\s+(\w+)", text))
    return declared_names(plain(text)) if kind == "code" else set()


def declared_names(code: str) -> set[str]:
    """Return the names that one declaration or definition without comments defines."""
    code = _without_attributes(re.sub(r"^\s*#.*$", "", code, flags=re.MULTILINE))
    names = set(re.findall(r"\b(?:struct|union|enum)\s+(\w+)\s*\{", code))
    for body in re.findall(r"\benum\b[^{;]*\{([^}]*)\}", code):
        names |= set(re.findall(r"([A-Za-z_]\w*)\s*(?==|,|$)", body.strip() + ","))
    if re.match(r"\s*typedef\b", code):
        pointer = re.findall(r"\(\s*\*\s*(\w+)\s*\)", code[code.rfind("}") :])
        return names | set(pointer or re.findall(r"(\w+)\s*(?:\[[^\]]*\]\s*)?;\s*$", code))
    body = _BODY_OF_TYPE.match(code)
    end = body.end() + len(next(split_outside(code, "}", body.end()))) if body else 0
    declarator = code[end:]
    head = _MACRO_CALL.sub(" ", declarator.split("=", 1)[0].split("{", 1)[0])
    function = re.search(r"([A-Za-z_]\w*)\s*\(\s*(?:\*\s*(?:const\s+)?(\w+))?", head)
    if function:  # or a pointer to one, as in: int (*hook)(int)
        return names | {function.group(2) or function.group(1)}
    if names and not code.rstrip().endswith(";"):
        return names
    matches = (_VARIABLE.search(each) for each in _declarators(declarator))
    return names | {variable.group(1) for variable in matches if variable}


def _declarators(code: str) -> Iterator[str]:
    """Yield the declarators of a declaration of variables, without their initial values."""
    while (shorter := _BRACES.sub("", code)) != code:
        code = shorter
    code = _MACRO_CALL.sub(" ", code).strip().rstrip(";")
    for declarator in split_outside(f"{code},", ","):
        yield next(split_outside(declarator, "=,"))[:-1].strip()


def _without_attributes(code: str) -> str:
    """Return C text without attributes, whose arguments may be expressions in parentheses."""
    while (match := _ATTRIBUTE.search(code)) is not None:
        arguments = next(split_outside(code, ")", match.end()))
        code = f"{code[: match.start()]} {code[match.end() + len(arguments) :]}"
    return code


def split_outside(text: str, marks: str, start: int = 0) -> Iterator[str]:
    """Yield the pieces of a C text, each up to one of some marks outside of parentheses and braces.
    A closing one is outside of itself."""
    depth, begin = 0, start
    for i in range(start, len(text)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0 and text[i] in marks:
            yield text[begin : i + 1]
            begin = i + 1
    if begin < len(text):
        yield text[begin:]

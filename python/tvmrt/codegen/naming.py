"""Names in generated C: the network's own, made into identifiers, each used once."""

from __future__ import annotations

import re

_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while main".split()
)
MAX_LENGTH = 60


def sanitize(name: str) -> str:
    """Every character that is no letter or digit becomes an underscore, as TVM does it."""
    return re.sub(r"[^0-9A-Za-z_]", "_", name)


def identifier(name: str) -> str:
    """A readable C identifier close to the name: no doubled or outer underscores.

    Of names that a converter has joined by semicolons, the first.
    """
    text = re.sub(r"_+", "_", sanitize(name.split(";", maxsplit=1)[0])).strip("_") or "unnamed"
    if len(text) > MAX_LENGTH:
        # the end of a layer's path says more than its beginning
        text = text[-MAX_LENGTH:].lstrip("_")
    if text[0].isdigit() or text in _KEYWORDS:
        text = f"n{text}"
    return text


_CPP_KEYWORDS = frozenset(
    "and asm bool catch class delete explicit export false friend mutable namespace new not "
    "operator or private protected public template this throw true try typename using virtual "
    "wchar_t xor".split()
)


def member(name: str) -> str:
    """The name of a struct member: sanitized alone, so that programs can foresee it, but for what
    neither C nor C++ takes."""
    text = sanitize(name)
    if not text or text[0].isdigit():
        text = f"_{text}"
    return f"{text}_" if text in _KEYWORDS - {"main"} or text in _CPP_KEYWORDS else text


class Namer:
    """Hands out each identifier once; a number tells apart what would clash."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, name: str, prefix: str = "") -> str:
        """``prefix`` and the name as an identifier that nobody has yet."""
        base = prefix + identifier(name)
        candidate, count = base, 1
        while candidate.lower() in self._taken:
            count += 1
            candidate = f"{base}_{count}"
        self._taken.add(candidate.lower())
        return candidate

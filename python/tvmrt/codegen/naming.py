"""Names in generated C: the network's own, made into identifiers, each used once."""

from __future__ import annotations

import re

_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while main".split()
)
MAX_LENGTH = 60
MAX_MODULE_LENGTH = 100  # it begins the names of files


def sanitize(name: str) -> str:
    """Every character that is no letter or digit becomes an underscore, as TVM does it."""
    return re.sub(r"[^0-9A-Za-z_]", "_", name)


def check_module_name(what: str, name: str) -> None:
    """Raise ValueError where a name, of ``what`` it is, cannot begin symbols and files."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"{what} name {name!r} is no C identifier; choose another")
    if len(name) > MAX_MODULE_LENGTH:
        raise ValueError(
            f"{what} name {name[:20]}... of {len(name)} characters is too long for names of files; "
            f"choose one of at most {MAX_MODULE_LENGTH}"
        )


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
    "alignas alignof and and_eq asm bitand bitor bool catch char16_t char32_t char8_t class compl "
    "concept const_cast consteval constexpr constinit decltype delete dynamic_cast explicit export "
    "false friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private "
    "protected public reinterpret_cast requires static_assert static_cast template this "
    "thread_local throw true try typeid typename typeof using virtual wchar_t xor xor_eq".split()
)

# Macros of the C library's headers, and of compilers for some systems.
_MACROS = frozenset("INFINITY NAN NULL assert errno linux stderr stdin stdout unix".split())

_NO_MEMBERS = (_KEYWORDS - {"main"}) | _CPP_KEYWORDS | _MACROS


def member(name: str) -> str:
    """The name of a struct member: sanitized alone, so that programs can foresee it, but for words
    that C or C++ takes otherwise."""
    text = sanitize(name)
    if not text or text[0].isdigit():
        text = f"_{text}"
    return f"{text}_" if text in _NO_MEMBERS else text


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

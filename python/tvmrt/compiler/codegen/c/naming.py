"""Names in generated C: the network's own, made into identifiers, each used once."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while main".split()
)
MAX_LENGTH = 60
LEAST_WORDS = 18  # letters that a long prefix leaves to a layer's words
LEAST_WORDS_BEFORE_ENDING = 8  # the same of static symbols, which no other file sees
SYMBOL_LENGTH = 40  # of symbols and offsets, with what stands before the layer's words
MAX_MODULE_LENGTH = 100  # it begins the names of files


def sanitize(name: str) -> str:
    """Every character that is no letter or digit becomes an underscore, as TVM does it."""
    return re.sub(r"[^0-9A-Za-z_]", "_", name)


def check_module_name(what: str, name: str) -> None:
    """Raise ValueError where a name, of ``what`` it is, cannot begin symbols and files."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"{what} name {name!r} is not a C identifier; choose another")
    if len(name) > MAX_MODULE_LENGTH:
        raise ValueError(
            f"{what} name {name[:20]}... of {len(name)} characters is too long for names of files; "
            f"choose one of at most {MAX_MODULE_LENGTH}"
        )


def identifier(name: str, limit: int = MAX_LENGTH) -> str:
    """A readable C identifier close to the name: no doubled or outer underscores.

    Of names that a converter has joined by semicolons, the first; of long ones the last words.
    """
    text = re.sub(r"_+", "_", sanitize(name.split(";", maxsplit=1)[0])).strip("_") or "unnamed"
    text = _last_words(text, limit)
    if text[0].isdigit() or text in _KEYWORDS:
        text = f"n{text}"
    return text


_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")  # which begins a word


def _last_words(text: str, limit: int) -> str:
    """The end of a layer's path says more than its beginning."""
    if len(text) <= limit:
        return text
    first = len(text) - limit + 1  # one more may come before a digit
    if text[first - 1] == "_":
        return text[first:]
    middle = first + limit // 2 + 1
    cut = text.find("_", first, middle)
    if cut >= 0:
        return text[cut + 1 :]
    capital = _CAPITAL.search(text, first, middle)
    return text[capital.start() if capital else first :]


# Keywords of C and C++ up to the standards of 2023, and words that their compilers take besides.
_MORE_KEYWORDS = frozenset(
    "alignas alignof and and_eq asm bitand bitor bool catch char16_t char32_t char8_t class "
    "co_await co_return co_yield compl concept const_cast consteval constexpr constinit decltype "
    "delete dynamic_cast explicit export false fortran friend mutable namespace new noexcept not "
    "not_eq nullptr operator or or_eq private protected public reinterpret_cast requires "
    "static_assert static_cast template this thread_local throw true try typeid typename typeof "
    "typeof_unqual using virtual wchar_t xor xor_eq".split()
)

# Macros with small letters: of the headers of C and POSIX, and of compilers for some systems.
_MACROS = frozenset(
    "AF_DECnet L_ctermid L_cuserid L_tmpnam PF_DECnet P_tmpdir arm assert basename complex "
    "d_fileno errno far h_addr h_errno hpux huge i386 imaginary interface linux math_errhandling "
    "mips msg_cbytes near noreturn sched_priority sgi signgam small sparc stderr stdin stdout sun "
    "unix vax".split()
)

# Shapes of names that headers define: macros in capitals, what C and C++ keep for themselves, and
# the formats, constants, struct members and generic functions that C and POSIX name in families.
_SHAPE = re.compile(
    r"I|(?=.*[A-Z])[A-Z0-9_]{2,}|_[A-Z_].*"
    r"|(?:PRI|SCN)[a-zX]\w*|M_[A-Z0-9_]+[fl][0-9x]*"
    r"|(?:ifa|ifc|ifr|s6|sa|si|sigev|st)_[a-z]\w*|atomic_\w+"
)

_WORDS = (_KEYWORDS - {"main"}) | _MORE_KEYWORDS | _MACROS


def is_word(name: str) -> bool:
    """Whether C or C++ take a name otherwise: a keyword, or a macro that is no constant."""
    return name in _WORDS


def is_reserved(name: str) -> bool:
    """Whether C, C++ or any header may take a name otherwise, by what it is or looks like."""
    return is_word(name) or _SHAPE.fullmatch(name) is not None


def member(name: str) -> str:
    """The name of a struct member: sanitized alone, so that programs can foresee it, but for words
    that C or C++ takes otherwise (``class_``) and what looks like a macro (``nEOF``)."""
    text = sanitize(name)
    if not text or text[0].isdigit():
        text = f"_{text}"
    if is_word(text):
        return f"{text}_"
    return f"n{text}" if is_reserved(text) else text


def told_apart(name: str, taken: set[str]) -> str:
    """The name, with a number where its small letters are taken; it is among those then."""
    text, count = name, 1
    while text.lower() in taken:
        count += 1
        text = f"{name}_{count}"
    taken.add(text.lower())
    return text


# What generated C calls by a name of its own beside a variable: types, the runtime's and its own
# symbols, functions of the C library.
_OWN = re.compile(r"(?i:tvm|ktvm|kdl|dl)\w*|\w+_t|mem[a-z]+")


def local_name(name: str) -> str:
    """A readable name for a local variable or parameter, which hides nothing and is no macro."""
    text = identifier(name)
    return f"n{text}" if is_reserved(text) or _OWN.fullmatch(text) else text


class Namer:
    """Hands out each identifier once; a number tells apart what would clash.

    Identifiers have at most ``limit`` letters, as far as prefixes let them.
    """

    def __init__(self, limit: int = MAX_LENGTH) -> None:
        self._taken: set[str] = set()
        self._limit = limit

    def reserve(self, identifier: str) -> None:
        """Hand this one out to nobody."""
        self._taken.add(identifier.lower())

    def take(self, name: str, prefix: str = "", ending: str = "", room: int = 0) -> str:
        """``prefix``, the name and ``ending`` as an identifier that nobody has yet.
        ``room``: for letters that may be put behind it.
        """
        least = LEAST_WORDS_BEFORE_ENDING if ending else LEAST_WORDS
        limit = max(self._limit - len(prefix) - len(ending) - room, least)
        candidate, count = prefix + identifier(name, limit) + ending, 1
        while candidate.lower() in self._taken:
            count += 1
            number = f"_{count}"
            candidate = prefix + identifier(name, limit - len(number)) + number + ending
        self._taken.add(candidate.lower())
        return candidate


class Symbols:
    """Hands out the symbols that begin with a network's prefix, each once.

    ``behind``: what others put behind a function's symbol.
    """

    def __init__(self, prefix: str, reserved: Iterable[str], behind: str) -> None:
        self._before = f"{prefix}_"
        self._behind = behind
        self._namer = Namer(SYMBOL_LENGTH)
        for word in reserved:
            self._namer.reserve(self._before + word)

    def function(self, name: str) -> str:
        """That of an operator, or of a step inside of one."""
        behind = self._behind
        apart = f"{name}_op" if behind and name.lower().endswith(behind) else name
        return self._namer.take(apart, self._before, room=len(behind))

    def constant(self, name: str) -> str:
        """What follows ``<prefix>_w_`` in that of a constant."""
        before = f"{self._before}w_"
        return self._namer.take(name, before)[len(before) :]

    def derived(self, symbol: str, ending: str) -> str:
        """A static one that tells by its ending what it is to the function of this symbol."""
        return self._namer.take(symbol[len(self._before) :], self._before, ending)

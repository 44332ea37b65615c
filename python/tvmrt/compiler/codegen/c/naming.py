"""Identifiers in generated C, made from the network's own names and each used once."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEYWORDS = frozenset(
    "auto break case char const continue default do double else enum extern float for goto if "
    "inline int long register restrict return short signed sizeof static struct switch typedef "
    "union unsigned void volatile while main".split()
)
MAX_LENGTH = 60
MIN_NAME_LENGTH = 18  # minimum letters of a layer's name after a long prefix
MIN_NAME_LENGTH_BEFORE_SUFFIX = 8  # minimum for static symbols, which are local to their file
SYMBOL_LENGTH = 48  # maximum for symbols and offsets, including their prefix
MAX_MODULE_LENGTH = 100  # a module name begins file names


def sanitize(name: str) -> str:
    """Replace every character other than a letter or digit by an underscore, as TVM does."""
    return re.sub(r"[^0-9A-Za-z_]", "_", name)


def module_name_of(stem: str) -> str:
    """Return a valid module name for a file's name without its suffix."""
    name = sanitize(stem).lower()
    return (f"net_{name}" if not name or name[0].isdigit() else name)[:MAX_MODULE_LENGTH]


def check_module_name(what: str, name: str) -> None:
    """Raise ValueError if ``name``, of a ``what``, cannot begin symbols and file names."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(f"{what} name {name!r} is not a C identifier; choose another")
    if len(name) > MAX_MODULE_LENGTH:
        raise ValueError(
            f"{what} name {name[:20]}... of {len(name)} characters is too long for names of files; "
            f"choose one of at most {MAX_MODULE_LENGTH}"
        )


def identifier(name: str, limit: int = MAX_LENGTH) -> str:
    """Return a readable C identifier close to the name, without doubled or outer underscores.

    Of names that a converter joined with semicolons, the first is used. A long name loses the first
    parts of its path, then its first words.
    """
    name = name.partition(";")[0]
    while len(name) > limit and "/" in name.strip("/"):
        name = name.strip("/").partition("/")[2]
    text = re.sub(r"_+", "_", sanitize(name)).strip("_") or "unnamed"
    text = _shorten(text, limit)
    if text[0].isdigit() or text in _KEYWORDS:
        text = f"n{text}"
    return text


_BIAS = re.compile(r"(.+)/BiasAdd[^/]*")
_MATMUL = re.compile(r"(?i)(?:.*/)?(?:\w+_)?(?:conv|depthwise|matmul|gemm|einsum|dense)[^/]*")


_QUANTIZER = re.compile(r"_(?:pre|de)?quant[^/_]*(?:_\d+)?$")  # ending that a quantiser appends


def layer_name(name: str) -> str:
    """Return the layer's name of a convolution or matmul that TensorFlow fused with other nodes,
    whose names it joined with semicolons. A layer's own bias identifies it; its convolution may be
    named after another layer that shares a constant."""
    names = [_QUANTIZER.sub("", each) for each in name.split(";")]
    biased = next(filter(None, map(_BIAS.fullmatch, names)), None)
    if biased is not None:
        return biased[1]
    matmul = next(filter(_MATMUL.fullmatch, reversed(names)), None)
    return matmul or names[0]


# Words in the names of converters' nodes: a step with one of them does this work, or it is renamed.
_WORK = (
    "batchnorm biasadd conv flatten gemm identity matmul pool quant relu reshape sigmoid softmax "
    "squeeze transpose"
)
# Words for operators, besides those in their own names; copies and tables do any operator's work.
_SYNONYMS = {
    "identity": _WORK,
    "table": _WORK,
    "conv": "depthwise",
    "matmul": "gemm dense linear einsum",
    "reduce_mean": "pool average",
    "clip": "relu",
    "resize": "upsample",
}


def work_name(op: str, name: str) -> str:
    """Return the name of a step, without the word for another operator's work at its end.

    Converters name a fused or replaced node after the last of its nodes: a residual add that took
    over an activation is called ``block/Relu``; its step is ``block/add``. For a convolution called
    ``conv_1/Relu``, it is ``conv_1``.
    """
    op = op[1:] if op.startswith("q") and not op.startswith("quant") else op
    if not op.endswith("quantize"):
        name = _QUANTIZER.sub("", name)
    path, slash, last = name.partition(";")[0].rpartition("/")
    letters, outer = (each.lower().replace("_", "") for each in (last, path.rpartition("/")[2]))
    own = [word for word in op.split("_") if len(word) > 2] + _SYNONYMS.get(op, "").split()
    if any(word in letters for word in own) or not any(word in letters for word in _WORK.split()):
        return name
    return path if any(word in outer for word in own) else f"{path}{slash}{op}"


_WORD = re.compile(r"_[A-Za-z]")
_CAPITAL = re.compile(r"(?<=[a-z0-9])[A-Z]")  # first letter of a word in camel case


def _shorten(text: str, limit: int) -> str:
    """Shorten a name to its last words: the end of a layer's path identifies it best."""
    if len(text) <= limit:
        return text
    first = len(text) - limit + 1  # identifier() may prepend a letter before a digit
    if text[first - 1] == "_" and text[first].isalpha():
        return text[first:]
    middle = first + limit // 2 + 1
    cut = _WORD.search(text, first, middle + 2)
    if cut:
        return text[cut.end() - 1 :]
    capital = _CAPITAL.search(text, first, middle)
    return text[capital.start() if capital else first :]


# Keywords of C and C++ up to C23 and C++23, and additional compiler keywords.
_CPP_KEYWORDS = frozenset(
    "alignas alignof and and_eq asm bitand bitor bool catch char16_t char32_t char8_t class "
    "co_await co_return co_yield compl concept const_cast consteval constexpr constinit decltype "
    "delete dynamic_cast explicit export false fortran friend mutable namespace new noexcept not "
    "not_eq nullptr operator or or_eq private protected public reinterpret_cast requires "
    "static_assert static_cast template this thread_local throw true try typeid typename typeof "
    "typeof_unqual using virtual wchar_t xor xor_eq".split()
)

# Macros in lower case from the headers of C and POSIX and from compilers for some systems.
_MACROS = frozenset(
    "AF_DECnet L_ctermid L_cuserid L_tmpnam PF_DECnet P_tmpdir arm assert basename complex "
    "d_fileno errno far h_addr h_errno hpux huge i386 imaginary interface linux math_errhandling "
    "mips msg_cbytes near noreturn sched_priority sgi signgam small sparc stderr stdin stdout sun "
    "unix vax".split()
)

# Patterns of names that headers define: upper-case macros, identifiers reserved by C and C++, and
# the families of formats, constants, struct members and generic functions of C and POSIX.
_RESERVED_PATTERN = re.compile(
    r"I|(?=.*[A-Z])[A-Z0-9_]{2,}|_[A-Z_].*"
    r"|(?:PRI|SCN)[a-zX]\w*|M_[A-Z0-9_]+[fl][0-9x]*"
    r"|(?:ifa|ifc|ifr|s6|sa|si|sigev|st)_[a-z]\w*|atomic_\w+"
)

_WORDS = (_KEYWORDS - {"main"}) | _CPP_KEYWORDS | _MACROS


def is_word(name: str) -> bool:
    """Return whether a name is a C or C++ keyword or a macro that is not a constant."""
    return name in _WORDS


def is_reserved(name: str) -> bool:
    """Return whether C, C++ or a header may use a name, judged by the word or its pattern."""
    return is_word(name) or _RESERVED_PATTERN.fullmatch(name) is not None


def member(name: str) -> str:
    """Return the name of a struct member. It is only sanitized, so that programs can predict it,
    except for C or C++ keywords (``class_``) and names that look like macros (``nEOF``)."""
    text = sanitize(name)
    if not text or text[0].isdigit():
        text = f"_{text}"
    if is_word(text):
        return f"{text}_"
    return f"n{text}" if is_reserved(text) else text


def make_unique(name: str, used: set[str]) -> str:
    """Return the name, numbered if it is used (ignoring case), and add it to ``used``."""
    text, count = name, 1
    while text.lower() in used:
        count += 1
        text = f"{name}_{count}"
    used.add(text.lower())
    return text


# Names other than variables in generated C: types, symbols of the runtime and of the network, and
# functions of the C library.
_NON_VARIABLE = re.compile(r"(?i:tvm|ktvm|kdl|dl)\w*|\w+_t|mem[a-z]+")


def local_name(name: str) -> str:
    """Return a readable local or parameter name that shadows nothing and is not a macro."""
    text = identifier(name)
    return f"n{text}" if is_reserved(text) or _NON_VARIABLE.fullmatch(text) else text


class Namer:
    """Hand out each identifier once; name clashes are resolved by a number.

    Identifiers have at most ``limit`` letters unless a long prefix forces more.
    """

    def __init__(self, limit: int = MAX_LENGTH) -> None:
        self._used: set[str] = set()
        self._limit = limit

    def reserve(self, identifier: str) -> None:
        """Never hand out this identifier."""
        self._used.add(identifier.lower())

    def take(self, name: str, prefix: str = "", ending: str = "", reserved_length: int = 0) -> str:
        """Return ``prefix``, the name and ``ending`` as an unused identifier. ``reserved_length``:
        number of letters that may be appended to it.
        """
        min_length = MIN_NAME_LENGTH_BEFORE_SUFFIX if ending else MIN_NAME_LENGTH
        limit = max(self._limit - len(prefix) - len(ending) - reserved_length, min_length)
        candidate, count = prefix + identifier(name, limit) + ending, 1
        while candidate.lower() in self._used:
            count += 1
            suffix = f"_{count}"
            candidate = prefix + identifier(name, limit - len(suffix)) + suffix + ending
        self._used.add(candidate.lower())
        return candidate


class Symbols:
    """Hand out symbols that begin with a network's prefix, each once.

    ``suffix``: ending that callers may append to a function's symbol.
    """

    def __init__(self, prefix: str, reserved: Iterable[str], suffix: str) -> None:
        self._before = f"{prefix}_"
        self._suffix = suffix
        self._namer = Namer(SYMBOL_LENGTH)
        for word in reserved:
            self._namer.reserve(self._before + word)

    def function(self, name: str) -> str:
        """Return the symbol of an operator, or of a step inside one."""
        suffix = self._suffix
        base = f"{name}_op" if suffix and name.lower().endswith(suffix) else name
        return self._namer.take(base, self._before, reserved_length=len(suffix))

    def layer(self, name: str) -> str:
        """Return the static symbol of the struct that describes a layer."""
        return self._namer.take(name, self._before, "_layer")

    def constant(self, name: str) -> str:
        """Return the symbol of a constant without its ``<prefix>_w_``."""
        before = f"{self._before}w_"
        return self._namer.take(name, before)[len(before) :]

    def derived(self, symbol: str, ending: str) -> str:
        """Return a static symbol derived from a function's symbol; the ending names its role."""
        return self._namer.take(symbol[len(self._before) :], self._before, ending)

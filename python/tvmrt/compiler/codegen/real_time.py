"""Check that the code of a network allocates nothing, takes no lock and does not call the system.

The check reads the generated C: from the function of each step it follows the functions and macros
of the kernels and of custom operators, and refuses those that call a function of ``CALLS``. It
leaves regions out, for which devices state it (``Device.real_time``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tvmrt.compiler.ir.custom import kernel_record
from tvmrt.error import UnsupportedError
from tvmrt.option_syntax import option

from .c.writer import Function
from .kernel_headers import all_headers, kernel_text
from .options import Sources

_ALLOCATES, _LOCKS, _CALLS_SYSTEM = "allocates memory", "takes a lock", "calls the system"
_FORMATS, _RUNTIME = "may allocate memory for its text", "calls functions of the runtime"
CALLS: Mapping[str, tuple[str, ...]] = {
    _ALLOCATES: (
        r"(?:m|c|re)alloc|free|aligned_alloc|posix_memalign|memalign|v?asprintf|strn?dup|alloca",
        "TVMBackendAllocWorkspace|TVMDevice(?:Alloc|Free)\\w+|TVMArray\\w+",
    ),
    _LOCKS: (r"(?:pthread|mtx|cnd|sem|thrd|tss)_\w+|call_once|TVMBackendRunOnce",),
    _CALLS_SYSTEM: (
        r"f(?:open|close|read|write|puts|printf|flush)|v?printf|puts|putchar|getenv|system|exit",
        r"abort|time|clock\w*|(?:nano|u)?sleep|sched_\w+|syscall|mmap|munmap|s?brk|rand|srand",
    ),
    _FORMATS: (r"v?sn?printf|strto(?:d|f|ld)|atof|s?scanf",),
    _RUNTIME: (r"TVMFunc\w+|TVMBackendGetFuncFromEnv|TVMMod\w+",),
}
_PATTERNS = {why: re.compile("|".join(names)) for why, names in CALLS.items()}
# Its blocks have the sizes that the steps state, and executors reserve these.
_RESERVED = "tvmrt_scratch_alloc"
_REPORTS_ERROR = "TVMAPISetLastError"
# Functions of C that custom operators may call: they only compute.
_COMPUTES = re.compile(
    r"mem(?:cpy|move|set|cmp|chr)|str(?:len|n?cmp|chr)|(?:is|sign)\w+|l?abs|offsetof|assert|"
    r"(?:f(?:abs|ma|max|min|mod|dim)|a?(?:sin|cos|tan)h?|atan2|exp2?|expm1|log(?:2|10|1p)?|pow|sqrt|"
    r"cbrt|hypot|ceil|floor|trunc|l?l?round|l?l?rint|nearbyint|copysign|ldexp|frexp|modf|erfc?|"
    r"[lt]gamma|remainder|nextafter)[fl]?|U?INT(?:8|16|32|64|MAX)_C|"
    r"(?:TVM|tvm|_mm|__builtin_|v)\w+|if|for|while|switch|return|sizeof|_Alignof|do|else|case"
)
_COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_TEXTS = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'')
_DEFINE = re.compile(r"^[ \t]*#\s*define\s+(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:\\\n|[^\n])*", re.MULTILINE)
_HEAD = re.compile(r"(\w+)\s*\((?:[^()]|\([^()]*\))*\)\s*\w*\s*\Z")
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_CALLED = re.compile(r"\b([A-Za-z_]\w*)\s*\(")


@dataclass
class _Code:
    """Bodies of functions and macros by name."""

    bodies: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, body: str) -> None:
        self.bodies.setdefault(name, []).append(body)

    def update(self, other: _Code) -> None:
        for name, bodies in other.bodies.items():
            self.bodies.setdefault(name, []).extend(bodies)


def check(sources: Sources) -> None:
    """Raise UnsupportedError, with all layers and reasons, if runs may do what ``--real-time``
    excludes."""
    problems: dict[str, None] = {}
    for function in _functions(sources):
        is_region = function.step.group.root.op == "region"
        why = "" if is_region else _code_problem(function)
        if why:
            layers = ", ".join(function.step.sources) or function.step.name
            problems[f"{layers}: {why}"] = None
    if problems:
        raise UnsupportedError(
            f"{option('real_time', True)} does not support these layers: {'; '.join(problems)}; "
            "leave the option out, or replace them"
        )


def _functions(sources: Sources) -> Iterator[Function]:
    """Yield the functions of all steps, for each ISA level."""
    yield from sources.functions
    if sources.levels is not None:
        for level in sources.levels.names:
            yield from sources.levels.functions_printed_for(level)


def _code_problem(function: Function) -> str:
    """Return what the code of a step does in addition to computing; "" if nothing."""
    own = "\n".join([function.text, *map(str, function.definitions)])
    code = _definitions(own)
    for header in sorted(all_headers(function.includes)):
        code.update(_definitions(kernel_text(header)))
    operator = kernel_record(function.step.group.root)
    if operator is not None:
        code.update(_definitions(operator.c.source))
        if why := _unknown_call(operator.c.source, code):
            return why
    return _forbidden_call(_plain(own), code)


def _forbidden_call(text: str, code: _Code) -> str:
    """Follow the names of a text, and return the first call of ``CALLS``."""
    reporters = {name for name, each in code.bodies.items() if _REPORTS_ERROR in "".join(each)}
    reporters.add(_REPORTS_ERROR)
    seen: set[str] = set()
    todo = [text]
    while todo:
        body = todo.pop()
        # a function that reports an error formats its text, which only failing runs do
        reports = not reporters.isdisjoint(_WORD.findall(body))
        for name in _CALLED.findall(body):
            why = next((why for why, p in _PATTERNS.items() if p.fullmatch(name)), "")
            if why and not (reports and why == _FORMATS) and name not in code.bodies:
                return f"{name}() {why}"
        for name in _WORD.findall(body):
            if name not in seen and name != _RESERVED:
                seen.add(name)
                todo += code.bodies.get(name, ())
    return ""


def _unknown_call(source: str, code: _Code) -> str:
    """Return the first call of a custom operator whose effect the compiler does not know."""
    if _RESERVED in source:
        return f"{_RESERVED}() takes memory of a size that the operator does not declare"
    parameters = set(re.findall(r"\(\s*\*\s*(\w+)\s*\)", source))
    for name in _CALLED.findall(_plain(source)):
        is_known = name in code.bodies or name in parameters or _COMPUTES.fullmatch(name)
        if not is_known and not any(p.fullmatch(name) for p in _PATTERNS.values()):
            return f"{name}() is not part of the operator's code, so what it does is unknown"
    return ""


def _plain(text: str) -> str:
    """Return C text without comments, and with empty string literals."""
    return _TEXTS.sub('""', _COMMENTS.sub(" ", text))


def _definitions(text: str) -> _Code:
    """Return the functions and macros that a C text defines."""
    code, plain = _Code(), _plain(text)
    for name, body in _DEFINE.findall(plain):
        code.add(name, body)
    functions = _DIRECTIVE.sub("", plain)
    begin, depth, name = 0, 0, ""
    for match in re.finditer(r"[{};]", functions):
        at, sign = match.start(), match.group()
        if sign == "{":
            depth += 1
            if depth == 1:
                head = _HEAD.search(functions[begin:at])
                name, begin = (head.group(1) if head else ""), at
        elif sign == "}":
            depth -= 1
        if depth == 0 and sign != "{":
            if name:
                code.add(name, functions[begin:at])
            begin, name = at + 1, ""
        if depth < 0:  # branches of #if with different braces: anything may be called
            break
    if depth != 0:
        for each in _WORD.findall(functions):
            code.add(each, functions)
    return code

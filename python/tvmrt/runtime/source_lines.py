"""Lines of C++ and Python that an error of tvm-ffi came through, as a traceback shows them."""

from __future__ import annotations

import ast
import re
from types import CodeType, TracebackType

from tvmrt.runtime.packed_func import get_global_func

_LINE = re.compile(r'\s*File "(.+?)", line (\d+), in (.+)')
_BORDER = "call_from_classic"  # of this runtime; what called it is in the caller's own traceback
_MACHINERY = re.compile(r"<unknown>|TVMFFI")


def _code_at(file: str, line: int, name: str) -> CodeType:
    """Code that raises what is called ``error``, and says that it stands there."""
    tree = ast.parse("raise error")
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = -1  # unknown
    return compile(tree, file, "exec").replace(co_name=name)


def _outer(inner: TracebackType | None, file: str, line: int, name: str) -> TracebackType | None:
    """A traceback with one call more around the others; they as they are, if it cannot be made."""
    try:
        exec(_code_at(file, line, name), {"error": StopIteration()})
    except StopIteration as raised:
        here = raised.__traceback__
        there = None if here is None else here.tb_next
        if there is not None:
            return TracebackType(inner, there.tb_frame, there.tb_lasti, line)
    except ValueError:  # a name with a NUL, a line that is no line
        pass
    return inner


def with_lines(error: BaseException, text: str) -> BaseException:
    """Give an exception the lines that the runtime knows of its text, if any.

    Parameters
    ----------
    error
        What the text stands for.
    text
        The error text of this thread.

    Returns
    -------
    BaseException
        The same. Where a function of tvm-ffi raised it, its traceback has the lines that tvm-ffi
        noted: those of C++ where that has debug information or says its file itself, and those of
        Python's functions behind it.
    """
    lines_of = get_global_func("tvmrt.tvm_ffi.lines", allow_missing=True)
    if lines_of is None:
        return error
    trace: TracebackType | None = None
    for found in _LINE.finditer(bytes(lines_of(text)).decode(errors="replace")):
        file, line, name = found.groups()
        if name == _BORDER:
            break
        if file != "<unknown>" or not _MACHINERY.match(name):
            trace = _outer(trace, file, int(line), name)
    return error.with_traceback(trace)

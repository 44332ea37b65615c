"""Add the C++ and Python lines recorded by tvm-ffi to the traceback of an error."""

from __future__ import annotations

import ast
import re
from types import CodeType, TracebackType

from tvmrt.runtime.packed_func import get_global_func

_LINE = re.compile(r'\s*File "(.+?)", line (\d+), in (.+)')
_BORDER = "bridge_call_from_classic"  # the frame of this runtime; Python knows the frames above it
_MACHINERY = re.compile(r"<unknown>|TVMFFI")


def _code_at(file: str, line: int, name: str) -> CodeType:
    """Compile code that raises the variable ``error`` at a given file, line and function."""
    tree = ast.parse("raise error")
    for node in ast.walk(tree):
        if isinstance(node, (ast.expr, ast.stmt)):
            node.lineno = node.end_lineno = line
            node.col_offset = node.end_col_offset = -1  # unknown
    return compile(tree, file, "exec").replace(co_name=name)


def _outer(inner: TracebackType | None, file: str, line: int, name: str) -> TracebackType | None:
    """Return a traceback with one more outer frame, or unchanged if that is impossible."""
    try:
        exec(_code_at(file, line, name), {"error": StopIteration()})
    except StopIteration as raised:
        here = raised.__traceback__
        there = None if here is None else here.tb_next
        if there is not None:
            return TracebackType(inner, there.tb_frame, there.tb_lasti, line)
    except ValueError:  # a NUL in the name, or an invalid line number
        pass
    return inner


def with_lines(error: BaseException, text: str) -> BaseException:
    """Add the source lines that the runtime recorded for an error text, if any.

    Parameters
    ----------
    error
        The exception created from the text.
    text
        The error text of this thread.

    Returns
    -------
    BaseException
        The given exception. If a tvm-ffi function raised it, its traceback includes the lines that
        tvm-ffi recorded: lines of C++ code with debug information or explicit positions, and lines
        of the Python functions called from there.
    """
    lines_of = get_global_func("tvmrt.tvm_ffi.lines", allow_missing=True)
    if lines_of is None:
        return error
    trace: TracebackType | None = None
    for match in _LINE.finditer(bytes(lines_of(text)).decode(errors="replace")):
        file, line, name = match.groups()
        if name == _BORDER:
            break
        if file != "<unknown>" or not _MACHINERY.match(name):
            trace = _outer(trace, file, int(line), name)
    return error.with_traceback(trace)

"""Wording of options for the calling interface: Python or the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Union

_ON_COMMAND_LINE: ContextVar[bool] = ContextVar("on_command_line", default=False)

Bounds = Union[str, Sequence[Union[int, str]]]


@contextmanager
def command_line() -> Iterator[None]:
    """Use the wording of the command line within this context."""
    token = _ON_COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _ON_COMMAND_LINE.reset(token)


def format_dims(dims: Mapping[str, Bounds]) -> str:
    """Return how to declare dimensions: ``dims={"batch": (1, 8)}``, or ``--dim batch=1..8``."""
    if _ON_COMMAND_LINE.get():
        return " ".join(
            "--dim "
            + _quote(f"{n}={b}" if isinstance(b, str) else f"{n}={b[0]}..{b[1]}")
            for n, b in dims.items()
        )  # fmt: skip
    parts = (
        f'"{n}": ' + (f'"{b}"' if isinstance(b, str) else f"({b[0]}, {b[1]})")
        for n, b in dims.items()
    )
    return f"dims={{{', '.join(parts)}}}"


def format_shape(name: str, shape: Sequence[int | str]) -> str:
    """Return how to give an input's shape: ``shapes={"x": [1, 3]}``, or ``--shape x=1,3``."""
    if _ON_COMMAND_LINE.get():
        return "--shape " + _quote(f"{name}={','.join(map(str, shape))}")
    extents = ", ".join(f'"{n}"' if isinstance(n, str) else str(n) for n in shape)
    return f'shapes={{"{name}": [{extents}]}}'


def _quote(text: str) -> str:
    """Quote a text for the shell if necessary."""
    return text if re.fullmatch(r"[\w=.,:/-]+", text) else f"'{text}'"

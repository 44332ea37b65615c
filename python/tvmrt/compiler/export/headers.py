"""Headers of archives and packages: only those that their C code can include."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tvmrt.compiler.codegen.kernel_features import HOST_INSTRUCTIONS
from tvmrt.compiler.codegen.target import Target
from tvmrt.libinfo import find_include_path

_DIRECTIVE = re.compile(
    r'^\s*#\s*(if|ifdef|ifndef|elif|else|endif|include)\b[ \t]*[<"]?([^>"\n]*)', re.MULTILINE
)
_BOARD = f"defined({HOST_INSTRUCTIONS.macro_if_absent})"
_TILE = "defined(TVMRT_MICRO_UNIT)"  # a tile's header includes its parts after defining it


def runtime_headers(texts: Iterable[str], target: Target) -> dict[str, str]:
    """Return the package's headers that C texts include, directly or indirectly, by their path
    below the include folder.

    Conditions that only a compiler can decide are followed both ways, so that any compiler can
    build the C code. Code for boards does not use host instructions, nor vectors of another family.
    """
    boards, others = {_BOARD: True, _TILE: True}, {_BOARD: False, _TILE: True}
    is_riscv = "rv32" in (target.board or ())
    boards["TVMRT_MICRO_MVE_REQUANTIZES" if is_riscv else "TVMRT_MICRO_RVV"] = False
    board_headers: dict[str, str] = {}
    other_headers: dict[str, str] = {}
    for text in texts:
        if f"#define {HOST_INSTRUCTIONS.macro_if_absent}" in text:
            _follow(text, Path(), boards, board_headers)
        else:
            _follow(text, Path(), others, other_headers)
    return board_headers | other_headers


def _follow(text: str, folder: Path, defined: Mapping[str, bool], headers: dict[str, str]) -> None:
    """Add the headers that a text includes, directly or indirectly, under the known conditions."""
    roots = [Path(each) for each in find_include_path()]
    for name in _includes(text, defined):
        paths = (Path(os.path.normpath(folder / name)), Path(name))
        candidates = ((root / path, path) for path in paths for root in roots)
        file, path = next((pair for pair in candidates if pair[0].is_file()), (None, None))
        if file is not None and str(path) not in headers:
            headers[str(path)] = inner = file.read_text()
            _follow(inner, path.parent, defined, headers)


def _includes(text: str, defined: Mapping[str, bool]) -> Iterator[str]:
    """Yield the names that a text includes, where the known conditions do not exclude it."""
    blocks: list[tuple[bool, bool]] = []  # may be reached, and whether a later branch may be
    for kind, rest in _DIRECTIVE.findall(text):
        if kind == "include":
            if all(reached for reached, _ in blocks):
                yield rest
        elif kind == "endif":
            blocks.pop()
        else:
            open_ = blocks.pop()[1] if kind in ("elif", "else") else True
            value = _condition_value(kind, rest.strip(), defined)
            blocks.append((open_ and value is not False, open_ and value is not True))


def _condition_value(kind: str, condition: str, defined: Mapping[str, bool]) -> bool | None:
    """Return whether a branch is taken once it is reached; None if this is not known."""
    if kind == "else":
        return True
    if kind in ("ifdef", "ifndef"):
        condition = f"{'!' * (kind == 'ifndef')}defined({condition})"
    value = defined.get(condition.removeprefix("!"))
    return None if value is None else value != condition.startswith("!")

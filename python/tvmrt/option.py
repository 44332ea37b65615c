"""An option of ``tvmrt.compile`` in words: a row of the table of options."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Row:
    """An option in words.

    Parameters
    ----------
    text
        What it does, for the command's help and for the docstring alike.
    python
        What its value looks like in Python, where that does not go without saying.
    values
        Those that it may have, if they can be listed.
    flag
        The command's name for it; empty where the command has none.
    form
        What stands for the value in the command's help.
    repeated
        Whether the command takes it several times.
    kind
        What the command makes of the text: ``str``, ``int``, ``float``, ``bool`` or ``path``.
    least
        The least value of an ``int``.
    """

    text: str
    python: str = ""
    values: tuple[str, ...] = ()
    flag: str = ""
    form: str = ""
    repeated: bool = False
    kind: str = "str"
    least: int | None = None

    def each(self, value: Any) -> Any:
        """Return the single values of a request's value; a list with None if there is none."""
        several = self.repeated and isinstance(value, (list, tuple, set, frozenset))
        return value if several else [value]


KINDS = ("str", "int", "float", "bool", "path")


@dataclass(frozen=True)
class Option(Row):
    """An option that a plug-in adds to ``tvmrt.compile`` and to ``tvmrt compile``.

    The plug-in's importers, exporters and devices read it as an attribute of the request.

    Parameters
    ----------
    default
        The value of a request that does not name it.
    type
        The type of its values, for the reference and for type checkers.
    group
        The title below which the command's help has it.
    commands
        Names of commands that have it, too, of those that compile for this machine: ``verify``,
        ``bench``, ``report``, ``profile``, ``tune``.
    choose
        The value in place of the default: a function of the request and of whether the target has
        an operating system.
    refused
        A function of the request with everything chosen: a sentence on why it cannot be met, or
        None; it may raise an error with the sentence itself.
    other_networks
        The sentence that refuses a value for networks that no plug-in's importer reads.
    target
        A function of the target and of a value that is not the default: the target to compile for
        in its place, such as ``target.by(guide)`` with a ``tvmrt.compiler.ir.tuned.Guide``.
    file
        A function of such a value: the file that the result depends on, or None.
    recorded
        Whether the manifest of the compiled network has the value.
    """

    default: Any = None
    type: str = "str | None"
    group: str = "The network"
    commands: tuple[str, ...] = ()
    choose: Callable[[Any, bool], Any] | None = None
    refused: Callable[[Any], str | None] | None = None
    other_networks: str = ""
    target: Callable[[Any, Any], Any] | None = None
    file: Callable[[Any], Any] | None = None
    recorded: bool = True

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r} of an option is none of {', '.join(KINDS)}")


def read_option(
    key: str, reference: str, resolve: Callable[[str], Any], reserved: Collection[str]
) -> tuple[Option | None, str]:
    """Read what describes an option, and give it its flag; None and what is wrong otherwise."""
    if not key.isidentifier() or keyword.iskeyword(key) or key.startswith("_"):
        return None, "its name is not a valid Python keyword argument"
    if key in reserved:
        return None, "tvmrt.compile has an option of this name"
    try:
        row = resolve(reference)
    except Exception as error:  # whatever code of somebody else raises
        return None, f"{reference} does not load: {type(error).__name__}: {error}"
    if not isinstance(row, Option):
        return None, f"{reference} is not a tvmrt.plugin.Option"
    flag = f"--{key.replace('_', '-')}"
    return replace(row, flag=f"{flag}/--no-{flag[2:]}" if row.kind == "bool" else flag), ""

"""Descriptions of the options of ``tvmrt.compile``."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class OptionDescription:
    """The description of an option.

    Parameters
    ----------
    text
        Effect of the option, for the command's help and the docstring.
    python
        Form of the value in Python, if it is not obvious.
    values
        Allowed values, if they can be listed.
    flag
        Command-line flag; empty if there is none.
    form
        Placeholder for the value in the command's help.
    repeated
        Whether the flag may be given several times.
    kind
        Type of the command-line value: ``str``, ``int``, ``float``, ``bool`` or ``path``.
    least
        Minimum of an ``int``.
    table
        Meanings of the option by value, or by the option that is given with it; the key may list
        several, separated by commas.
    unit
        Unit of an ``int``: ``bytes``, for which the command accepts 64KiB, or empty.
    group
        Heading of the option in the command's help.
    common
        Whether ``--help`` shows the option; ``--help-all`` shows all.
    """

    text: str
    python: str = ""
    values: tuple[str, ...] = ()
    flag: str = ""
    form: str = ""
    repeated: bool = False
    kind: str = "str"
    least: int | None = None
    table: Mapping[str, str] | None = None
    unit: str = ""
    group: str = "The network"
    common: bool = False

    def each(self, value: Any) -> Any:
        """Return a request's value as a list of single values; [None] if there is none."""
        several = self.repeated and isinstance(value, (list, tuple, set, frozenset))
        return value if several else [value]


KINDS = ("str", "int", "float", "bool", "path")


@dataclass(frozen=True)
class Option(OptionDescription):
    """An option that a plug-in adds to ``tvmrt.compile`` and to ``tvmrt compile``.

    The plug-in's importers, exporters and devices read it as an attribute of the request.

    Parameters
    ----------
    default
        Value if the option is not given.
    type
        Type of the value, for the reference and for type checkers.
    commands
        Further commands with this option, of those that compile for this machine: ``verify``,
        ``bench``, ``report``, ``profile``, ``tune``.
    choose
        A function that replaces the default; its arguments are the request and whether the target
        has an operating system.
    refused
        A function of the fully resolved request that returns an error text or None. It may also
        raise the error itself.
    other_networks
        Error text for a value given for networks that no plug-in's importer reads.
    target
        A function that replaces the target, given the target and a non-default value. It may
        return ``target.by(guide)`` with a ``tvmrt.compiler.ir.tuned.Guide``.
    file
        A function of a non-default value: the file that the result depends on, or None.
    recorded
        Whether the manifest of the compiled network records the value.
    """

    default: Any = None
    type: str = "str | None"
    commands: tuple[str, ...] = ()
    choose: Callable[[Any, bool], Any] | None = None
    refused: Callable[[Any], str | None] | None = None
    other_networks: str = ""
    target: Callable[[Any, Any], Any] | None = None
    file: Callable[[Any], Any] | None = None
    recorded: bool = True

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r} of an option is not one of {', '.join(KINDS)}")


def read_option(
    key: str, reference: str, resolve: Callable[[str], Any], reserved: Collection[str]
) -> tuple[Option | None, str]:
    """Load the description of an option and set its flag; on failure return None and the reason."""
    if not key.isidentifier() or keyword.iskeyword(key) or key.startswith("_"):
        return None, "its name is not a valid Python keyword argument"
    if key in reserved:
        return None, "tvmrt.compile has an option of this name"
    try:
        row = resolve(reference)
    except Exception as error:  # third-party code may raise anything
        return None, f"{reference} does not load: {type(error).__name__}: {error}"
    if not isinstance(row, Option):
        return None, f"{reference} is not a tvmrt.plugin.Option"
    flag = f"--{key.replace('_', '-')}"
    return replace(row, flag=f"{flag}/--no-{flag[2:]}" if row.kind == "bool" else flag), ""

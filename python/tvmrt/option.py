"""Rows of the option table: each describes one option of ``tvmrt.compile``."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvmrt.units import UNITS

KINDS = ("str", "int", "float", "bool", "path")


@dataclass(frozen=True)
class Option:
    """An option of ``tvmrt.compile`` and of ``tvmrt compile``, of tvmrt itself or of a plug-in.

    The keyword argument, the command-line option, its completion, the docstring, the type stub and
    the reference pages are made from it. The stages of the compiler, and the importers, exporters
    and devices of plug-ins, read the value as an attribute of the request.

    Parameters
    ----------
    text
        Effect of the option, for the command's help and the docstring.
    python
        Form of the value in Python, if it is not obvious.
    values
        Allowed values, if they can be listed.
    flag
        Command-line flag. None: made from the name; empty: there is none.
    form
        Placeholder for the value in the command's help.
    repeated
        Whether the flag may be given several times.
    kind
        Type of the command-line value: ``str``, ``int``, ``float``, ``bool`` or ``path``.
    least
        Minimum of a number.
    example
        A Python value for the error text of a wrong type.
    table
        Meanings of the option by value, or by the option that is given with it; the key may list
        several, separated by commas.
    unit
        Unit of a number, which the command accepts in several forms: ``bytes`` (64KiB),
        ``seconds`` (500ms) or ``fraction`` (1%).
    parse
        A function that converts the command-line text, or the list of texts of a repeated option,
        to the Python value. It raises ValueError for a malformed text.
    complete
        A function that returns the values offered by shell completion.
    group
        Heading of the option in the command's help.
    common
        Whether ``--help`` shows the option; ``--help-all`` shows all.
    default
        Value if the option is not given.
    type
        Type of the value, for the reference and for type checkers.
    commands
        Commands with this option in addition to ``compile``, of those that compile for this
        machine.
    choose
        A function that replaces a None; its arguments are the request, with the earlier options
        chosen, and whether the target has an operating system.
    refused
        A function of the fully resolved request that returns an error text or None. It may also
        raise the error itself.
    other_networks
        Error text for a value given for networks that no plug-in's importer reads.
    graph
        A function that changes the optimised ``tvmrt.compiler.ir.Graph`` of the network in place,
        given the graph and a non-default value.
    calls
        A function of a non-default value that returns a subclass of
        ``tvmrt.compiler.codegen.firmware.call_lines.CallLines``: C lines around the calls of
        operators in a firmware network.
    folder_files
        A function of a ``tvmrt.compiler.export.library.CompiledLibrary`` and a non-default value.
        It returns texts of additional files by their paths in an exported folder; other output
        formats are refused. It may raise ValueError or ``tvmrt.error.UnsupportedError``.
    report
        A function that is called after a network is compiled with a non-default value, given the
        resolved request, the model as the caller passed it, a copy of the ``Graph`` as imported,
        and the ``CompiledLibrary``. It may write files, and raise ValueError, OSError or
        ``tvmrt.error.UnsupportedError``.
    recorded
        Whether the manifest of the compiled network records the value.
    cached
        Whether ``tvmrt.load`` compiles again for another value.
    """

    text: str
    python: str = ""
    values: tuple[str, ...] = ()
    flag: str | None = None
    form: str = ""
    repeated: bool = False
    kind: str = "str"
    least: float | None = None
    example: Any = None
    table: Mapping[str, str] | None = None
    unit: str = ""
    parse: Callable[[Any], Any] | None = None
    complete: Callable[[], Sequence[str]] | None = None
    group: str = "The network"
    common: bool = False
    default: Any = None
    type: str = "str | None"
    commands: tuple[str, ...] = ()
    choose: Callable[[Any, bool], Any] | None = None
    refused: Callable[[Any], str | None] | None = None
    other_networks: str = ""
    graph: Callable[[Any, Any], None] | None = None
    calls: Callable[[Any], Any] | None = None
    folder_files: Callable[[Any, Any], Mapping[str, str]] | None = None
    report: Callable[[Any, Any, Any, Any], None] | None = None
    recorded: bool = True
    cached: bool = True

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r} of an option is not one of {', '.join(KINDS)}")
        if self.unit and self.unit not in UNITS:
            raise ValueError(f"unit {self.unit!r} of an option is not one of {', '.join(UNITS)}")

    def named(self, name: str) -> Option:
        """Return the option with a flag made from its name, unless it has one."""
        if self.flag is not None:
            return self
        flag = f"--{name.replace('_', '-')}"
        return replace(self, flag=f"{flag}/--no-{flag[2:]}" if self.kind == "bool" else flag)

    def each(self, value: Any) -> Any:
        """Return a request's value as a list of single values; [None] if there is none."""
        several = self.repeated and isinstance(value, (list, tuple, set, frozenset))
        return value if several else [value]


def read_option(
    key: str, reference: str, resolve: Callable[[str], Any], reserved: Collection[str]
) -> tuple[Option | None, str]:
    """Load a plug-in's option and set its flag; on failure return None and the reason."""
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
    return row.named(key), ""

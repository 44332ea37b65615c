"""Command-line options that are made from rows, types of values, and options of several
commands."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from tvmrt import plugin
from tvmrt.compiler.export import formats
from tvmrt.option import Option
from tvmrt.units import COUNT, UNITS, Unit

HELP_COLUMNS = 44  # width of click's second column in a terminal of 80

PATH = click.Path(path_type=Path)


class Quantity(click.ParamType):
    """A number in a range, with an optional unit.

    Parameters
    ----------
    unit
        Its unit, with the accepted forms.
    least
        Its minimum; with ``above``, a value that is too small.
    most
        Its maximum.
    default
        Suffix that a plain number stands for.
    """

    def __init__(
        self, unit: Unit, least: float | None = 0, *, above: bool = False,
        most: float | None = None, default: str = "",
    ) -> None:  # fmt: skip
        self.name = "n" if unit is COUNT else unit.name  # the placeholder in the help
        self.unit, self._default = unit, default
        self._least, self._above, self._most = least, above, most

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> int | float:
        """Return the number of bytes, seconds or parts of one; fail outside of the range."""
        number: int | float = value
        if isinstance(value, str):
            try:
                number = self.unit.parse(value, self._default)
            except ValueError as problem:
                self.fail(f"{problem}.", param, ctx)
        if self._least is not None and (
            number < self._least or (self._above and number == self._least)
        ):
            bound = "more than" if self._above else "at least"
            self.fail(f"{value} is too small; give {bound} {self._least:g}.", param, ctx)
        if self._most is not None and not number <= self._most:
            self.fail(f"{value} is too large; give at most {self._most:g}.", param, ctx)
        return number


class Formats(click.Choice):
    """The folder formats of plug-ins, which are looked up only when needed."""

    def __init__(self) -> None:
        click.ParamType.__init__(self)  # not click.Choice: choices is a property here
        self.case_sensitive = True

    @property
    def choices(self) -> Sequence[str]:  # type: ignore[override]
        return formats.formats()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        absent = plugin.why_missing("exporters", value)
        if absent or not self.choices:
            self.fail(absent or f"no plug-in adds the format {value}.", param, ctx)
        return super().convert(value, param, ctx)


class GroupedOption(click.Option):
    """An option with a heading of the help; ``common``: whether the short help shows it."""

    def __init__(
        self, *arguments: Any, group: str = "Options", common: bool = True, **more: Any
    ) -> None:
        super().__init__(*arguments, **more)
        self.group = group
        self.common = common


def grouped(*flags: str, group: str, common: bool = False, **more: Any) -> Any:
    """Return ``click.option`` with a heading of the help."""
    return click.option(*flags, cls=GroupedOption, group=group, common=common, **more)


def by_network(
    options: dict[str, Any], networks: list[str], what: str = "INPUT"
) -> dict[str, dict[str, Any]]:
    """Turn ``{"a:x": (1, 3)}`` into ``{"a": {"x": (1, 3)}}`` for the networks of an image; ``what``
    names the key in errors."""
    result: dict[str, dict[str, Any]] = {}
    for key, value in options.items():
        network, colon, name = key.partition(":")
        if not colon or network not in networks:
            raise click.UsageError(
                f"'{key}': of several networks ({', '.join(networks)}), "
                f"name one: NETWORK:{what}=..."
            )
        result.setdefault(network, {})[name] = value
    return result


def row_option(name: str, row: Option) -> click.Option:
    """Return the command-line option for an option of ``tvmrt.compile``; its value has the form
    that ``tvmrt.compile`` takes."""
    arguments: dict[str, Any] = {
        "help": help_text(row), "default": row.default, "group": row.group, "common": row.common,
    }  # fmt: skip
    if row.kind == "bool":
        arguments["is_flag"] = True
    else:
        arguments.update(type=_type_of(row), metavar=row.form or None, multiple=row.repeated)
        arguments["default"] = () if row.repeated else row.default
        arguments["show_default"] = bool(arguments["default"])
    if row.parse is not None:
        arguments["callback"] = partial(_parse, row.parse)
    if row.complete is not None:
        arguments["shell_complete"] = lambda _context, _option, begun: _complete(row, begun)
    return GroupedOption([row.flag or "", name], **arguments)


def _parse(parse: Any, ctx: click.Context, option: click.Parameter, text: Any) -> Any:
    """Return the value of a text, or of the texts of a repeated option; None stays None."""
    try:
        return None if text is None else parse(text)
    except ValueError as problem:
        raise click.BadParameter(f"{problem}.", ctx, option) from None


def _complete(row: Option, begun: str) -> list[str]:
    """Return the completions of a value; in a comma-separated list, of the last item."""
    before, comma, last = begun.rpartition(",") if row.repeated else ("", "", begun)
    known = row.complete() if row.complete is not None else ()
    left = [each for each in known if each not in before.split(",")]
    return [f"{before}{comma}{each}" for each in left if each.startswith(last)]


def help_text(row: Option) -> str:
    """Return an option's help; click does not wrap its table, which is a paragraph with ``\\b``."""
    text = row.text.replace("``", "")
    if row.table is None:
        return text
    lines = [f"{key}: {meaning}" for key, meaning in row.table.items()]
    wrapped = [textwrap.fill(line, HELP_COLUMNS, subsequent_indent="  ") for line in lines]
    return "\n".join([text, "", "\b", *wrapped])


def _type_of(row: Option) -> Any:
    if row.values:
        return click.Choice(row.values)
    if row.unit or row.kind in ("int", "float"):
        return Quantity(UNITS[row.unit or {"int": "count", "float": "number"}[row.kind]], row.least)
    return PATH if row.kind == "path" else str


threads = grouped(
    "--threads", type=Quantity(COUNT, 1), default=1, show_default=True, group="Target",
    help="Maximum number of threads for one operator.",
)  # fmt: skip


inputs_option = click.option(
    "--inputs", "inputs_file", type=PATH, metavar="IN.npz",
    help="Inputs by name. Default: random inputs.",
)  # fmt: skip

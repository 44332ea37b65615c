"""Commands whose options are listed in groups by topic and may come from rows of the option table.

The options of plug-ins and of connections belong to a command line: they are made once for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from tvmrt import plugin
from tvmrt.cli import options
from tvmrt.compiler.request import all_options
from tvmrt.error import TvmrtWarning

REMOTE = "Remote execution"
# Headings of the help in order; options without one come first.
GROUPS = ("Options", "The network", "Target", "Boards", "Devices", REMOTE, "Inspection")
SHORT = 15  # options up to which a help shows all


@dataclass(frozen=True)
class Addition:
    """Options of a command that come from a row or from a connection of a plug-in, its origin."""

    name: str
    origin: Any
    made: Sequence[click.Option]


class GroupedCommand(click.Command):
    """A command whose help lists the options in groups.

    ``--help`` shows common options, ``--help-all`` all of them.

    Parameters
    ----------
    examples
        Command lines at the end of the help.
    rows
        Names of the options of ``tvmrt.compile`` that it has, in addition to those whose row names
        the command. Their values are passed on by name. None: no options of ``tvmrt.compile``.
    takes_all
        Whether it has all options of ``tvmrt.compile``.
    defaults
        Defaults that differ from those of the rows.
    """

    def __init__(
        self, *arguments: Any, examples: Sequence[str] = (), rows: Sequence[str] | None = None,
        takes_all: bool = False, defaults: Mapping[str, Any] | None = None, **more: Any,
    ) -> None:  # fmt: skip
        super().__init__(*arguments, **more)
        self._examples = examples
        self._takes_rows = takes_all or rows is not None
        self._takes_all, self._rows = takes_all, rows or ()
        self._defaults = defaults or {}

    def origins(self) -> Iterator[tuple[str, Any]]:
        """Yield what adds options, with its name: the rows that the command takes."""
        for name, row in all_options().items() if self._takes_rows else ():
            if row.flag and (self._takes_all or name in self._rows or self.name in row.commands):
                yield name, row

    def make_options(self, name: str, origin: Any) -> Sequence[click.Option]:
        """Return the options of an origin. An exception leaves them out."""
        default = self._defaults.get(name, origin.default)
        return [options.row_option(name, replace(origin, default=default))]

    def additions(self, ctx: click.Context) -> list[Addition]:
        """Return the options of all origins, made once per command line."""
        key = f"{__name__}.{id(self)}"
        if key not in ctx.meta:
            ctx.meta[key] = list(self._additions())
        result: list[Addition] = ctx.meta[key]
        return result

    def _additions(self) -> Iterator[Addition]:
        taken = set(_names(self.params))
        for name, origin in self.origins():
            try:
                made = self.make_options(name, origin)
                if clash := [word for word in _names(made) if word in taken]:
                    raise ValueError(f"the command already has the option {clash[0]}")
            except Exception as error:  # third-party code may raise anything
                text = f"{name} is left out: {type(error).__name__}: {error}"
                warnings.warn(text, TvmrtWarning, stacklevel=2)
                continue
            taken.update(_names(made))
            yield Addition(name, origin, made)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters by group, with ``--help-all``."""
        added = [option for each in self.additions(ctx) for option in each.made]
        return sorted([*added, *super().get_params(ctx), _HELP_ALL], key=_position)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; the error for an unused plug-in's option names the plug-in."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if reason := self.why_missing(error.option_name):
                raise click.UsageError(reason, ctx) from error
            raise

    def why_missing(self, flag: str) -> str | None:
        """Return why a command-line option is missing, if an unused plug-in has it."""
        name = flag.lstrip("-").replace("-", "_")
        return plugin.why_missing("options", name) if self._takes_rows else None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the titles of their groups."""
        shown = [p for p in self.get_params(ctx) if isinstance(p, click.Option) and not p.hidden]
        every = len(shown)
        if every > SHORT and not ctx.meta.get(_ALL):
            shown = [p for p in shown if getattr(p, "common", True)]
        found: dict[str, list[tuple[str, str]]] = {}
        for parameter in shown:
            record = parameter.get_help_record(ctx)
            if record is not None:
                found.setdefault(group_of(parameter), []).append(record)
        for title, records in found.items():
            with formatter.section(title):
                formatter.write_dl(records)
        if len(shown) < every:
            more = f"{every - len(shown)} more options: {ctx.command_path} --help-all"
            formatter.write(f"\n{more}\n")
        if self._examples:
            with formatter.section("Examples"):
                for example in self._examples:
                    formatter.write(f"  {example}\n")


def _names(parameters: Sequence[click.Parameter]) -> list[str]:
    """Return the flags and Python names of parameters; no two of a command may be equal."""
    return [word for each in parameters for word in (*each.opts, str(each.name))]


def group_of(parameter: click.Parameter) -> str:
    """Return the heading of a parameter in the help."""
    return str(getattr(parameter, "group", GROUPS[0]))


def _position(parameter: click.Parameter) -> int:
    """Return the position of a parameter's group; groups of plug-ins come last."""
    title = group_of(parameter)
    return GROUPS.index(title) if title in GROUPS else len(GROUPS)


_ALL = f"{__name__}.all"


def _show_all(ctx: click.Context, _option: click.Parameter, is_given: bool) -> None:
    if is_given and not ctx.resilient_parsing:
        ctx.meta[_ALL] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


_HELP_ALL = options.GroupedOption(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_show_all,
    help="Show all options and exit.",
)  # fmt: skip

"""Commands with many options, whose help lists the options in groups by topic."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import click

from tvmrt import plugin
from tvmrt.cli import options
from tvmrt.compiler.request import plugin_options
from tvmrt.error import TvmrtWarning
from tvmrt.option import Option

# Headings of the help in order; options without one come first.
GROUPS = ("Options", "The network", "Target", "Boards", "Devices", "Inspection")
SHORT = 15  # options up to which a help shows all


class GroupedCommand(click.Command):
    """A command whose help lists the options in groups.

    ``--help`` shows common options, ``--help-all`` all of them. ``examples``: lines at the end.
    """

    def __init__(self, *arguments: Any, examples: Sequence[str] = (), **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._examples = examples

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters and ``--help-all``."""
        return [*super().get_params(ctx), _HELP_ALL]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the titles of their groups."""
        shown = [p for p in self.get_params(ctx) if isinstance(p, click.Option) and not p.hidden]
        if len(shown) > SHORT and not ctx.meta.get(_ALL):
            shown = [p for p in shown if getattr(p, "common", True)]
        found: dict[str, list[tuple[str, str]]] = {title: [] for title in GROUPS}
        for parameter in shown:
            record = parameter.get_help_record(ctx)
            if record is not None:
                found.setdefault(getattr(parameter, "group", GROUPS[0]), []).append(record)
        for title, records in found.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if self._examples:
            with formatter.section("Examples"):
                for example in self._examples:
                    formatter.write(f"  {example}\n")


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


class CompileCommand(GroupedCommand):
    """A command that also has the options of plug-ins and passes them on by name."""

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._added: dict[str, tuple[Option, click.Option | None]] = {}  # None: name conflict

    def takes(self, row: Option) -> bool:
        """Return whether it has this option of a plug-in."""
        return True

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own options and those of plug-ins."""
        own = super().get_params(ctx)
        rows = [each for each in plugin_options().items() if self.takes(each[1])]
        return [*own, *filter(None, (self._option(name, row, own) for name, row in rows))]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; the error for an unused plug-in's option names the plug-in."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.lstrip("-").replace("-", "_")
            if reason := plugin.why_missing("options", name):
                raise click.UsageError(reason, ctx) from error
            raise

    def _option(self, name: str, row: Option, own: list[click.Parameter]) -> click.Option | None:
        """Return the cached option of a plug-in; None if its name is taken."""
        if name not in self._added or self._added[name][0] is not row:
            option: click.Option | None = options.added_option(name, row)
            clash = [p for p in own if p.name == name or {*p.opts} & {*row.flag.split("/")}]
            if clash:
                option = None
                text = f"'tvmrt {self.name}' has no option {name} of a plug-in: the name is taken"
                warnings.warn(text, TvmrtWarning, stacklevel=2)
            self._added[name] = row, option
        return self._added[name][1]


class HostCompileCommand(CompileCommand):
    """A command that compiles for this machine, with the plug-in options registered for it."""

    def takes(self, row: Option) -> bool:
        """Return whether it has this option of a plug-in."""
        return self.name in row.commands

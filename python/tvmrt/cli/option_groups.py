"""Commands with many options, whose help lists the options in groups by topic."""

from __future__ import annotations

import warnings
from typing import Any

import click

from tvmrt import plugin
from tvmrt.cli import options
from tvmrt.compiler.request import plugin_options
from tvmrt.error import TvmrtWarning
from tvmrt.option import Option

FIRST = "Options"
# Group titles in order, with their options; all other options come first.
GROUPS = {
    "The network": "shapes dims sequences operators requantize "
    "precision weights winograd row_chains module_name",
    "Target": "target levels runtime executor abi params cc threads",
    "Boards": "board interface_api unpacked_api pools ram place workspace_io concurrent image_name "
    "kind profile record trace_records",
    "Devices": "devices require_device device_fallback device_options schedule mixed_precision "
    "max_error calibration",
    "Inspection": "explain memory_plan dump_dir max_memory as_json",
}
_TITLES = {name: title for title, names in GROUPS.items() for name in names.split()}


class GroupedCommand(click.Command):
    """A command whose help lists the options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options under the titles of their groups."""
        found: dict[str, list[tuple[str, str]]] = {title: [] for title in (FIRST, *GROUPS)}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                title = getattr(parameter, "group", _TITLES.get(parameter.name or "", FIRST))
                found.setdefault(title, []).append(record)
        for title, records in found.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


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

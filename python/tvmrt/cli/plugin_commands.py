"""Commands and subcommands of ``tvmrt`` that plug-ins add."""

from __future__ import annotations

import click

from tvmrt import plugin
from tvmrt.cli import verbosity


def find(name: str) -> click.Command | None:
    """Import the command of a plug-in; return None if there is none of this name.

    Raises
    ------
    click.UsageError
        If only an unused plug-in has it.
    """
    command: click.Command | None = plugin.find("commands", name, click.Command)
    reason = plugin.why_missing("commands", name) if command is None else None
    if reason:
        raise click.UsageError(reason)
    return command


class PluginGroup(click.Group):
    """A command group with subcommands of plug-ins, by the key ``"group subcommand"``."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names, sorted."""
        prefix = f"{self.name} "
        added = [key for key in plugin.keys("commands") if key.startswith(prefix)]
        return sorted({*self.commands, *(key[len(prefix) :] for key in added)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand of the group, or import it from a plug-in."""
        command = self.commands.get(cmd_name) or find(f"{self.name} {cmd_name}")
        return None if command is None else verbosity.add_options(command)

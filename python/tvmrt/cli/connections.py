"""Options of plug-in connections, with which ``run``, ``verify`` and ``bench`` work remotely."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tvmrt import connection, plugin
from tvmrt.cli.option_groups import REMOTE, GroupedCommand

ARGUMENT = "remote"


@dataclass(frozen=True)
class SelectedConnection:
    """A connection selected on the command line, and the values of its options."""

    key: str
    connection: connection.Connection
    values: Mapping[str, Any]


class RemoteExecution:
    """The remote execution that a command line requests, if any.

    Parameters
    ----------
    asked
        The selected connections.
    """

    def __init__(self, selected: Sequence[SelectedConnection]) -> None:
        self._selected = selected
        self.is_remote = bool(selected)

    def takes(self, path: Path) -> bool:
        """Return whether a file that does not run locally runs on the selected machine."""
        return any(each.connection.takes(path, each.values) for each in self._selected)

    def open(self) -> connection.RemoteMachine | None:
        """Connect and return the Place, closed at the end of the command; None to run locally."""
        if len(self._selected) > 1:
            first, second = (each.key for each in self._selected[:2])
            raise click.UsageError(f"give {first} or {second}, not both")
        if not self._selected:
            return None
        (selected,) = self._selected
        remote_machine = selected.connection.open(selected.values)
        if remote_machine is not None:
            remote_machine.option = selected.key
            click.get_current_context().call_on_close(remote_machine.close)
        return remote_machine


class ConnectedCommand(GroupedCommand):
    """A command with the options of all connections; its function takes ``remote``.

    Parameters
    ----------
    connected
        Name of the command for connections; its own name by default.
    """

    def __init__(self, *arguments: Any, connected: str = "", **more: Any) -> None:
        super().__init__(*arguments, **more)
        self._connected = connected or str(self.name)

    def origins(self) -> Iterator[tuple[str, Any]]:
        """Yield what adds options, with its name: rows and connections."""
        yield from super().origins()
        yield from connection.connections()

    def make_options(self, name: str, origin: Any) -> Sequence[click.Option]:
        """Return the options of an origin; the short help has the first one of a connection."""
        if not isinstance(origin, connection.Connection):
            return super().make_options(name, origin)
        made = origin.options(self._connected)
        for number, option in enumerate(made):
            for word in (*option.opts, *option.secondary_opts):
                if not _belongs(name, word):
                    raise ValueError(f"its option {word} must be {name}, or begin with {name}-")
            vars(option).setdefault("group", REMOTE)
            vars(option).setdefault("common", number == 0)
        return made

    def why_missing(self, flag: str) -> str | None:
        """Return why a command-line option is missing, if an unused plug-in has it."""
        for each in plugin.unused():
            for key in each.plugin.connections if each.plugin is not None else ():
                if _belongs(key, flag):
                    return plugin.why_missing("connections", key)
        return super().why_missing(flag)

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function with the selected connections as ``remote``."""
        selected = []
        for each in self.additions(ctx):
            if isinstance(each.origin, connection.Connection):
                values = {str(one.name): ctx.params.pop(str(one.name), None) for one in each.made}
                if any(_is_set(ctx, name) for name, value in values.items() if value):
                    selected.append(SelectedConnection(each.name, each.origin, values))
        ctx.params[ARGUMENT] = RemoteExecution(selected)
        return super().invoke(ctx)


def _belongs(key: str, option: str) -> bool:
    return option == key or option.startswith(f"{key}-")


def _is_set(ctx: click.Context, name: str) -> bool:
    """Return whether the command line sets a parameter."""
    source = ctx.get_parameter_source(name)
    return source not in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP)

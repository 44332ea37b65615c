"""Options of plug-in connections, with which ``run``, ``verify`` and ``bench`` work remotely."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from tvmrt import connection, plugin
from tvmrt.cli.option_groups import HostCompileCommand
from tvmrt.error import TvmrtWarning

ARGUMENT = "remote"
_Row = tuple[str, connection.Connection, Sequence[click.Option]]  # key, connection, options


@dataclass(frozen=True)
class SelectedConnection:
    """A connection selected on the command line, the values of its options, and the arguments
    that set them."""

    key: str
    connection: connection.Connection
    values: Mapping[str, Any]
    words: Sequence[str]


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
        self.words = [word for each in selected for word in each.words]

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


class _Placeholder(click.Option):
    """A placeholder for the options of connections among the options of a command."""

    def __init__(self, declarations: Sequence[str], command: str) -> None:
        super().__init__(declarations, hidden=True, expose_value=False)
        self.command = command


def options(command: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate the function of a :class:`ConnectedCommand` to insert the options of connections.

    The function takes the argument ``elsewhere``; ``command`` is passed to connections.
    """
    return click.option("--connections", cls=_Placeholder, command=command)


class ConnectedCommand(click.Command):
    """A command with the options of all connections; its function takes ``elsewhere``."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, with the options of connections in place of the placeholder."""
        result: list[click.Parameter] = []
        for parameter in super().get_params(ctx):
            if isinstance(parameter, _Placeholder):
                result += [each for row in self._rows(ctx, parameter) for each in row[2]]
            else:
                result.append(parameter)
        return result

    def _rows(self, ctx: click.Context, placeholder: _Placeholder) -> list[_Row]:
        """Return the connections with their options, created once per command line."""
        key = f"{__name__}.{placeholder.command}"
        if key not in ctx.meta:
            own = set(_names(self.params))
            rows: list[_Row] = []
            for name, each in connection.connections():
                try:
                    made = each.options(placeholder.command)
                    _check(name, made, own)
                except Exception as error:  # third-party code may raise anything
                    text = f"{name} is left out: {type(error).__name__}: {error}"
                    warnings.warn(text, TvmrtWarning, stacklevel=2)
                    continue
                own.update(_names(made))
                rows.append((name, each, made))
            ctx.meta[key] = rows
        result: list[_Row] = ctx.meta[key]
        return result

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; for an option of an unused plug-in, the error names the plug-in."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            for each in plugin.unused():
                for key in each.plugin.connections if each.plugin is not None else ():
                    if _belongs(key, error.option_name):
                        reason = plugin.why_missing("connections", key)
                        raise click.UsageError(reason or "", ctx) from None
            raise

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function with the selected connections as ``elsewhere``."""
        selected = []
        for placeholder in self.params:
            if isinstance(placeholder, _Placeholder):
                for key, each, made in self._rows(ctx, placeholder):
                    values = {str(one.name): ctx.params.pop(str(one.name), None) for one in made}
                    words = _words(ctx, made, values)
                    if words:
                        selected.append(SelectedConnection(key, each, values, words))
        ctx.params[ARGUMENT] = RemoteExecution(selected)
        return super().invoke(ctx)


class RemoteHostCompileCommand(ConnectedCommand, HostCompileCommand):
    """A command that compiles for this machine and has the options of all connections."""


def _belongs(key: str, option: str) -> bool:
    return option == key or option.startswith(f"{key}-")


def _names(parameters: Sequence[click.Parameter]) -> list[str]:
    """Return the flags and Python names of parameters; no two of a command may be equal."""
    return [word for each in parameters for word in (*each.opts, str(each.name))]


def _check(key: str, made: Sequence[click.Option], own: set[str]) -> None:
    """Raise ValueError for options that violate the naming rules or exist already."""
    for option in made:
        for word in (*option.opts, *option.secondary_opts):
            if not _belongs(key, word):
                raise ValueError(f"its option {word} must be {key}, or begin with {key}-")
        for word in _names([option]):
            if word in own:
                raise ValueError(f"the command already has the option {word}")


def _words(
    ctx: click.Context, made: Sequence[click.Option], values: Mapping[str, Any]
) -> list[str]:
    """Return the arguments that set option values; none if no option was given."""
    words: list[str] = []
    for option in made:
        value = values[str(option.name)]
        source = ctx.get_parameter_source(str(option.name))
        if not value or source in (ParameterSource.DEFAULT, ParameterSource.DEFAULT_MAP):
            continue
        for each in value if option.multiple else [value]:
            several = each if option.nargs != 1 else () if option.is_flag else [each]
            words += [option.opts[0], *map(str, several)]
    return words

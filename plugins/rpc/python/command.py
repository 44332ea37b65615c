"""``tvmrt rpc``: the servers of remote calls."""

import click

from tvmrt.cli.plugin_commands import PluginGroup


@click.group("rpc", cls=PluginGroup)
def command() -> None:
    """Serve remote calls, or assign servers to clients."""

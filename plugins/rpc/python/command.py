"""``tvmrt rpc server`` and ``tvmrt rpc tracker``, which assigns free servers to clients."""

from __future__ import annotations

from typing import Any, Callable

import click

from tvmrt.cli import console, options
from tvmrt.cli.plugin_commands import PluginGroup
from tvmrt.units import COUNT

ANYONE = "anyone who reaches this port can run code here"


def listening(port: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the options of the listening address."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            click.option(
                "--port", type=options.Quantity(COUNT, most=65535), default=port,
                show_default=True, help="Port to listen at; 0: any free port.",
            ),
            click.option(
                "--host", default="127.0.0.1", show_default=True, help="Address to listen on."
            ),
        ):  # fmt: skip
            function = option(function)
        return function

    return add


@click.group("rpc", cls=PluginGroup)
def command() -> None:
    """Serve remote calls, or assign servers to clients."""


@click.command("server")
@listening(9090)
@click.option("--key", default="", help="Key that clients must give.")
@click.option("--tracker", metavar="HOST:PORT", help="Tracker to register with under the key.")
@click.option("--custom-addr", metavar="HOST", help="Address that the tracker gives to clients.")
def server(host: str, port: int, key: str, tracker: str | None, custom_addr: str | None) -> None:
    """Serve remote calls of tvmrt and TVM clients, until Ctrl-C.

    A client with the key can run any code as the user of this command.
    """
    from tvmrt.rpc.server import Listener

    listener = Listener(host, port, 0, tracker, key, custom_addr, click.echo)
    click.echo(f"serving at {host}:{listener.port}")
    if host not in ("127.0.0.1", "localhost", "::1") and not key:
        console.note(f"without --key {ANYONE}")
    try:
        listener.run()
    finally:
        listener.close()


@click.command("tracker")
@listening(9190)
def tracker(host: str, port: int) -> None:
    """Assign free remote-call servers to clients by key, until Ctrl-C."""
    from tvmrt.rpc.tracker import Tracker

    process = Tracker(host, port, port)
    click.echo(f"tracking at {host}:{process.port}")
    try:
        process.wait()
    finally:
        process.terminate()

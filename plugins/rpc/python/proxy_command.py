"""``tvmrt rpc-proxy``: join servers and clients that cannot reach each other."""

from __future__ import annotations

import click

from tvmrt.cli import options
from tvmrt.plugins.rpc.server_command import listening
from tvmrt.units import SECONDS


@click.command("rpc-proxy")
@listening(9090)
@click.option(
    "--client-seconds", type=options.Quantity(SECONDS, above=True), default="10min", metavar="TIME",
    show_default=True, help="Time that a client waits for a server.",
)  # fmt: skip
@click.option(
    "--server-seconds", type=options.Quantity(SECONDS, above=True), default="10min", metavar="TIME",
    show_default=True, help="Time that a server waits for a client before it reconnects.",
)  # fmt: skip
def command(
    host: str, port: int, port_end: int, client_seconds: float, server_seconds: float
) -> None:
    """Join remote-call servers with clients of equal key, until Ctrl-C.

    Servers connect with 'tvmrt rpc-server --proxy HOST:PORT', clients with '--rpc HOST:PORT'.
    """
    from tvmrt.rpc.proxy import Proxy

    proxy = Proxy(host, port, port_end, client_seconds, server_seconds)
    click.echo(f"joining at {host}:{proxy.port}")
    try:
        proxy.wait()
    finally:
        proxy.terminate()

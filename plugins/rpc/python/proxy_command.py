"""``tvmrt rpc-proxy``: join servers and clients that cannot reach each other."""

from __future__ import annotations

import click

from tvmrt.plugins.rpc.server_command import listening


@click.command("rpc-proxy")
@listening(9090)
def command(host: str, port: int, port_end: int) -> None:
    """Join remote-call servers with clients of equal key, until Ctrl-C.

    Servers connect with 'tvmrt rpc-server --proxy HOST:PORT', clients with '--rpc HOST:PORT'.
    """
    from tvmrt.rpc.proxy import Proxy

    proxy = Proxy(host, port, port_end)
    click.echo(f"joining at {host}:{proxy.port}")
    try:
        proxy.wait()
    finally:
        proxy.terminate()

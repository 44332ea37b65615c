"""``tvmrt rpc server``: let remote clients run uploaded code on this machine."""

from __future__ import annotations

from typing import Any, Callable

import click

from tvmrt.cli import console, options
from tvmrt.units import COUNT, SECONDS

ANYONE = "anyone who reaches this port can run code here"


def listening(first_port: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds the listening address options."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in (
            click.option(
                "--port-end", type=options.Quantity(COUNT, 1, most=65536), default=9199,
                show_default=True,
                help="End of the port range (exclusive).",
            ),
            click.option(
                "--port", type=options.Quantity(COUNT, most=65535), default=first_port,
                show_default=True,
                help="First port to try; 0: any free port.",
            ),
            click.option(
                "--host", default="127.0.0.1", show_default=True, help="Address to listen on."
            ),
        ):  # fmt: skip
            function = option(function)
        return function

    return add


@click.command("server")
@listening(9090)
@click.option("--key", default="", help="Key that clients must give.")
@click.option("--tracker", metavar="HOST:PORT", help="Tracker to register with under the key.")
@click.option("--custom-addr", metavar="HOST", help="Address that the tracker gives to clients.")
@click.option(
    "--sessions", type=options.Quantity(COUNT, 1, most=64), default=1, show_default=True,
    help="Maximum number of clients at a time; further ones wait.",
)  # fmt: skip
@click.option(
    "--session-seconds", type=options.Quantity(SECONDS), default=0.0, metavar="TIME",
    help="Maximum duration of a session: 90, 10min, 2h; 0: no limit.",
)  # fmt: skip
@click.option(
    "--idle-seconds", type=options.Quantity(SECONDS), default=0.0, metavar="TIME",
    help="Close sessions without a message for this long; 0: no limit.",
)  # fmt: skip
def command(
    host: str, port: int, port_end: int, key: str, tracker: str | None,
    custom_addr: str | None, sessions: int, session_seconds: float, idle_seconds: float,
) -> None:  # fmt: skip
    """Serve remote calls of tvmrt and TVM clients, until Ctrl-C.

    A client with the key can run any code as the user of this command.
    """
    from tvmrt.rpc.server import Listener

    settings: dict[str, Any] = {
        "max_sessions": sessions,
        "session_seconds": session_seconds,
        "idle_seconds": idle_seconds,
    }
    listener = Listener(host, port, port_end, key, tracker, custom_addr, click.echo, **settings)
    click.echo(f"serving at {host}:{listener.port}")
    if host not in ("127.0.0.1", "localhost", "::1") and not key:
        console.note(f"without --key {ANYONE}")
    try:
        listener.run()
    finally:
        listener.close()

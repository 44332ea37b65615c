"""``tvmrt rpc-tracker``: who wants a board asks it, not the board."""

from __future__ import annotations

import click


@click.command("rpc-tracker")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=9190, show_default=True,
    help="First port to try; 0 for any.",
)  # fmt: skip
@click.option(
    "--port-end", type=click.IntRange(1, 65536), default=9199, show_default=True,
    help="The port after the last one to try.",
)  # fmt: skip
def command(host: str, port: int, port_end: int) -> None:
    """Hand out servers of remote calls to those who ask for their key, until Ctrl-C."""
    from tvmrt.rpc.tracker import Tracker

    tracker = Tracker(host, port, port_end)
    click.echo(f"tracking at {host}:{tracker.port}")
    try:
        tracker.wait()
    finally:
        tracker.terminate()

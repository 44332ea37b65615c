"""``tvmrt rpc tracker``: assign free servers to clients by key."""

from __future__ import annotations

import click

from tvmrt.plugins.rpc.server_command import listening


@click.command("tracker")
@listening(9190)
def command(host: str, port: int) -> None:
    """Assign free remote-call servers to clients by key, until Ctrl-C."""
    from tvmrt.rpc.tracker import Tracker

    tracker = Tracker(host, port, port)
    click.echo(f"tracking at {host}:{tracker.port}")
    try:
        tracker.wait()
    finally:
        tracker.terminate()

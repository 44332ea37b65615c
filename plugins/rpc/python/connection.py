"""Command options that select a server, a tracker's server or a board."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt.connection import Connection
from tvmrt.file_suffix import suffix_of
from tvmrt.plugins.rpc.constants import IMAGE, QEMU

if TYPE_CHECKING:
    import click

    from tvmrt.connection import RemoteMachine

LINE = "serial:"


def is_board(rpc: str) -> bool:
    """Return whether a value of --rpc names a board's line rather than a server."""
    return rpc == QEMU or rpc.startswith(LINE)


class RemoteCalls(Connection):
    """Connection to remote-call servers on other machines and to boards."""

    suffixes = {IMAGE: "run it with --rpc serial:PATH or --rpc qemu"}  # noqa: RUF012
    boards = "run its image with --rpc qemu, or with --rpc serial:PATH on a board"

    def options(self, command: str) -> Sequence[click.Option]:
        """Return the options that select a remote device."""
        import click

        return [
            click.Option(
                ["--rpc"], metavar="HOST[:PORT]|LINE",
                help="Run on this 'tvmrt rpc server', on a board at serial:PATH[:BAUD], or on a "
                "board emulated by QEMU: qemu.",
            ),
            click.Option(
                ["--rpc-tracker"], metavar="HOST[:PORT]",
                help="Run on a free server with the key --rpc-key of this tracker.",
            ),
            click.Option(
                ["--rpc-key"], default="", metavar="KEY", help="The server's key, or the tracker's."
            ),
        ]  # fmt: skip

    def takes(self, path: Path, values: Mapping[str, Any]) -> bool:
        """Whether --rpc handles the file; its device rejects an image if it is not a board."""
        return suffix_of(path) == IMAGE and bool(values["rpc"])

    def open(self, values: Mapping[str, Any]) -> RemoteMachine | None:
        """Return the server or board that the options name; None if they name none."""
        import click

        rpc, tracker, key = values["rpc"], values["rpc_tracker"], values["rpc_key"]
        if rpc and tracker:
            raise click.UsageError("give either --rpc or --rpc-tracker")
        if rpc and is_board(rpc):
            if key:
                raise click.UsageError("--rpc-key is for servers; a board has no key")
            from tvmrt.plugins.rpc.board import RemoteBoard

            return RemoteBoard(rpc)
        if key and not rpc and not tracker:
            raise click.UsageError("--rpc-key needs --rpc or --rpc-tracker")
        from tvmrt.plugins.rpc import machine

        if rpc:
            return machine.connect(rpc, key)
        return machine.request(tracker, key) if tracker else None

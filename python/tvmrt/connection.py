"""Connections for running networks remotely with ``tvmrt run``, ``verify`` and ``bench``.

A plug-in subclasses :class:`Connection`, :class:`RemoteMachine` and :class:`RemoteNetwork`, and
enters the connection in its table ``connections``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt import plugin
from tvmrt.error import warn

if TYPE_CHECKING:
    import click
    import numpy as np

    from tvmrt.compiler.export.library import CompiledLibrary
    from tvmrt.tensor_info import TensorInfo

LIBRARY = ".so"


class RemoteNetwork:
    """A network that is loaded on a remote machine or board.

    Attributes
    ----------
    inputs
        Name, type and shape of each input.
    output_names
        Names of the outputs, in order.
    bounds
        Minimum and maximum extent of each dynamic dimension, by name.
    """

    inputs: Sequence[TensorInfo] = ()
    output_names: Sequence[str] = ()
    bounds: Mapping[str, Sequence[int]] = {}

    def run(self, arrays: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Run the network once and return its outputs in order."""
        raise NotImplementedError(f"{type(self).__name__} has no run()")

    def time(self, repeat: int) -> Sequence[float]:
        """Return the seconds of ``repeat`` runs on the inputs of the last :meth:`run`, without
        transfer times."""
        raise NotImplementedError(f"{type(self).__name__} has no time()")


class RemoteMachine:
    """A remote machine or board that runs networks, reached by a :class:`Connection`.

    Attributes
    ----------
    suffix
        Suffix of the files that ``verify`` and ``bench`` compile for it: ``.so`` or ``.elf``.
    option
        The command-line option that selected it, for errors; set by the command.
    """

    suffix = LIBRARY
    option = ""

    def compile_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options of ``tvmrt.compile`` for a network that will run there."""
        return options

    def check(self, library: CompiledLibrary) -> None:
        """Raise ValueError if a network was compiled for it but does not run there."""

    def open(self, path: Path, threads: int | None) -> RemoteNetwork:
        """Load the network from a compiled local file.

        Parameters
        ----------
        path
            A local file.
        threads
            Maximum number of threads of one operator; None for the default of that machine.
        """
        raise NotImplementedError(f"{type(self).__name__} has no open()")

    def close(self) -> None:
        """Disconnect; called once, at the end of the command."""


class Connection:
    """Command-line options for remote execution, and the machine that their values select.

    Attributes
    ----------
    suffixes
        Maps a suffix of compiled files that run only remotely to advice for the error on local
        execution: ``{".elf": "--rpc qemu runs it there"}``.
    boards
        Advice for the error if a network compiled for a board is executed locally.
    """

    suffixes: Mapping[str, str] = {}
    boards = ""

    def options(self, command: str) -> Sequence[click.Option]:
        """Return the options that this connection adds to a command.

        The first has the name of the connection's key; the others begin with that name and ``-``.
        The connection is used if one of them has a non-empty value.

        Parameters
        ----------
        command
            ``run``, ``verify`` or ``bench``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no options()")

    def takes(self, path: Path, values: Mapping[str, Any]) -> bool:
        """Return whether it runs a file that does not run locally; see :meth:`open` for ``values``.

        Such a file is then executed remotely.
        """
        return False

    def open(self, values: Mapping[str, Any]) -> RemoteMachine | None:
        """Connect to the machine that the option values select.

        Parameters
        ----------
        values
            Values of the options, by their Python names: ``--rpc-key`` is ``rpc_key``.

        Returns
        -------
        RemoteMachine, or None to run on this machine instead

        Raises
        ------
        click.UsageError
            If the options contradict each other.
        OSError, ValueError, tvmrt.TVMError
            If the connection fails.
        """
        raise NotImplementedError(f"{type(self).__name__} has no open()")


def connections() -> Iterator[tuple[str, Connection]]:
    """Yield all connections of plug-ins by key; one whose code does not load is left out."""
    for key in plugin.keys("connections"):
        try:
            connection: Connection = plugin.find("connections", key, Connection)  # type: ignore[assignment]
        except Exception as error:  # third-party code may raise anything
            text = f"{key} is left out: {type(error).__name__}: {error}"
            warn(text)
            continue
        yield key, connection


def advice_for_file(suffix: str) -> str:
    """Return advice on running a file that does not run locally, as the end of a sentence."""
    texts = (each.suffixes.get(suffix) for _, each in connections())
    return next((f": {text}" for text in texts if text), ", which this machine does not run")


def advice_for_board() -> str:
    """Return advice on running a network for a board, as the end of a sentence."""
    texts = (each.boards for _, each in connections())
    return next((f": {text}" for text in texts if text), ", whose code this machine does not run")

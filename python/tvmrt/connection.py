"""Ways to reach a network in another place, by which ``tvmrt run``, ``verify`` and ``bench`` work.

A plug-in subclasses :class:`Connection`, :class:`Place` and :class:`RemoteNetwork`, and enters the
first in its table ``connections``.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvmrt import plugin
from tvmrt.error import Remark

if TYPE_CHECKING:
    import click
    import numpy as np

    from tvmrt.compiler.export.library import CompiledLibrary
    from tvmrt.tensor_info import TensorInfo

LIBRARY = ".so"


class RemoteNetwork:
    """A network that is loaded in another place.

    Attributes
    ----------
    inputs
        Name, type and shape of each input.
    output_names
        The names of the outputs in their order.
    bounds
        Least and largest extent of each dimension that a run chooses, by its name.
    """

    inputs: Sequence[TensorInfo] = ()
    output_names: Sequence[str] = ()
    bounds: Mapping[str, Sequence[int]] = {}

    def run(self, arrays: Mapping[str, np.ndarray]) -> Sequence[np.ndarray]:
        """Run the network once; return its outputs in their order."""
        raise NotImplementedError(f"{type(self).__name__} has no run()")

    def time(self, repeat: int) -> Sequence[float]:
        """Return the seconds of each of so many runs on the inputs of the last one, without the way
        there."""
        raise NotImplementedError(f"{type(self).__name__} has no time()")


class Place:
    """A place where networks run, reached by a :class:`Connection`.

    Attributes
    ----------
    suffix
        Suffix of the files that ``verify`` and ``bench`` compile for it: ``.so`` or ``.elf``.
    option
        The option that asked for it, for errors; the command sets it.
    """

    suffix = LIBRARY
    option = ""

    def compile_options(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the options of ``tvmrt.compile`` for a network that is to run there."""
        return options

    def check(self, library: CompiledLibrary) -> None:
        """Raise ValueError for a network that was compiled for it and does not run there."""

    def open(self, path: Path, threads: int | None) -> RemoteNetwork:
        """Load the network of a compiled file of this machine.

        Parameters
        ----------
        path
            A file of this machine.
        threads
            How many threads may run one operator; as many as that place likes if None.
        """
        raise NotImplementedError(f"{type(self).__name__} has no open()")

    def close(self) -> None:
        """Leave the place; called once, at the end of the command."""


class Connection:
    """Options of the commands that run networks, and the place that their values name.

    Attributes
    ----------
    suffixes
        Suffix of compiled files that run in its places alone to how they are run, for the error
        where one is to run on this machine: ``{".elf": "--rpc qemu runs it there"}``.
    boards
        How networks for a board are run, for the same error of those that are compiled for one.
    """

    suffixes: Mapping[str, str] = {}
    boards = ""

    def options(self, command: str) -> Sequence[click.Option]:
        """Return the options of one command.

        The first is named as the connection's key; the names of all others begin with it and
        ``-``. The connection is asked for where one of them has a value that is not empty.

        Parameters
        ----------
        command
            ``run``, ``verify``, ``bench``, or ``tvmc run``, whose options are passed to ``run``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no options()")

    def takes(self, path: Path, values: Mapping[str, Any]) -> bool:
        """Whether it runs a file that does not run on this machine; ``values`` as of :meth:`open`.

        Such a file is then left to the place.
        """
        return False

    def open(self, values: Mapping[str, Any]) -> Place | None:
        """Reach the place that is asked for.

        Parameters
        ----------
        values
            What the options have, by their Python names: ``--rpc-key`` is ``rpc_key``.

        Returns
        -------
        Place, or None to run on this machine after all

        Raises
        ------
        click.UsageError
            If the options do not go together.
        OSError, ValueError, tvmrt.TVMError
            If the place cannot be reached.
        """
        raise NotImplementedError(f"{type(self).__name__} has no open()")


def connections() -> Iterator[tuple[str, Connection]]:
    """All connections of plug-ins by their keys; one whose code does not load is left out."""
    for key in plugin.keys("connections"):
        try:
            made: type[Connection] = plugin.find("connections", key)  # type: ignore[assignment]
            found = made()
        except Exception as error:  # whatever code of somebody else raises
            text = f"{key} is left out: {type(error).__name__}: {error}"
            warnings.warn(text, Remark, stacklevel=2)
            continue
        yield key, found


def advice_for_file(suffix: str) -> str:
    """How a file is run that does not run on this machine, as the end of a sentence."""
    texts = (each.suffixes.get(suffix) for _, each in connections())
    return next((f": {text}" for text in texts if text), ", which this machine does not run")


def advice_for_board() -> str:
    """How a network for a board is run, as the end of a sentence."""
    texts = (each.boards for _, each in connections())
    return next((f": {text}" for text in texts if text), ", whose code this machine does not run")

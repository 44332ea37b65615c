"""Sessions: callers of one network that keep some of its inputs, such as caches, as states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, cast

import numpy as np

from tvmrt.network.stream import Stream


class KeepsStates(Protocol):
    """What a session needs of its network in addition to a stream."""

    def copied(self) -> dict[str, np.ndarray[Any, Any]]: ...

    def restart(self, states: Mapping[str, Any] | None) -> None: ...


class Session(Stream):
    """Sequence of calls of a network whose states are outputs of the call before; see
    ``Network.session``.

    A call takes the other inputs and returns the other outputs. States begin with zeros; dimensions
    that grow, such as the length of a cache, with 0. The first call determines the sizes of other
    dimensions, such as a batch of sequences, up to ``reset``. Any number of sessions share the
    weights. Calls of one session wait for each other, those of several run concurrently.
    """

    @property
    def states(self) -> dict[str, np.ndarray[Any, Any]]:
        """Copies of the states by the names of their inputs; empty before the first call."""
        return cast("KeepsStates", self._open()).copied()

    def reset(self, states: Mapping[str, Any] | None = None) -> None:
        """Start again: from these states, which are copied, or from the initial ones. Raise
        ValueError after ``close``, and for states that the network does not take."""
        cast("KeepsStates", self._open()).restart(states)

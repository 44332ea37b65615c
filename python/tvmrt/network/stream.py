"""Streams: callers of one network, each with its own state."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    from tvmrt.tensor_info import TensorInfo


class StatefulNetwork(Protocol):
    """What a stream needs of ``Network``."""

    @property
    def inputs(self) -> tuple[TensorInfo, ...]: ...

    @property
    def outputs(self) -> tuple[TensorInfo, ...]: ...

    def __call__(self, /, *inputs: Any, **named: Any) -> Any: ...

    def reset_state(self) -> None: ...


class Stream:
    """Sequence of calls of a network that keeps state between them; see ``Network.stream``.

    ``stream(x)`` takes the next part of the input and returns the results, as a call of the network
    does. Any number of streams of one network may be in use, each with inputs, outputs, state and
    intermediate tensors of its own. Calls of one stream from several threads wait for each other;
    those of different streams run concurrently. ``with network.stream() as stream`` closes it.
    Copies and pickles raise TypeError.
    """

    def __init__(self, network: StatefulNetwork) -> None:
        self._network: StatefulNetwork | None = network

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Run the network on the next part of the input; arguments, results and errors are those
        of ``Network.__call__``. Raise ValueError after ``close``."""
        return self._open()(*inputs, **named)

    def reset(self) -> None:
        """Start again from the initial state, as a new stream does. Raise ValueError after
        ``close``."""
        self._open().reset_state()

    def close(self) -> None:
        """Release the memory of the stream. A call in progress finishes first."""
        self._network = None

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, type and shape of each part that a call takes."""
        return self._open().inputs

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, type and shape of each result of a call."""
        return self._open().outputs

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a stream cannot be copied or pickled, because its state stays in this process; create "
            "another with network.stream()"
        )

    def __repr__(self) -> str:
        return f"stream of {self._network!r}" if self._network is not None else "closed stream"

    def _open(self) -> StatefulNetwork:
        if self._network is None:
            raise ValueError("the stream is closed; create another with network.stream()")
        return self._network

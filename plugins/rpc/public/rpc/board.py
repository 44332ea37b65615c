"""Boards: microcontrollers that answer remote calls over a serial line."""

from __future__ import annotations

import contextlib
import struct
import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

from tvmrt.error import TVMError
from tvmrt.runtime.ndarray import NDArray
from tvmrt.runtime.packed_func import get_global_func

from .board_lines import Line, open_line
from .client import RPCSession

__all__ = ["BoardNetwork", "BoardSession", "connect_board"]

_REPEATS = 64  # maximum number of times in one answer of a board, at any packet size


def _disconnect(close: Any, line: Line) -> None:
    with contextlib.suppress(TVMError, ConnectionError):
        close()
    line.close()


class BoardSession(RPCSession):
    """Session with a board, made by connect_board(). Closing it resets the board.

    Functions, modules, devices and tensors of :class:`RPCSession` are available, files are not.
    """

    def __init__(self, line: Line, start: float, answer: float, retry: float) -> None:
        connect = get_global_func("micro._rpc_connect")
        micros = [int(seconds * 1e6) for seconds in (retry, start, answer)]
        try:
            module = connect(line.name, line.send, line.receive, *micros, None, False)
        except BaseException:
            line.close()
            raise
        super().__init__(module)
        # Without a finaliser, QEMU and the board's session would outlive the interpreter.
        self._disconnect = weakref.finalize(self, _disconnect, module["CloseRPCConnection"], line)

    def close(self) -> None:
        """End the session, reset the board and close the line."""
        self._disconnect()


def connect_board(
    address: str | Line,
    start_seconds: float = 15.0,
    answer_seconds: float = 10.0,
    retry_seconds: float = 0.5,
) -> BoardSession:
    """Return a session with a board whose image contains the remote-call server.

    Lost or corrupted packets are sent again; the board executes each call once. TVM's own servers
    do not number their requests, so there a lost packet ends the session.

    Parameters
    ----------
    address
        The line, or its name: ``serial:PATH[:BAUD]``.
    start_seconds
        Time limit for the board to begin a session.
    answer_seconds
        Time limit for an answer of the board; a call in execution may take 60 times as long.
    retry_seconds
        Time until a packet is sent again. It doubles with each retry, up to eight times.

    Raises
    ------
    TVMError
        If no board begins a session.
    ValueError, OSError
        If the line does not exist.
    """
    line = open_line(address) if isinstance(address, str) else address
    return BoardSession(line, start_seconds, answer_seconds, retry_seconds)


class BoardNetwork:
    """Network in a board's image, ready to run on the board.

    Parameters
    ----------
    session
        The session with the board.
    facts
        Metadata of the image file: ``network``, ``inputs``, ``outputs``.
    """

    def __init__(self, session: BoardSession, metadata: Mapping[str, Any]) -> None:
        self.session = session
        self.inputs: list[Mapping[str, Any]] = metadata["inputs"]
        self.outputs: list[Mapping[str, Any]] = metadata["outputs"]
        make = session.get_function("tvm.aot_executor.create")
        self.module = make(session.system_lib(), session.cpu(), metadata["network"])
        self._run = self.module["run"]
        self._get_output = self.module["get_output"]
        get_input = self.module["get_input"]
        self._inputs = {one["name"]: get_input(i) for i, one in enumerate(self.inputs)}

    def set_input(self, name: str, value: Any) -> None:
        """Copy an array to an input."""
        tensor = self._inputs[name]
        tensor.copyfrom(np.ascontiguousarray(value, tensor.dtype).reshape(tensor.shape))

    def run(self) -> None:
        """Run the network once."""
        self._run()

    def get_output(self, index: int) -> NDArray:
        """Return an output. Its data stays on the board until it is copied."""
        return self._get_output(index)

    def get_num_outputs(self) -> int:
        """Return the number of outputs."""
        return len(self.outputs)

    def time(self, repeat: int) -> list[float]:
        """Return the seconds of each of `repeat` runs, by the board's clock."""
        make = self.session.get_function("runtime.RPCTimeEvaluator")
        seconds: list[float] = []
        while len(seconds) < repeat:
            part = min(_REPEATS, repeat - len(seconds))
            evaluate = make(self.module, "run", 1, 0, 1, part, 0, 0, 0, 1, 0, "")
            seconds += struct.unpack(f"<{part}d", bytes(evaluate()))
        return seconds

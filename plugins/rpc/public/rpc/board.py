"""Boards: microcontrollers that answer remote calls over a serial line."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any

from tvmrt.error import TVMError
from tvmrt.runtime.packed_func import get_global_func

from .board_frames import BoardPackets
from .board_lines import Line, open_line
from .client import RPCSession

__all__ = ["BoardSession", "connect_board"]


def _disconnect(close: Any, line: Line) -> None:
    with contextlib.suppress(TVMError, ConnectionError):
        close()
    line.close()


class BoardSession(RPCSession):
    """Session with a board, made by connect_board(). Closing it resets the board.

    Functions, modules, devices and tensors of :class:`RPCSession` are available, files are not.
    """

    def __init__(self, line: Line, start: float, answer: float, retry: float) -> None:
        try:
            packets = BoardPackets(line, start, answer, retry)
            module = get_global_func("rpc.ClientSession")(packets.send, packets.receive)
        except BaseException:
            line.close()
            raise
        super().__init__(module)
        # Without a finaliser, QEMU and the board's session would outlive the interpreter.
        self._disconnect = weakref.finalize(self, _disconnect, module["CloseRPCConnection"], line)
        try:
            limit = module["tvm.rpc.server.GetCRTMaxPacketSize"]
        except AttributeError:  # the board accepts what fits its memory
            return
        get_global_func("rpc.SetPacketLimit")(module, limit())

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

    A lost or corrupted packet ends the session.

    Parameters
    ----------
    address
        The line, or its name: ``serial:PATH[:BAUD]``.
    start_seconds
        Time limit for the board to begin a session.
    answer_seconds
        Time limit for an answer of the board; a call may take 60 times as long.
    retry_seconds
        Time until the session is requested again.

    Raises
    ------
    TVMError
        If no board begins a session.
    ValueError, OSError
        If the line does not exist.
    """
    line = open_line(address) if isinstance(address, str) else address
    return BoardSession(line, start_seconds, answer_seconds, retry_seconds)

"""Connection of a server to a tracker, which sends it clients with one-time keys."""

from __future__ import annotations

import secrets
import socket
import time
from typing import Any, Callable

from tvmrt.error import TVMError

from . import messages

__all__ = ["Registration"]

POLL_SECONDS = 0.5
"""Between two calls of update()."""
RETRY_SECONDS = 5
CLAIM_POLLS = 12
"""For a client with an assigned key to connect; then another key is offered."""
ANSWER_SECONDS = 10


class Registration:
    """Registration of a server at a tracker; update() keeps it up to date.

    Parameters
    ----------
    tracker
        The tracker's address.
    key
        The server's key.
    address
        The address that the tracker gives to clients, or None, and the server's port.
    """

    def __init__(self, tracker: tuple[str, int], key: str, address: tuple[str | None, int]) -> None:
        self._tracker, self._key, self._address = tracker, key, address
        self._socket: socket.socket | None = None
        self._retry_time = 0.0
        self._claimed = 0  # calls of update() since the tracker assigned the key
        self.match_key: str | None = None
        """The key that the next client must send; None: no client is expected."""

    def update(self, log: Callable[[str], object]) -> None:
        """Offer a one-time key, or another if its client does not connect.

        Called while the server waits for a client. It connects again after errors.
        """
        if self._socket is None and time.monotonic() < self._retry_time:
            return
        host, port = self._address
        try:
            if self._socket is None:
                self._socket = messages.connect(self._tracker, ANSWER_SECONDS)
                info = {"key": f"server:{self._key}", "addr": [host, port]}
                self._tell(messages.UPDATE_INFO, info)
                log("registered at the tracker")
            if self.match_key is None:
                key, self._claimed = f"{self._key}:{secrets.token_hex(8)}", 0
                self._tell(messages.PUT, self._key, [port, key], host)
                self.match_key = key
            elif self.match_key not in self._ask(messages.PENDING):
                self._claimed += 1
                if self._claimed > CLAIM_POLLS:
                    self.match_key = None
        except (OSError, ValueError, TVMError):
            log("the tracker does not answer; it is tried again")
            self.close()  # so that the tracker forgets the server
            self._retry_time = time.monotonic() + RETRY_SECONDS

    def close(self) -> None:
        """End the connection; the tracker forgets the server."""
        self.match_key = None
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ask(self, *message: Any) -> Any:
        assert self._socket is not None
        self._socket.sendall(messages.encode(list(message)))
        return messages.receive(self._socket, time.monotonic() + ANSWER_SECONDS)

    def _tell(self, *message: Any) -> None:
        if self._ask(*message) != messages.SUCCESS:
            raise ValueError("the tracker refuses this server")

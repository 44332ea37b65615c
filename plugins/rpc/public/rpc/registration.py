"""Connection of a server to a tracker, which sends it clients with one-time keys."""

from __future__ import annotations

import secrets
import socket
import time
from typing import Any, Callable

from tvmrt.error import TVMError

from . import messages

__all__ = ["Registration"]

POLL_SECONDS = 2
"""Between two questions whether the one-time key was assigned."""
RETRY_SECONDS = 5
CLAIM_SECONDS = 6
"""For a client with an assigned key to connect; then another key is offered."""
ANSWER_SECONDS = 10


class Registration:
    """Registration of a server at a tracker. poll() keeps it up to date.

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
        self._claimed = self._next = 0.0
        self.match_key: str | None = None
        """The key that the next client must send; None: no client is expected."""

    def poll(self, log: Callable[[str], None]) -> None:
        """Offer a key if the tracker has none, and connect to it if it is time to."""
        now = time.monotonic()
        if now < self._next and (self.match_key is not None or self._socket is None):
            return
        try:
            if self._socket is None:
                self._connect()
                log("registered at the tracker")
            elif self.match_key is not None:
                self._check_key(now)
            if self.match_key is None:
                self._offer()
            self._next = time.monotonic() + POLL_SECONDS
        except (OSError, ValueError, TVMError):
            log("the tracker does not answer; it is tried again")
            self.close()
            self._next = time.monotonic() + RETRY_SECONDS

    def close(self) -> None:
        """End the connection, so that the tracker forgets the server."""
        if self._socket is not None:
            self._socket.close()
        self._socket = self.match_key = None

    def _ask(self, *message: Any) -> Any:
        assert self._socket is not None
        self._socket.settimeout(ANSWER_SECONDS)
        messages.send(self._socket, list(message))
        return messages.receive(self._socket, time.monotonic() + ANSWER_SECONDS)

    def _tell(self, *message: Any) -> None:
        if self._ask(*message) != messages.SUCCESS:
            raise TVMError("RPCError: the tracker refuses this server")

    def _connect(self) -> None:
        self._socket = messages.connect(self._tracker, ANSWER_SECONDS)
        info = {"key": f"server:{self._key}", "addr": list(self._address)}
        self._tell(messages.UPDATE_INFO, info)

    def _offer(self) -> None:
        key = f"{self._key}:{secrets.token_hex(8)}"
        host, port = self._address
        self._tell(messages.PUT, self._key, [port, key], host)
        self.match_key, self._claimed = key, 0.0

    def _check_key(self, now: float) -> None:
        if self.match_key in self._ask(messages.PENDING):
            self._claimed = 0.0
        elif not self._claimed:
            self._claimed = now
        elif now - self._claimed > CLAIM_SECONDS:
            self.match_key = None

"""Connection of a server to a tracker, which sends it clients with one-time keys."""

from __future__ import annotations

import asyncio
import secrets
import struct
from typing import Any, Callable

from . import messages

__all__ = ["Registration"]

POLL_SECONDS = 0.5
"""Between two looks at whether the server is free, and whether its one-time key was assigned."""
RETRY_SECONDS = 5
CLAIM_POLLS = 12
"""For a client with an assigned key to connect; then another key is offered."""
ANSWER_SECONDS = 10


class Registration:
    """Registration of a server at a tracker; run() keeps it up to date.

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
        self.match_key: str | None = None
        """The key that the next client must send; None: no client is expected."""

    async def run(self, is_free: Callable[[], bool], log: Callable[[str], None]) -> None:
        """Offer one-time keys while the server is free, and connect again after errors."""
        while True:
            try:
                connecting = asyncio.open_connection(*self._tracker)
                self._reader, writer = await asyncio.wait_for(connecting, ANSWER_SECONDS)
                self._writer = writer
                try:
                    await self._offer_keys(is_free, log)
                finally:
                    writer.close()  # so that the tracker forgets the server
            except (OSError, EOFError, ValueError, asyncio.TimeoutError):
                log("the tracker does not answer; it is tried again")
            self.match_key = None
            await asyncio.sleep(RETRY_SECONDS)

    async def _offer_keys(self, is_free: Callable[[], bool], log: Callable[[str], None]) -> None:
        word = struct.pack("<i", messages.MAGIC)
        self._writer.write(word)
        if await asyncio.wait_for(self._reader.readexactly(4), ANSWER_SECONDS) != word:
            raise ValueError("it is not a tracker")
        host, port = self._address
        await self._tell(messages.UPDATE_INFO, {"key": f"server:{self._key}", "addr": [host, port]})
        log("registered at the tracker")
        claimed = 0  # looks since the tracker assigned the key
        while True:
            if self.match_key is None and is_free():
                key, claimed = f"{self._key}:{secrets.token_hex(8)}", 0
                await self._tell(messages.PUT, self._key, [port, key], host)
                self.match_key = key
            elif self.match_key is not None:
                is_offered = self.match_key in await self._ask(messages.PENDING)
                claimed = 0 if is_offered else claimed + 1
                if claimed > CLAIM_POLLS:
                    self.match_key = None
            await asyncio.sleep(POLL_SECONDS)

    async def _ask(self, *message: Any) -> Any:
        self._writer.write(messages.encode(list(message)))
        return await asyncio.wait_for(messages.read(self._reader), ANSWER_SECONDS)

    async def _tell(self, *message: Any) -> None:
        if await self._ask(*message) != messages.SUCCESS:
            raise ValueError("the tracker refuses this server")

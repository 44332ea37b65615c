"""Proxy that joins servers and clients of equal key which cannot reach each other. It forwards
their bytes without reading them."""

from __future__ import annotations

import asyncio
import struct
from collections import deque

from .service import Service

__all__ = ["Proxy"]

MAGIC, DUPLICATE, MISMATCH = 0xFF271, 0xFF272, 0xFF273
GREET_SECONDS = 10
MAX_KEY_BYTES = 4096
LINGER_SECONDS = 5
CHUNK_BYTES = 1 << 18
"""Bytes that are read before they are handed on."""
SIDES = ("client:", "server:")


class _Peer:
    """Connection that has sent its greeting: ``client:`` or ``server:``, the key, options."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes
    ) -> None:
        self.reader, self.writer, self.key = reader, writer, key
        text = key.decode()
        self.side = text[:7]
        self.name = "".join(text[7:].split()[:1])
        self.joined = asyncio.get_running_loop().create_future()
        """Gets the future of the end when another end takes this one over."""
        self.watch: asyncio.Future[bytes]
        """Of one that waits: done when it goes, or speaks before it is spoken to."""


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction until it ends, then signal the end to the other side."""
    while part := await reader.read(CHUNK_BYTES):
        writer.write(part)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()


def _greet(end: _Peer, other: _Peer) -> None:
    end.writer.write(struct.pack("<ii", MAGIC, len(other.key)) + other.key)


class Proxy(Service):
    """Proxy for TVM's RPC protocol, running on its own thread.

    A server registers with its key and waits for clients (``tvmrt rpc-server --proxy``). A client
    connects to the proxy as to a server. One server per key can wait at a time; clients wait in
    order of arrival.

    Parameters
    ----------
    host
        The address to listen at.
    port, port_end
        The first port to try, and the one after the last.
    timeout_client, timeout_server
        Maximum seconds that a client waits for a server, and a server for a client. A server
        reconnects afterwards.

    Attributes
    ----------
    host, port
        The address it listens at.
    """

    NAME = "proxy"

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9090,
        port_end: int = 9199,
        timeout_client: float = 600,
        timeout_server: float = 600,
    ) -> None:
        self._seconds: dict[str, float] = dict(zip(SIDES, (timeout_client, timeout_server)))
        self._waiting: dict[tuple[str, str], deque[_Peer]] = {}
        super().__init__(host, port, port_end)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection; close it if it sends no valid greeting."""
        try:
            end = await asyncio.wait_for(self._greeting(reader, writer), GREET_SECONDS)
            if end is not None:
                self.accept(writer)
                await self._join(end)
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, OSError, UnicodeDecodeError):
            return

    async def _greeting(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> _Peer | None:
        magic, size = struct.unpack("<Ii", await reader.readexactly(8))
        if magic != MAGIC or not 7 <= size <= MAX_KEY_BYTES:
            return None
        key = await reader.readexactly(size)
        end = _Peer(reader, writer, key)
        return end if end.side in SIDES else None

    async def _join(self, end: _Peer) -> None:
        """Join the connection with a waiting peer, or let it wait."""
        other_side = SIDES[end.side == SIDES[0]]
        queue = self._waiting.get((other_side, end.name), ())
        other = next((one for one in queue if not one.watch.done()), None)
        if other is not None:
            self._forget((other_side, end.name), other)
            await self._connect(end, other)
        elif end.side == SIDES[1] and (end.side, end.name) in self._waiting:
            end.writer.write(struct.pack("<i", DUPLICATE))
            await end.writer.drain()
        else:
            await self._wait(end)

    async def _connect(self, end: _Peer, other: _Peer) -> None:
        over = asyncio.get_running_loop().create_future()
        other.joined.set_result(over)
        try:
            other.watch.cancel()
            await asyncio.wait({other.watch})  # one stream cannot have two readers
            _greet(end, other)
            _greet(other, end)
            await self._hand_on(end, other)
        finally:
            over.set_result(None)

    @staticmethod
    async def _hand_on(end: _Peer, other: _Peer) -> None:
        """Copy both ways until one has ended; data in flight the other way still arrives."""
        ways = ((end.reader, other.writer), (other.reader, end.writer))
        copies = {asyncio.ensure_future(_copy(*way)) for way in ways}
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(copies, timeout=LINGER_SECONDS)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)

    async def _wait(self, end: _Peer) -> None:
        """Wait until the connection has been joined and has ended, closes, or times out."""
        queue_key = (end.side, end.name)
        self._waiting.setdefault(queue_key, deque()).append(end)
        seconds = self._seconds[end.side]
        end.watch = asyncio.ensure_future(end.reader.read(1))
        try:
            await asyncio.wait(
                {end.watch, end.joined}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            if not end.joined.done():
                self._forget(queue_key, end)
        if end.joined.done():
            await end.joined.result()
        elif not end.watch.done():
            end.watch.cancel()
            end.writer.write(struct.pack("<i", MISMATCH))
            await end.writer.drain()

    def _forget(self, queue_key: tuple[str, str], end: _Peer) -> None:
        queue = self._waiting[queue_key]
        queue.remove(end)
        if not queue:
            del self._waiting[queue_key]

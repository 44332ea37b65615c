"""Base of trackers: a port, a thread, and a limited number of connections."""

from __future__ import annotations

import asyncio
import threading
from typing import ClassVar

__all__ = ["Service"]

MAX_CONNECTIONS = 1000
"""At this number, the oldest connection without a valid message is closed for the next one."""


class Service:
    """TCP service on its own thread, which starts with the object.

    It serves all peers that can reach its port; by default it listens at loopback only.
    """

    NAME: ClassVar[str]
    """What it is, for errors."""

    def __init__(self, host: str, port: int, port_end: int) -> None:
        self.host, self.port = host, port
        self._ready = threading.Event()
        self._error: OSError | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._strangers: dict[asyncio.StreamWriter, None] = {}  # not accepted yet, oldest first
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve(port, port_end)), daemon=True
        )
        self._thread.start()
        self._ready.wait()
        if self._error is not None:
            raise self._error

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until it ends; the caller closes it."""
        raise NotImplementedError

    def accept(self, writer: asyncio.StreamWriter) -> None:
        """Mark a connection as valid, so that it is not closed in favour of new ones."""
        self._strangers.pop(writer, None)

    def _close_idle(self) -> bool:
        if len(self._writers) < MAX_CONNECTIONS:
            return True
        oldest = next(iter(self._strangers), None)
        if oldest is None:
            return False
        oldest.transport.abort()
        del self._strangers[oldest]
        self._writers.discard(oldest)
        return True

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._close_idle():
            writer.close()
            return
        self._writers.add(writer)
        self._strangers[writer] = None
        try:
            await self.handle(reader, writer)
        except asyncio.CancelledError:  # the service ends, with all its connections
            return
        finally:
            self._writers.discard(writer)
            self._strangers.pop(writer, None)
            writer.close()

    async def _serve(self, port: int, port_end: int) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        try:
            server = await self._listen(port, port_end)
        except OSError as error:
            self._error = error
            self._ready.set()
            return
        assert isinstance(server, asyncio.Server)
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        await self._stopped.wait()
        server.close()
        for writer in list(self._writers):
            writer.close()

    async def _listen(self, port: int, port_end: int) -> asyncio.AbstractServer:
        why: str | None = None
        for tried in range(port, max(port + 1, port_end)):
            try:
                return await asyncio.start_server(self._handle, self.host, tried)
            except OSError as error:
                why = error.strerror
        raise OSError(
            f"cannot listen at {self.host}:{port} to {port_end - 1}: {why}; is another "
            f"{self.NAME} running?"
        )

    def wait(self) -> None:
        """Wait until the service ends."""
        while self._thread.is_alive():
            self._thread.join(0.5)  # with a timeout, so that signals are handled

    def terminate(self) -> None:
        """End the service and its connections."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()

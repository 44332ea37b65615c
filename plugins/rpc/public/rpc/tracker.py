"""Tracker: servers register as free, and clients request one by its key."""

from __future__ import annotations

import asyncio
import itertools
import struct
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from . import messages
from .server import listen

__all__ = ["Tracker"]

GREET_SECONDS = 10
ORDER = itertools.count()


@dataclass
class _Queue:
    """Free servers and waiting clients of one key."""

    free: list[tuple[_Connection, tuple[str, int, str]]] = field(default_factory=list)
    waiting: list[tuple[int, int, _Connection]] = field(default_factory=list)

    def match(self) -> None:
        """Assign free servers to waiting clients by priority, then in order of arrival."""
        self.waiting.sort(key=lambda one: one[:2])
        while self.free and self.waiting:
            owner, (host, port, match_key) = self.free.pop(0)
            _, _, client = self.waiting.pop(0)
            owner.match_keys.discard(match_key)
            client.send([messages.SUCCESS, [host, port, match_key]])


class _Connection:
    """Connection with a server or a client; used by the event loop's thread only."""

    def __init__(
        self, queues: defaultdict[str, _Queue], others: set[_Connection],
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter,
    ) -> None:  # fmt: skip
        self.queues, self.others, self.reader, self.writer = queues, others, reader, writer
        self.peer: str = writer.get_extra_info("peername")[0]
        self.match_keys: set[str] = set()
        self.info: dict[str, Any] = {}

    def send(self, message: Any) -> None:
        """Queue one message for sending."""
        self.writer.write(messages.encode(message))

    async def run(self) -> None:
        """Serve until the peer disconnects or sends an invalid message."""
        word = struct.pack("<i", messages.MAGIC)
        if await asyncio.wait_for(self.reader.readexactly(4), GREET_SECONDS) != word:
            return
        self.writer.write(word)
        while True:
            self.answer(await messages.read(self.reader))
            await self.writer.drain()

    def answer(self, message: Any) -> None:
        """Handle a message; raise if it is malformed."""
        code, *args = message
        if code == messages.PUT:
            key, (port, match_key), *custom_addr = args
            queue = self.queues[str(key)]
            self.match_keys.add(str(match_key))
            host = next(filter(None, custom_addr), self.peer)
            queue.free.append((self, (str(host), int(port), str(match_key))))
            self.send(messages.SUCCESS)
            queue.match()
        elif code == messages.REQUEST:
            key, _, priority = args
            queue = self.queues[str(key)]
            queue.waiting.append((-int(priority), next(ORDER), self))
            queue.match()
        elif code == messages.UPDATE_INFO:
            host, port = args[0]["addr"]
            self.info = {"key": str(args[0]["key"]), "addr": [host or self.peer, int(port)]}
            self.send(messages.SUCCESS)
        elif code == messages.SUMMARY:
            self.send([messages.SUCCESS, self.summary()])
        elif code == messages.PENDING:
            self.send(sorted(self.match_keys))
        else:
            self.send(messages.SUCCESS if code == messages.PING else messages.FAIL)

    def summary(self) -> dict[str, Any]:
        """Return the answer to a SUMMARY message."""
        queues = {
            key: {"free": len(queue.free), "pending": len(queue.waiting)}
            for key, queue in self.queues.items()
        }
        servers = [one.info for one in self.others if one.info]
        return {"queue_info": queues, "server_info": servers}

    def forget(self) -> None:
        """Remove all entries of the connection."""
        for key, queue in list(self.queues.items()):
            queue.free = [one for one in queue.free if one[0] is not self]
            queue.waiting = [one for one in queue.waiting if one[2] is not self]
            if not queue.free and not queue.waiting:
                del self.queues[key]


class Tracker:
    """Tracker running on its own thread.

    Everybody that can reach its port can register and request servers, so by default it listens at
    the loopback address only.

    Parameters
    ----------
    host
        The address to listen at.
    port, port_end
        The first port to try, and the one after the last.
    silent
        Accepted for compatibility with TVM; there is no log.

    Attributes
    ----------
    host, port
        The address it listens at.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 9190, port_end: int = 9199, silent: bool = False
    ) -> None:
        self._socket = listen(host, port, port_end)
        self.host, self.port = host, self._socket.getsockname()[1]
        self._queues: defaultdict[str, _Queue] = defaultdict(_Queue)
        self._connections: set[_Connection] = set()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._ready.wait()

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._handle, sock=self._socket)
        self._ready.set()
        await self._stopped.wait()
        server.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self._queues, self._connections, reader, writer)
        self._connections.add(connection)
        try:
            await connection.run()
        except asyncio.CancelledError:  # the tracker ends, with all its connections
            return
        except (OSError, EOFError, asyncio.TimeoutError):
            return
        except (ValueError, TypeError, KeyError, IndexError, RecursionError):
            return
        finally:
            self._connections.discard(connection)
            connection.forget()
            writer.close()

    def wait(self) -> None:
        """Wait until the tracker ends."""
        while self._thread.is_alive():
            self._thread.join(0.5)  # with a timeout, so that signals are handled

    def terminate(self) -> None:
        """End the tracker and its connections."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopped.set)
            self._thread.join()

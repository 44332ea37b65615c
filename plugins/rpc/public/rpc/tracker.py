"""Tracker: servers register as free, and clients request one by its key."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import struct
import threading
from typing import Any, Callable

from . import messages
from .server import listen

__all__ = ["Tracker"]

GREET_SECONDS = 10
MESSAGE_SECONDS = 10
"""For the bytes of one message, from its length on."""
MAX_CONNECTIONS = 1000
MAX_WAITING = 10000
"""Requests and free servers together, of all keys."""


class _Queue:
    """Free servers and waiting clients of one key."""

    def __init__(self) -> None:
        self.free: list[tuple[_Connection, tuple[str, int, str]]] = []
        self.waiting: list[tuple[int, int, _Connection]] = []

    def match(self) -> None:
        """Assign free servers to waiting clients by priority, then in order of arrival."""
        while self.free and self.waiting:
            self.waiting.sort(key=lambda one: one[:2])
            owner, (host, port, match_key) = self.free.pop(0)
            _, _, client = self.waiting.pop(0)
            owner.match_keys.discard(match_key)
            client.send([messages.SUCCESS, [host, port, match_key]])

    def forget(self, connection: _Connection) -> None:
        """Remove the entries of a closed connection."""
        self.free = [one for one in self.free if one[0] is not connection]
        self.waiting = [one for one in self.waiting if one[2] is not connection]


class _State:
    """State of a tracker; used by the event loop's thread only."""

    def __init__(self, stop_key: str, stop: Callable[[], None]) -> None:
        self.queues: dict[str, _Queue] = {}
        self.connections: set[_Connection] = set()
        self.order = itertools.count()
        self.stop_key, self.stop = stop_key, stop

    def queue(self, key: Any) -> _Queue:
        """Return the queue of a key, created on first use."""
        if not isinstance(key, str) or len(key) > 1000:
            raise ValueError("a key must be a string of at most 1000 characters")
        if sum(len(q.free) + len(q.waiting) for q in self.queues.values()) >= MAX_WAITING:
            raise ValueError(f"more than {MAX_WAITING} clients are waiting; try again later")
        return self.queues.setdefault(key, _Queue())

    def forget(self, connection: _Connection) -> None:
        """Remove a connection and all its entries."""
        self.connections.discard(connection)
        for key, queue in list(self.queues.items()):
            queue.forget(connection)
            if not queue.free and not queue.waiting:
                del self.queues[key]

    def summary(self) -> dict[str, Any]:
        """Return the answer to a SUMMARY message."""
        queues = {
            key: {"free": len(queue.free), "pending": len(queue.waiting)}
            for key, queue in self.queues.items()
        }
        infos = [one.info for one in self.connections]
        servers = [i for i in infos if str(i.get("key", "")).startswith("server:")]
        return {"queue_info": queues, "server_info": servers}


class _Connection:
    """Connection with a server or a client."""

    def __init__(
        self, state: _State, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.state, self.reader, self.writer = state, reader, writer
        self.peer: str = writer.get_extra_info("peername")[0]
        self.match_keys: set[str] = set()
        self.info: dict[str, Any] = {}

    def send(self, message: Any) -> None:
        """Queue one message for sending."""
        data = json.dumps(message).encode()
        self.writer.write(struct.pack("<i", len(data)) + data)

    async def run(self) -> None:
        """Serve until the peer disconnects or sends an invalid message."""
        try:
            word = struct.pack("<i", messages.MAGIC)
            if await asyncio.wait_for(self.reader.readexactly(4), GREET_SECONDS) != word:
                return
            self.writer.write(word)
            while True:
                (size,) = struct.unpack("<i", await self.reader.readexactly(4))
                if not 0 < size <= messages.LIMIT:
                    return
                body = await asyncio.wait_for(self.reader.readexactly(size), MESSAGE_SECONDS)
                self.answer(json.loads(body.decode()))
                await self.writer.drain()
        except (asyncio.IncompleteReadError, asyncio.TimeoutError, OSError):
            return
        except (ValueError, TypeError, KeyError, IndexError, RecursionError):
            return

    def answer(self, message: Any) -> None:
        """Handle a message; raise if it is malformed."""
        code, *args = message
        if code == messages.PUT:
            self.put(*args)
        elif code == messages.REQUEST:
            key, _, priority = args
            queue = self.state.queue(key)
            queue.waiting.append((-int(priority), next(self.state.order), self))
            queue.match()
        elif code == messages.UPDATE_INFO:
            self.update_info(*args)
        elif code == messages.SUMMARY:
            self.send([messages.SUCCESS, self.state.summary()])
        elif code == messages.PENDING:
            self.send(sorted(self.match_keys))
        elif code == messages.STOP:
            right = secrets.compare_digest(str(args[0]), self.state.stop_key)
            self.send(messages.SUCCESS if right else messages.FAIL)
            if right:
                self.state.stop()
        elif code == messages.PING:
            self.send(messages.SUCCESS)
        else:
            self.send(messages.FAIL)

    def put(self, key: str, registration: Any, custom_addr: str | None = None) -> None:
        """Register a free server: its port, and the one-time key that its next client must send."""
        port, match_key = int(registration[0]), str(registration[1])
        queue = self.state.queue(key)
        self.match_keys.add(match_key)
        queue.free.append((self, (str(custom_addr or self.peer), port, match_key)))
        self.send(messages.SUCCESS)
        queue.match()

    def update_info(self, info: dict[str, Any]) -> None:
        """Record the peer's key and the address it listens at."""
        if "addr" in info:
            host, port = info["addr"]
            info["addr"] = [host or self.peer, int(port)]
        self.info.update({name: info[name] for name in ("key", "addr") if name in info})
        self.send(messages.SUCCESS)


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
    stop_key
        A peer that sends this key in a STOP message ends the tracker.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 9190, port_end: int = 9199, silent: bool = False
    ) -> None:
        self._socket = listen(host, port, port_end)
        self.host, self.port = host, self._socket.getsockname()[1]
        self.stop_key = f"{host}:{secrets.token_hex(8)}"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), daemon=True)
        self._thread.start()
        self._ready.wait()

    async def _serve(self) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._state = _State(self.stop_key, self._stopped.set)
        server = await asyncio.start_server(self._handle, sock=self._socket)
        self._ready.set()
        await self._stopped.wait()
        server.close()
        for connection in list(self._state.connections):
            connection.writer.close()

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self._state, reader, writer)
        self._state.connections.add(connection)
        try:
            if len(self._state.connections) <= MAX_CONNECTIONS:
                await connection.run()
        except asyncio.CancelledError:  # the tracker ends, with all its connections
            return
        finally:
            self._state.forget(connection)
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

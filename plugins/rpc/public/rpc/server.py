"""RPC server: one process listens, and one process per session serves its client.

The listening process reads no more than the keys of clients, and ends sessions whose time is over.
A crash or an invalid packet ends only the session of that client.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import struct
import sys
import weakref
from typing import Any, Callable

from tvmrt.runtime.module import load_module
from tvmrt.runtime.packed_func import get_global_func

from .files import SessionFolder
from .registration import Registration

__all__ = ["Listener", "Server"]

MAGIC, MISMATCH = 0xFF271, 0xFF273
MAX_KEY_BYTES = 4096
GREET_SECONDS = 5
"""For a client to send its whole key."""
MAX_PEERS = 128
"""Connections that have not sent the key; then the oldest one is closed for the next."""
MAX_SESSIONS = 64
OUT_OF_TIME = "RPCSessionTimeoutError: the time of the session is over."


class Listener:
    """Listening server; run() serves.

    Parameters
    ----------
    host, port, port_end
        The address to listen at: the first port that is free; 0: any.
    key
        The key that clients must send.
    tracker
        A tracker to register with, as text or (host, port).
    custom_addr
        The address that the tracker gives to clients.
    log
        Called with each line of the log.
    max_sessions
        How many clients are served at a time; further ones wait.
    idle_seconds, session_seconds
        Time of a session without a message, and in all; 0: no limit.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9090,
        port_end: int = 9199,
        key: str = "",
        tracker: Any = None,
        custom_addr: str | None = None,
        log: Callable[[str], None] | None = None,
        max_sessions: int = 1,
        idle_seconds: float = 0.0,
        session_seconds: float = 0.0,
    ) -> None:
        if not hasattr(os, "fork"):
            raise OSError("this system has no fork(), which RPC servers need; use another one")
        if len(key) > 100 or key != "".join(key.split()):
            raise ValueError("a key must have at most 100 characters and no spaces")
        if not 1 <= max_sessions <= MAX_SESSIONS:
            raise ValueError(f"at most {MAX_SESSIONS} sessions can be open at a time")
        address = _address(tracker)
        self._key, self._log, self._max_sessions = key, log or (lambda line: None), max_sessions
        self._idle_seconds, self._session_seconds = idle_seconds, session_seconds
        self._socket = listen(host, port, port_end)
        self._socket.setblocking(False)
        self.host, self.port = host, self._socket.getsockname()[1]
        self._registration = (
            Registration(address, key, (custom_addr, self.port)) if address else None
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_stopping = False
        self._greeting: dict[Any, None] = {}  # tasks, in order of arrival
        self._open: set[socket.socket] = {self._socket}  # a session's process closes them

    def run(self) -> None:
        """Serve until stop(); all sessions are ended then."""
        asyncio.run(self._serve())

    def stop(self) -> None:
        """Make run() return; callable from any thread and from signal handlers."""
        self._is_stopping = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stopped.set)

    def close(self) -> None:
        """Stop listening. Must not be called during run()."""
        self._socket.close()

    async def _serve(self) -> None:
        self._free = asyncio.Semaphore(self._max_sessions)
        self._stopped = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        tasks = [self._loop.create_task(self._accept(self._loop))]
        if self._registration is not None:
            registered = self._registration.run(lambda: not self._free.locked(), self._log)
            tasks.append(self._loop.create_task(registered))
        if not self._is_stopping:
            await self._stopped.wait()
        self._loop, self._is_stopping = None, False  # run() may be called again

    # ---- clients before their sessions ----

    async def _accept(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                stream, _ = await loop.sock_accept(self._socket)
            except OSError:  # the client has gone, or there are no descriptors
                await asyncio.sleep(0.1)
                continue
            if len(self._greeting) >= MAX_PEERS:
                oldest = next(iter(self._greeting))
                del self._greeting[oldest]
                oldest.cancel()
            self._greeting[loop.create_task(self._serve_client(stream))] = None
            await asyncio.sleep(0)  # it begins: a task that is cancelled before would close nothing

    async def _serve_client(self, stream: socket.socket) -> None:
        self._open.add(stream)
        task = asyncio.current_task()
        try:
            stream.setblocking(False)
            seconds = await asyncio.wait_for(self._read_key(stream), GREET_SECONDS)
            self._greeting.pop(task, None)
            async with self._free:
                await self._run_session(stream, seconds)
        except asyncio.TimeoutError:
            self._log("a client sent no key in time")
        except (OSError, ValueError) as error:
            self._log(f"no session for a client: {error}")
        finally:
            self._greeting.pop(task, None)
            self._open.remove(stream)
            stream.close()

    async def _read_key(self, stream: socket.socket) -> float:
        """Check the key; return the seconds that the client wants for its session, 0: no limit."""
        magic, size = struct.unpack("<Ii", await _read(stream, 8))
        if magic != MAGIC or not 0 <= size <= MAX_KEY_BYTES:
            raise ValueError("it does not speak the protocol")
        key, *options = (await _read(stream, size)).decode(errors="replace").split() or [""]
        expected = self._registration.match_key if self._registration else self._key
        if expected is None or key != f"client:{expected}":
            await asyncio.get_running_loop().sock_sendall(stream, struct.pack("<I", MISMATCH))
            raise ValueError("it sent a wrong key")
        if self._registration is not None:
            self._registration.match_key = None  # it is valid for one client
        for option in options:
            if option.startswith("-timeout="):
                with contextlib.suppress(ValueError):
                    return float(option[9:])
        return 0

    # ---- sessions ----

    async def _run_session(self, stream: socket.socket, seconds: float) -> None:
        """Serve a client by a process, whose end of a socket pair closes when it ends."""
        limits = [s for s in (seconds, self._session_seconds) if 0 < s < 1e9]
        folder = SessionFolder()
        end, theirs = socket.socketpair()
        self._open.add(end)
        try:
            end.setblocking(False)
            process = os.fork()
            if process == 0:
                self._serve_session(stream, theirs, folder)
            theirs.close()
            self._log(f"session {process} has begun")
            await self._await_end(process, end, stream, min(limits, default=None))
        finally:
            self._open.remove(end)
            end.close()
            theirs.close()
            folder.close()

    async def _await_end(
        self, process: int, end: socket.socket, stream: socket.socket, seconds: float | None
    ) -> None:
        """Wait until a session's process ends; after its time, kill it and answer its client."""
        is_killed = True
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_recv(end, 1), seconds)
            is_killed = False
        except asyncio.TimeoutError:
            os.kill(process, signal.SIGKILL)  # first: two writers would mix their packets
            stream.settimeout(1)
            with contextlib.suppress(Exception):
                get_global_func("rpc.ReturnException")(stream.fileno(), OUT_OF_TIME)
        finally:
            if is_killed:  # also as the server ends
                os.kill(process, signal.SIGKILL)
            self._log(f"session {process} {_reap(process)}")

    def _serve_session(
        self, connection: socket.socket, end: socket.socket, folder: SessionFolder
    ) -> None:
        """Serve in the forked process, then exit. The client cannot reach other connections."""
        status = 1
        try:
            # The server ends its sessions at Ctrl-C; its handlers must not run here.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for each in self._open - {connection}:
                each.close()
            folder.register()
            connection.settimeout(GREET_SECONDS)
            name = f"server:{self._key}".encode()
            connection.sendall(struct.pack("<ii", MAGIC, len(name)) + name)
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._idle_seconds:
                whole, part = divmod(self._idle_seconds, 1)
                limit = struct.pack("@ll", int(whole), int(part * 1e6))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            get_global_func("rpc.ServerLoop")(connection.fileno())
            status = 0
        finally:  # the parent logs the status
            end.close()
            os._exit(status)


async def _read(stream: socket.socket, size: int) -> bytes:
    """Read exactly so many bytes: later ones belong to the session."""
    received = b""
    while len(received) < size:
        part = await asyncio.get_running_loop().sock_recv(stream, size - len(received))
        if not part:
            raise ConnectionError("it has gone")
        received += part
    return received


def _reap(process: int) -> str:
    """Wait for a session's process; return how it has ended."""
    try:
        _, status = os.waitpid(process, 0)
    except ChildProcessError:  # this program ignores SIGCHLD
        status = 0
    if os.WIFSIGNALED(status):
        return f"was ended by signal {os.WTERMSIG(status)}"
    return "has ended" if status == 0 else "has ended, without a word of its client"


def _address(tracker: Any) -> tuple[str, int] | None:
    """Return a tracker's address, given as text or as (host, port)."""
    if not tracker:
        return None
    text = tracker if isinstance(tracker, str) else f"{tracker[0]}:{tracker[1]}"
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"the tracker '{text}' must be given as HOST:PORT")
    return host, int(port)


def listen(host: str, port: int, port_end: int) -> socket.socket:
    """Listen at the first free port of a range."""
    why = ""
    for tried in range(port, max(port + 1, port_end)) if port else (0,):
        if not 0 <= tried <= 65535:
            raise ValueError(f"{tried} is not a port; ports are 0 to 65535")
        try:
            family = socket.getaddrinfo(host, tried, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((host, tried), family=family, backlog=MAX_PEERS)
        except socket.gaierror as error:
            raise OSError(f"the address of {host} cannot be found: {error.strerror}") from error
        except OSError as error:
            why = error.strerror or str(error)
    ports = f"{host}:{port}"
    if port_end > port + 1:
        ports = f"any port of {host} from {port} to {port_end - 1}"
    raise OSError(f"cannot listen at {ports}: {why}")


class Server:
    """Server in its own process, with all functions registered so far.

    Parameters
    ----------
    host
        The address to listen at.
    port, port_end
        The first port to try, and the one after the last.
    is_proxy
        Must be False: there is no proxy.
    key
        The key that clients must send; a tracker lists the server by it.
    tracker_addr
        (host, port) of a tracker to register with.
    load_library
        Libraries to load first, separated by colons.
    custom_addr
        The address that the tracker gives to clients.
    silent
        Whether to discard the log; otherwise it goes to standard error.
    limits
        Limits of :class:`tvmrt.rpc.server.Listener`, such as `max_sessions`.

    Attributes
    ----------
    host, port
        The address of its listener.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9091,
        port_end: int = 9199,
        is_proxy: bool = False,
        tracker_addr: tuple[str, int] | None = None,
        key: str = "",
        load_library: str | None = None,
        custom_addr: str | None = None,
        silent: bool = False,
        **limits: Any,
    ) -> None:
        if is_proxy:
            raise ValueError("is_proxy must be False: tvmrt has no proxy; use ssh -R or a VPN")
        log = None if silent else (lambda line: print(line, file=sys.stderr, flush=True))
        listener = Listener(host, port, port_end, key, tracker_addr, custom_addr, log, **limits)
        self.host, self.port = host, listener.port
        libraries = load_library.split(":") if load_library else []
        self._process = os.fork()
        if self._process == 0:
            _serve(listener, libraries)
        listener.close()
        self._end = weakref.finalize(self, _terminate, self._process)

    def terminate(self) -> None:
        """End the server and its sessions."""
        self._end()


def _serve(listener: Listener, libraries: list[str]) -> None:
    """Run the server in the forked process, then exit."""
    status = 1
    try:
        signal.signal(signal.SIGTERM, lambda *_: listener.stop())
        signal.signal(signal.SIGINT, lambda *_: listener.stop())
        kept = [load_module(path) for path in libraries]
        listener.run()
        del kept
        status = 0
    finally:
        os._exit(status)


def _terminate(process: int) -> None:
    os.kill(process, signal.SIGTERM)
    os.waitpid(process, 0)

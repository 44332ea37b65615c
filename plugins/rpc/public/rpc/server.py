"""RPC server: one process listens, and one process per session serves its client.

The listening process reads no more than the keys of clients, and ends sessions whose time is over.
A crash or an invalid packet ends only the session of that client.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import struct
import sys
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

from tvmrt.runtime.module import load_module
from tvmrt.runtime.packed_func import get_global_func

from .files import SessionFolder
from .registration import Registration

__all__ = ["Listener", "Server"]

MAGIC, MISMATCH = 0xFF271, 0xFF273
MAX_KEY_BYTES = 4096
MAX_PEERS = 128
"""Connections without a session; then the oldest one without the key is closed for the next."""
MAX_SESSIONS = 64


@dataclass
class _Peer:
    """Connection before its session: it sends its key, or waits for a free session."""

    stream: socket.socket
    deadline: float
    received: bytes = b""
    has_key: bool = False
    seconds: float = 0.0  # session timeout that the client wants; 0: none

    def read(self, expected: str | None) -> bool:
        """Read the available bytes of the greeting; return False if the peer must be dropped.

        Later bytes belong to the session, so no more than the greeting is read.
        """
        while not self.has_key:
            missing = _missing_bytes(self.received)
            if not missing:
                self.has_key = self._check_key(expected)
                return self.has_key
            if missing < 0:
                return False
            try:
                part = self.stream.recv(missing)
            except BlockingIOError:
                return True
            except OSError:
                return False
            if not part:
                return False
            self.received += part
        return False  # it has sent more before it was answered, or has gone

    def _check_key(self, expected: str | None) -> bool:
        key, *options = self.received[8:].decode(errors="replace").split() or [""]
        if expected is None or key != f"client:{expected}":
            with contextlib.suppress(OSError):
                self.stream.send(struct.pack("<i", MISMATCH))
            return False
        for option in options:
            if option.startswith("-timeout="):
                with contextlib.suppress(ValueError):
                    self.seconds = float(option[9:])
        return True


def _missing_bytes(received: bytes) -> int:
    """Return how many bytes of a greeting are missing; -1 if it is invalid."""
    if len(received) < 8:
        return (
            -1 if received[:4] != struct.pack("<i", MAGIC)[: len(received)] else 8 - len(received)
        )
    (size,) = struct.unpack_from("<i", received, 4)
    return 8 + size - len(received) if 0 <= size <= MAX_KEY_BYTES else -1


@dataclass
class _Session:
    """Process of a session, its connection, and a stream that closes when the process ends."""

    stream: socket.socket
    folder: SessionFolder
    deadline: float  # 0: none
    process: int = 0
    end: socket.socket = field(init=False)


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
    greet_seconds
        Time for a client to send its whole key.
    idle_seconds, session_seconds
        Time of a session without a message, and in all; 0: no limit.
    packet_bytes, memory_bytes
        Limits for the values of one call, and for a session's tensors and for its files.
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
        greet_seconds: float = 5.0,
        idle_seconds: float = 0.0,
        session_seconds: float = 0.0,
        packet_bytes: int = 1 << 31,
        memory_bytes: int = 1 << 34,
    ) -> None:
        if not hasattr(os, "fork"):
            raise OSError("this system has no fork(), which RPC servers need; use another one")
        if len(key) > 100 or key != "".join(key.split()):
            raise ValueError("a key must have at most 100 characters and no spaces")
        if not 1 <= max_sessions <= MAX_SESSIONS:
            raise ValueError(f"at most {MAX_SESSIONS} sessions can be open at a time")
        address = _address(tracker)
        self._key, self._log = key, log or (lambda line: None)
        self._max_sessions, self._greet_seconds = max_sessions, greet_seconds
        self._idle_seconds, self._session_seconds = idle_seconds, session_seconds
        self._limits = packet_bytes, memory_bytes
        self._socket = listen(host, port, port_end)
        self.host, self.port = host, self._socket.getsockname()[1]
        self._registration = (
            Registration(address, key, (custom_addr, self.port)) if address else None
        )
        self._woken, self._wake = socket.socketpair()
        for each in (self._socket, self._woken, self._wake):
            each.setblocking(False)
        self._peers: list[_Peer] = []  # in order of arrival
        self._sessions: list[_Session] = []

    def run(self) -> None:
        """Serve until stop(); all sessions are ended then."""
        try:
            while not self._serve_events():
                continue
        finally:
            for session in list(self._sessions):
                self._end_session(session, None)

    def stop(self) -> None:
        """Make run() return; callable from any thread and from signal handlers."""
        with contextlib.suppress(OSError):
            self._wake.send(b"s")

    def close(self) -> None:
        """Stop listening. Must not be called during run()."""
        for each in self._open_streams():
            each.close()
        if self._registration is not None:
            self._registration.close()

    def _open_streams(self) -> Iterator[socket.socket]:
        yield from (self._socket, self._woken, self._wake)
        yield from (peer.stream for peer in self._peers)
        for session in self._sessions:
            yield from (session.stream, session.end)

    # ---- the loop ----

    def _serve_events(self) -> bool:
        """Wait for events and handle them; return whether to stop."""
        self._begin_sessions()
        is_free = len(self._sessions) < self._max_sessions
        if self._registration is not None and is_free:
            self._registration.poll(self._log)
        with selectors.DefaultSelector() as selector:
            selector.register(self._woken, selectors.EVENT_READ, None)
            if any(not p.has_key for p in self._peers) or len(self._peers) < MAX_PEERS:
                selector.register(self._socket, selectors.EVENT_READ, self._accept)
            for peer in self._peers:
                selector.register(peer.stream, selectors.EVENT_READ, lambda p=peer: self._read(p))
            for session in self._sessions:
                selector.register(
                    session.end, selectors.EVENT_READ, lambda s=session: self._reap(s)
                )
            ready = [key.data for key, _ in selector.select(self._seconds_left(is_free))]
        for handle in ready:
            if handle is not None and handle != self._accept:
                handle()
        # after the events: a session that has just ended, or a key just received, is not late
        self._end_late()
        if self._accept in ready:
            self._accept()
        if None not in ready:
            return False
        self._woken.recv(4096)  # run() may be called again
        return True

    def _seconds_left(self, is_free: bool) -> float | None:
        times = [session.deadline for session in self._sessions if session.deadline]
        times += [peer.deadline for peer in self._peers if not peer.has_key]
        now = time.monotonic()
        if self._registration is not None and is_free:
            times.append(now + 0.5)
        return max(0.0, min(times) - now) if times else None

    def _end_late(self) -> None:
        now = time.monotonic()
        for session in [s for s in self._sessions if s.deadline and s.deadline <= now]:
            text = "RPCSessionTimeoutError: the time of the session is over."
            self._end_session(session, text)
        for peer in [p for p in self._peers if not p.has_key and p.deadline <= now]:
            self._drop(peer)

    # ---- clients before their sessions ----

    def _accept(self) -> None:
        """Accept the waiting connections, up to a limit."""
        for _ in range(MAX_PEERS):
            if len(self._peers) == MAX_PEERS:
                oldest = next((peer for peer in self._peers if not peer.has_key), None)
                if oldest is None:
                    return
                self._drop(oldest)
            try:
                accepted, _ = self._socket.accept()
            except OSError:  # none is left, the client has gone, or there are no descriptors
                return
            accepted.setblocking(False)
            self._peers.append(_Peer(accepted, time.monotonic() + self._greet_seconds))

    def _read(self, peer: _Peer) -> None:
        expected = self._registration.match_key if self._registration else self._key
        if not peer.read(expected):
            self._drop(peer)
        elif peer.has_key and self._registration is not None:
            self._registration.match_key = None  # it is valid for one client

    def _drop(self, peer: _Peer) -> None:
        self._log(
            "a client has gone before its session began" if peer.has_key
            else "a client sent a wrong key"
        )  # fmt: skip
        peer.stream.close()
        self._peers.remove(peer)

    # ---- sessions ----

    def _begin_sessions(self) -> None:
        """Start the sessions of waiting clients while there are free ones."""
        for peer in [peer for peer in self._peers if peer.has_key]:
            if len(self._sessions) >= self._max_sessions:
                return
            self._peers.remove(peer)
            try:
                self._start(peer)
            except OSError as error:
                self._log(f"no session for a client: {error}")
                peer.stream.close()

    def _start(self, peer: _Peer) -> None:
        folder = SessionFolder(self._limits[1])
        limits = [s for s in (peer.seconds, self._session_seconds) if 0 < s < 1e9]
        session = _Session(peer.stream, folder, time.monotonic() + min(limits) if limits else 0.0)
        session.end, theirs = socket.socketpair()
        try:
            session.process = os.fork()
        except OSError:
            folder.close()
            session.end.close()
            theirs.close()
            raise
        if session.process == 0:
            self._serve_session(session, theirs)
        theirs.close()
        self._sessions.append(session)
        self._log(f"session {session.process} has begun")

    def _serve_session(self, session: _Session, end: socket.socket) -> None:
        """Serve in the forked process, then exit. The client cannot reach other connections."""
        status = 1
        try:
            # The server ends its sessions at Ctrl-C; its handlers must not run here.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.close()
            session.end.close()
            session.folder.register()
            connection = session.stream
            connection.settimeout(self._greet_seconds)
            name = f"server:{self._key}".encode()
            connection.sendall(struct.pack("<ii", MAGIC, len(name)) + name)
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._idle_seconds:
                whole, part = divmod(self._idle_seconds, 1)
                limit = struct.pack("@ll", int(whole), int(part * 1e6))
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            get_global_func("rpc.ServerLoop")(connection.fileno(), *self._limits)
            status = 0
        except Exception:  # the client has gone; the parent logs the status
            status = 1
        finally:
            end.close()
            os._exit(status)

    def _reap(self, session: _Session) -> None:
        """Wait for the process, log its status, and remove what it has left."""
        try:
            _, status = os.waitpid(session.process, 0)
        except ChildProcessError:  # this program ignores SIGCHLD
            status = 0
        how = "has ended"
        if os.WIFSIGNALED(status):
            how = f"was ended by signal {os.WTERMSIG(status)}"
        elif status:
            how = "has ended, without a word of its client"
        self._log(f"session {session.process} {how}")
        self._sessions.remove(session)
        session.end.close()
        session.folder.close()
        session.stream.close()  # last, so that the client sees the end after the clean-up

    def _end_session(self, session: _Session, text: str | None) -> None:
        """Kill the process, and answer its client's request with an error text."""
        os.kill(session.process, signal.SIGKILL)  # first: two writers would mix their packets
        if text is not None:
            session.stream.settimeout(1)
            with contextlib.suppress(Exception):
                get_global_func("rpc.ReturnException")(session.stream.fileno(), text)
        self._reap(session)


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

"""RPC server: one process listens, and one process per session serves its client.

Clients are served one after the other. The listening process reads no more than their keys. A
crash, an invalid packet or the end of its time ends only the session of that client.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import struct
import sys
import time
import weakref
from typing import Callable, NoReturn

from tvmrt.runtime.packed_func import get_global_func

from .files import SessionFolder
from .messages import read_exactly, split_address
from .registration import POLL_SECONDS, Registration

__all__ = ["Listener", "Server"]

MAGIC, DUPLICATE, MISMATCH = 0xFF271, 0xFF272, 0xFF273
MAX_KEY_BYTES = 4096
GREET_SECONDS = 5
"""For a client to send its whole key."""
EXCEPTION = 5
OUT_OF_TIME = b"RPCSessionTimeoutError: the time of the session is over."


class Listener:
    """Listening server; run() serves.

    The parameters are those of :class:`Server`; `log` is called with each line of the log.
    """

    def __init__(
        self,
        host: str,
        port: int,
        port_end: int = 0,
        tracker_addr: str | tuple[str, int] | None = None,
        key: str = "",
        custom_addr: str | None = None,
        log: Callable[[str], object] = str,
    ) -> None:
        if not hasattr(os, "fork"):
            raise OSError("this system has no fork(), which RPC servers need; use another one")
        if len(key) > 100 or key != "".join(key.split()):
            raise ValueError("a key must have at most 100 characters and no spaces")
        if tracker_addr:
            if not isinstance(tracker_addr, str):
                tracker_addr = ":".join(map(str, tracker_addr))
            tracker_addr = split_address(tracker_addr, "the tracker")
        self._key, self._log = key, log
        self._socket = listen(host, port, port_end)
        self.host, self.port = host, self._socket.getsockname()[1]
        self._registration = (
            Registration(tracker_addr, key, (custom_addr, self.port)) if tracker_addr else None
        )

    def run(self) -> NoReturn:
        """Serve until an exception, such as KeyboardInterrupt; it ends the session."""
        while True:
            if self._registration is not None:
                self._registration.update(self._log)
            wait = POLL_SECONDS if self._registration else None
            if select.select([self._socket], [], [], wait)[0]:
                with contextlib.suppress(OSError), self._socket.accept()[0] as stream:
                    self._serve_client(stream)

    def close(self) -> None:
        """Stop listening."""
        self._socket.close()
        if self._registration is not None:
            self._registration.close()

    def _serve_client(self, stream: socket.socket) -> None:
        try:
            self._run_session(stream, self._read_key(stream, time.monotonic() + GREET_SECONDS))
        except (OSError, ValueError) as error:
            self._log(f"no session for a client: {error}")

    def _read_key(self, stream: socket.socket, end: float) -> float:
        """Check the key; return the seconds that the client wants for its session, 0: no limit."""
        magic, size = struct.unpack("<Ii", read_exactly(stream, 8, end))
        if magic != MAGIC or not 0 <= size <= MAX_KEY_BYTES:
            raise ValueError("it does not speak the protocol")
        key, *options = read_exactly(stream, size, end).decode(errors="replace").split() or [""]
        expected = self._registration.match_key if self._registration else self._key
        if expected is None or key != f"client:{expected}":
            stream.sendall(struct.pack("<I", MISMATCH))
            raise ValueError("it sent a wrong key")
        if self._registration is not None:
            self._registration.match_key = None  # it is valid for one client
        for option in options:
            if option.startswith("-timeout="):
                with contextlib.suppress(ValueError):
                    seconds = float(option[9:])
                    return seconds if 0 < seconds < 1e9 else 0
        return 0

    def _run_session(self, stream: socket.socket, seconds: float) -> None:
        """Serve a client by a process, which SIGALRM ends when its time is over."""
        folder = SessionFolder()
        name = f"server:{self._key}".encode()
        stream.sendall(struct.pack("<ii", MAGIC, len(name)) + name)
        stream.settimeout(None)
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # until the process can be ended; an exception of a handler in fork() would be lost, too
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        process = os.fork()
        if process == 0:
            self.close()  # so that the tracker notices the end of the server
            _serve_session(stream, folder, seconds)
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            self._log(f"session {process} has begun")
            status = _reap(process)
        except BaseException:
            os.kill(process, signal.SIGKILL)
            status = _reap(process)
            raise
        finally:
            self._log(f"session {process} {_describe_end(status)}")
            folder.close()
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM:
            stream.settimeout(1)
            text = struct.pack("<iiQ", 1, 11, len(OUT_OF_TIME)) + OUT_OF_TIME
            stream.sendall(struct.pack("<Qi", 4 + len(text), EXCEPTION) + text)


def _serve_session(connection: socket.socket, folder: SessionFolder, seconds: float) -> NoReturn:
    """Serve a client in the forked process, then exit."""
    status = 1
    try:
        # The server ends its sessions at Ctrl-C; its handlers must not run here.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for each in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(each, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGINT, signal.SIGTERM))
        folder.register()
        get_global_func("rpc.ServerLoop")(connection.fileno())
        status = 0
    finally:  # the parent logs the status
        folder.close()
        os._exit(status)


def _reap(process: int) -> int:
    """Wait for a session's process; return its exit status."""
    try:
        return os.waitpid(process, 0)[1]
    except ChildProcessError:  # this program ignores SIGCHLD
        return 0


def _describe_end(status: int) -> str:
    if os.WIFSIGNALED(status):
        return f"was ended by signal {os.WTERMSIG(status)}"
    return "has ended" if status == 0 else "has ended, without a word of its client"


def listen(host: str, port: int, port_end: int) -> socket.socket:
    """Listen at the first free port of a range."""
    why = ""
    for tried in range(port, max(port + 1, port_end)) if port else (0,):
        if not 0 <= tried <= 65535:
            raise ValueError(f"{tried} is not a port; ports are 0 to 65535")
        try:
            family = socket.getaddrinfo(host, tried, type=socket.SOCK_STREAM)[0][0]
            return socket.create_server((host, tried), family=family, backlog=128)
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
    tracker_addr
        (host, port) of a tracker to register with.
    key
        The key that clients must send; a tracker lists the server by it.
    custom_addr
        The address that the tracker gives to clients.
    silent
        Whether to discard the log; otherwise it goes to standard error.

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
        tracker_addr: str | tuple[str, int] | None = None,
        key: str = "",
        custom_addr: str | None = None,
        silent: bool = False,
    ) -> None:
        if is_proxy:
            raise ValueError("is_proxy must be False: tvmrt has no proxy; use ssh -R or a VPN")
        log = str if silent else (lambda line: print(line, file=sys.stderr, flush=True))
        listener = Listener(host, port, port_end, tracker_addr, key, custom_addr, log)
        self.host, self.port = host, listener.port
        process = os.fork()
        if process == 0:
            _serve(listener)
        listener.close()
        self._end = weakref.finalize(self, _terminate, process)

    def terminate(self) -> None:
        """End the server and its sessions."""
        self._end()


def _serve(listener: Listener) -> NoReturn:
    """Run the server in the forked process until SIGTERM or SIGINT, then exit."""
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        listener.run()
    finally:
        os._exit(0)


def _terminate(process: int) -> None:
    os.kill(process, signal.SIGTERM)
    os.waitpid(process, 0)

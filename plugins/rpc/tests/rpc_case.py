"""Helpers for tests of remote calls: packets as bytes, and functions of the servers."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

import tvmrt
from tvmrt import rpc
from tvmrt.error import TVMError
from tvmrt.rpc.messages import read_exactly

T = TypeVar("T")
KEY = "open sesame".replace(" ", "-")
VOID = bytes.fromhex("0c00000000000000 04000000 01000000 04000000")


def register_functions() -> None:
    """Register the functions of the server process, which is a copy of this one."""
    functions = {
        "test_rpc.add_one": lambda x: x + 1,
        "test_rpc.count": lambda a, text: a + len(text) - 1,
        "test_rpc.nothing": lambda: None,
        "test_rpc.adder": lambda x: lambda y: x + y,
        "test_rpc.fail": _fail,
        "test_rpc.crash": os.abort,
        "test_rpc.array": lambda n: tvmrt.nd.array(np.arange(n, dtype="float32")),
        "test_rpc.sum": lambda t: float(t.numpy().sum()),
        "test_rpc.same": lambda x: x,
        "test_rpc.how_many": lambda *values: len(values),
    }
    for name, function in functions.items():
        tvmrt.register_func(name, function, override=True)


def _fail(what: str) -> None:
    raise ValueError(f"no {what}")


def packet(code: int, body: bytes = b"") -> bytes:
    """Return a packet as bytes."""
    return struct.pack("<Qi", 4 + len(body), code) + body


def texts(*values: str) -> bytes:
    """Return a sequence of strings as bytes."""
    head = struct.pack(f"<i{len(values)}i", len(values), *[11] * len(values))
    return head + b"".join(struct.pack("<Q", len(v)) + v.encode() for v in values)


INIT = packet(2, struct.pack("<Q", 5) + b"0.8.0" + bytes(4))


class Raw:
    """Client that sends and receives raw bytes."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self, size: int) -> bytes:
        return read_exactly(self.socket, size)

    def begin(self) -> Raw:
        """Begin the session."""
        assert self.ask(INIT) == VOID
        return self

    def ask(self, data: bytes) -> bytes:
        """Send, and return the whole next packet."""
        self.send(data)
        head = self.read(8)
        return head + self.read(struct.unpack("<Q", head)[0])

    def function(self, name: str) -> int:
        """Return the handle of a global function."""
        answer = self.ask(packet(9, texts(name)))
        assert answer[8:20] == struct.pack("<iii", 4, 1, 3)
        return struct.unpack("<Q", answer[20:])[0]


def client_with_key(port: int, key: str = KEY) -> socket.socket:
    """Return a client that has sent the key and waits for the reply."""
    text = f"client:{key}".encode()
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    sock.sendall(bytes.fromhex("71f20f00") + struct.pack("<i", len(text)) + text)
    return sock


def trickle(sock: socket.socket) -> float:
    """Send a byte now and then; return the seconds until the peer closes the connection."""
    sock.settimeout(0.05)
    start = time.monotonic()
    with contextlib.suppress(ConnectionError):
        while time.monotonic() < start + 60:
            sock.sendall(b"[")
            with contextlib.suppress(socket.timeout):
                assert sock.recv(1) == b""
                break
    return time.monotonic() - start


@contextlib.contextmanager
def connected(port: int, key: str = KEY) -> Iterator[Raw]:
    """Connect to a server; `greeting` is the first word of its answer."""
    with client_with_key(port, key) as sock:
        client = Raw(sock)
        client.greeting = client.read(4)
        if client.greeting == bytes.fromhex("71f20f00"):
            text = f"server:{KEY}".encode()
            assert client.read(4 + len(text)) == struct.pack("<i", len(text)) + text
        yield client


@contextlib.contextmanager
def served() -> Iterator[Raw]:
    """Return a client whose session a thread of this process serves."""
    register_functions()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(60)
        loop = tvmrt.get_global_func("rpc.ServerLoop")
        thread = threading.Thread(target=loop, args=[theirs.fileno()])
        thread.start()
        yield Raw(ours)
        ours.shutdown(socket.SHUT_WR)
        thread.join()


def begun(begin: Callable[[float], T]) -> T:
    """Return what a call starts under the session timeout: a short one, and a longer one if this
    machine was too busy."""
    for seconds in (0.3, 1.5, 8):
        with contextlib.suppress(TVMError, OSError, AssertionError):
            return begin(seconds)
    return begin(40)


class FakeServer:
    """Server with prepared replies that records what it receives."""

    def __init__(self, answers: list[bytes]) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.answers, self.packets = answers, []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        sock, _ = self.listener.accept()
        self.magic = read_exactly(sock, 4)
        self.key = read_exactly(sock, struct.unpack("<i", read_exactly(sock, 4))[0])
        sock.sendall(bytes.fromhex("71f20f00 09000000") + b"server:ab")
        try:
            for answer in [VOID, *self.answers, *[VOID] * 9]:
                head = read_exactly(sock, 8)
                self.packets.append(head + read_exactly(sock, struct.unpack("<Q", head)[0]))
                sock.sendall(answer)
        except ConnectionError:
            pass
        sock.close()
        self.listener.close()


def start_server(**options: Any) -> rpc.Server:
    """A server with the functions above."""
    register_functions()
    return rpc.Server(port=0, key=KEY, silent=True, **options)

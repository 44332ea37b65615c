"""Messages of trackers: JSON, each with its length before it."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any

from tvmrt.error import TVMError

__all__ = ["connect", "receive", "send"]

MAGIC = 0x2F271
FAIL, SUCCESS, PING, STOP, PUT, REQUEST, UPDATE_INFO, SUMMARY, PENDING = range(-1, 8)
LIMIT = 1 << 20
"""Bytes of a message at most."""


def read_exactly(sock: socket.socket, size: int) -> bytes:
    """Return so many bytes; ConnectionError if the other side ends before."""
    parts = []
    while size:
        part = sock.recv(min(size, 65536))
        if not part:
            raise ConnectionError("the other side has closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def send(sock: socket.socket, message: Any) -> None:
    """Send one message."""
    data = json.dumps(message).encode()
    sock.sendall(struct.pack("<i", len(data)) + data)


def receive(sock: socket.socket) -> Any:
    """Return the next message; ValueError if it is none."""
    (size,) = struct.unpack("<i", read_exactly(sock, 4))
    if not 0 <= size <= LIMIT:
        raise ValueError(f"a message of {size} bytes: at most {LIMIT} are taken")
    return json.loads(read_exactly(sock, size).decode())


def connect(address: tuple[str, int]) -> socket.socket:
    """Return a connection to a tracker."""
    sock = socket.create_connection(address, timeout=60)
    try:
        sock.sendall(struct.pack("<i", MAGIC))
        (answer,) = struct.unpack("<i", read_exactly(sock, 4))
        if answer != MAGIC:
            raise TVMError(f"RPCError: {address[0]}:{address[1]} is not a tracker")
        sock.settimeout(None)  # a free server may be long in coming
    except BaseException:
        sock.close()
        raise
    return sock

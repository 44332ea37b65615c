"""Tracker messages: JSON with a length prefix."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from typing import Any

from tvmrt.error import TVMError

__all__ = ["connect", "encode", "read", "receive"]

MAGIC = 0x2F271
FAIL, SUCCESS, PING, STOP, PUT, REQUEST, UPDATE_INFO, SUMMARY, PENDING = range(-1, 8)
LIMIT = 1 << 20
"""Bytes of a message at most."""
MESSAGE_SECONDS = 10
"""For the bytes of one message, from its length on."""
CONNECT_SECONDS = 60
"""For a tracker to answer that it is one."""


def split_address(text: str, what: str, default: int | None = None) -> tuple[str, int]:
    """Return host and port of ``HOST:PORT``; ValueError names `what` if the text has another form.

    Without a colon, the port is `default`.
    """
    host, colon, port = text.rpartition(":")
    if default is not None and not colon:
        return text, default
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ValueError(f"{what} must be given as HOST:PORT, not '{text}'")
    return host, int(port)


def read_exactly(sock: socket.socket, size: int, end: float | None = None) -> bytes:
    """Return exactly `size` bytes.

    Raises ConnectionError if the peer closes the connection early, and TimeoutError if they are
    incomplete at `end`, a time of ``time.monotonic()``. Single bytes do not extend that limit.
    """
    parts = []
    while size:
        if end is not None:
            sock.settimeout(max(end - time.monotonic(), 1e-3))
            if time.monotonic() > end:
                raise socket.timeout("timed out")
        part = sock.recv(min(size, 65536))
        if not part:
            raise ConnectionError("the other side has closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def encode(message: Any) -> bytes:
    """Return the bytes of one message."""
    data = json.dumps(message).encode()
    return struct.pack("<i", len(data)) + data


def _size(prefix: bytes) -> int:
    (size,) = struct.unpack("<i", prefix)
    if not 0 < size <= LIMIT:
        raise ValueError(f"a message has {size} bytes; the maximum is {LIMIT}")
    return size


def receive(sock: socket.socket, end: float | None = None) -> Any:
    """Return the next message, complete by the time `end`; ValueError if it is malformed."""
    return json.loads(read_exactly(sock, _size(read_exactly(sock, 4, end)), end).decode())


async def read(reader: asyncio.StreamReader) -> Any:
    """Return the next message of a stream; ValueError if it is malformed."""
    size = _size(await reader.readexactly(4))
    body = await asyncio.wait_for(reader.readexactly(size), MESSAGE_SECONDS)
    return json.loads(body.decode())


def connect(address: tuple[str, int], seconds: float = CONNECT_SECONDS) -> socket.socket:
    """Return a connection to a tracker."""
    end = time.monotonic() + seconds
    sock = socket.create_connection(address, timeout=seconds)
    try:
        sock.sendall(struct.pack("<i", MAGIC))
        (answer,) = struct.unpack("<i", read_exactly(sock, 4, end))
        if answer != MAGIC:
            raise TVMError(f"RPCError: {address[0]}:{address[1]} is not a tracker")
        sock.settimeout(None)  # a free server may take long
    except BaseException:
        sock.close()
        raise
    return sock

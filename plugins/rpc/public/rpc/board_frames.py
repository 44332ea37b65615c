"""Packets to and from a board: microTVM's frames and sessions over a line.

A frame is ``ff fd``, the length of the payload, the payload, and a CRC-16 of all bytes before; a
byte ``ff`` after the first two is doubled. A payload begins with the session's id, two bytes that
both sides choose, and the type of the message. A lost or damaged frame ends the session.
"""

from __future__ import annotations

import re
import struct
import time
from binascii import crc_hqx
from collections.abc import Iterator

from tvmrt.error import TVMError

from .board_lines import Line

__all__ = ["BoardPackets", "FrameReader", "frame"]

INIT, REPLY, TERMINATE, LOG, PACKET = 0, 1, 2, 3, 16
CALL = 3
LONG_CALL = 60
"""Multiple of the time limit for an answer, for calls."""
MAX_PAYLOAD_BYTES = 1 << 16


FRAME = re.compile(rb"\xff\xfd((?:[^\xff]|\xff\xff)*)", re.DOTALL)


def _escape(data: bytes) -> bytes:
    return data.replace(b"\xff", b"\xff\xff")


def frame(payload: bytes) -> bytes:
    """Return the frame of a payload."""
    text = b"\xff\xfd" + _escape(struct.pack("<I", len(payload)) + payload)
    return text + _escape(struct.pack("<H", crc_hqx(text, 0xFFFF)))


class FrameReader:
    """Parser of frames; damaged and oversized ones are skipped."""

    def __init__(self) -> None:
        self._received = b""

    def take(self, data: bytes) -> Iterator[bytes]:
        """Add received bytes; yield the payloads of the frames that are complete."""
        self._received += data
        while (match := FRAME.search(self._received)) is not None:
            content = match[1].replace(b"\xff\xff", b"\xff")
            end = 4 + int.from_bytes(content[:4], "little")
            if len(content) >= end + 2:
                payload = content[4:end]
                text = frame(payload)
                is_intact = self._received.startswith(text, match.start())
                self._received = self._received[match.start() + (len(text) if is_intact else 2) :]
                if is_intact:
                    yield payload
            elif match.end() < len(self._received) - 1 or end > MAX_PAYLOAD_BYTES:
                self._received = self._received[match.start() + 2 :]  # its end was lost
            else:
                return
        self._received = self._received[-1:]  # it may begin a frame


class BoardPackets:
    """Session with a board: one packet at a time is sent, and its answer received.

    It begins with the first packet.

    Parameters
    ----------
    line
        The line to the board.
    start, answer, retry
        Seconds for the board to begin a session, for an answer, and until the session is requested
        again.
    """

    def __init__(self, line: Line, start: float, answer: float, retry: float) -> None:
        self._line, self._start, self._answer, self._retry = line, start, answer, retry
        self._reader, self._payloads = FrameReader(), list[bytes]()
        self._id, self._log = b"\0\0", ""
        self._inbox = bytearray()
        self._deadline: float | None = None  # of the answer to a request; None: none is expected
        self._is_call = False

    def send(self, packet: bytes) -> None:
        """Send a packet, after the answer to the one before."""
        if not self._id[0]:
            self._begin(packet)
            return
        self._collect()
        self._is_call = packet[8] == CALL
        seconds = self._answer * (LONG_CALL if self._is_call else 1)
        self._deadline = time.monotonic() + seconds
        self._write(PACKET, packet)

    def receive(self, max_bytes: int) -> bytes:
        """Return at most that many bytes of answers."""
        if not self._inbox:
            if self._deadline is None:
                raise self._error("sent a reply that is too short; connect again")
            self._collect()
        part = bytes(self._inbox[:max_bytes])
        del self._inbox[:max_bytes]
        return part

    # ---- messages ----

    def _collect(self) -> None:
        """Wait for the answer to the last request."""
        while self._deadline is not None:
            kind = self._next(self._deadline)
            if kind == TERMINATE:
                raise self._error("was restarted, or ended the session; connect again")
            if kind == PACKET:
                self._deadline = None
            elif time.monotonic() >= self._deadline:
                what = "has not finished a call" if self._is_call else "does not answer"
                raise self._error(f"{what}; check the serial line, its speed and the board's power")

    def _next(self, end: float) -> int | None:
        """Read a message before a time; return its type, or None for one of another session.

        The data of a packet go to the inbox.
        """
        payload = self._read(end)
        session, kind, body = payload[:2], payload[2:3], payload[3:]
        if kind == bytes([LOG]):
            self._log = body.decode(errors="replace")[:256]
        elif kind == bytes([REPLY]) and session[:1] + b"\0" == self._id and session[1]:
            self._id = session
            return REPLY
        elif kind == bytes([TERMINATE]) and session in (self._id, b"\0\0"):
            return TERMINATE
        elif kind == bytes([PACKET]) and session == self._id:
            self._inbox += body
            return PACKET
        return None

    def _read(self, end: float) -> bytes:
        """Return the payload of the next frame; b"" if none is complete at the time `end`."""
        while not self._payloads:
            left = end - time.monotonic()
            received = self._line.receive(4096, max(0.0, left))
            self._payloads += [each for each in self._reader.take(received) if len(each) >= 3]
            if left <= 0:
                break
        return self._payloads.pop(0) if self._payloads else b""

    def _write(self, kind: int, body: bytes) -> None:
        self._line.send(frame(self._id + bytes([kind]) + body))

    def _begin(self, packet: bytes) -> None:
        """Begin the session; the answer to its first packet is in the inbox then.

        A board with an earlier session resets itself and answers the next request.
        """
        end = time.monotonic() + self._start
        nonce = time.monotonic_ns() // 1000 & 0xFF  # consecutive clients rarely share one
        self._line.send(b"\xfe")  # wakes up receivers
        while time.monotonic() < end:
            nonce = ((nonce << 5 | nonce >> 5) + 1 & 0xFF) or 1
            self._id = bytes([nonce, 0])
            self._write(INIT, b"\1")
            if self._await(REPLY):
                self._write(PACKET, packet)
                if self._await(PACKET):
                    self._log = ""  # output of the start does not explain later errors
                    return
        raise self._error(
            "does not start a session; check that its firmware contains the RPC server, and the "
            "line's speed"
        )

    def _await(self, kind: int) -> bool:
        """Wait for a message; others do not extend the time."""
        end = time.monotonic() + self._retry
        while time.monotonic() < end:
            if self._next(end) == kind:
                return True
        return False

    def _error(self, text: str) -> TVMError:
        what, _, remedy = text.partition("; ")
        said = f"; it last said '{self._log}'" if self._log else ""
        return TVMError(f"RPCError: {self._line.name} {what}{said}; {remedy}.")

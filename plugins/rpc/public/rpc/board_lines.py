"""Lines to boards: a serial port, or a QEMU process.

Serial ports are opened with ``termios``. All POSIX systems, which the client side of remote calls
needs, have it, so another package would only add a dependency.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Line", "open_line"]

DEFAULT_BAUD = 115200


class Line:
    """Pair of file descriptors connected to a board.

    Parameters
    ----------
    name
        Name of the line in error messages.
    source, sink
        Descriptors to read from and to write to; they may be equal.
    close
        Called once, by close() or when the object is released.
    why_ended
        Returns the reason why the line ended, or "".
    """

    def __init__(
        self,
        name: str,
        source: int,
        sink: int,
        close: Callable[[], object],
        why_ended: Callable[[], str] = str,
    ) -> None:
        self.name = name
        self._source, self._sink, self._why_ended = source, sink, why_ended
        self._close = weakref.finalize(self, close)

    def send(self, data: bytes, microseconds: int | None = None) -> int:
        """Send all bytes and return their number; ConnectionError if they are not taken."""
        end = time.monotonic() + (10 if microseconds is None else microseconds / 1e6)
        left = memoryview(data)
        while left:
            self._check_open()
            _, ready, _ = select.select([], [self._sink], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise ConnectionError(f"{self.name} does not accept data; check the connection")
            try:
                left = left[os.write(self._sink, left) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._connection_error() from error
        return len(data)

    def receive(self, max_bytes: int, microseconds: int | None = None) -> bytes:
        """Return at most `max_bytes` bytes; none if none have come in time. Raises ConnectionError
        at the end of the line."""
        self._check_open()
        seconds = None if microseconds is None else microseconds / 1e6
        ready, _, _ = select.select([self._source], [], [], seconds)
        try:
            data = os.read(self._source, max_bytes) if ready else b""
        except BlockingIOError:
            return b""
        except OSError as error:
            raise self._connection_error() from error
        if ready and not data:
            raise self._connection_error()
        return data

    def close(self) -> None:
        """Close the line; a second call does nothing."""
        self._close()

    def _check_open(self) -> None:
        if not self._close.alive:
            raise ConnectionError(f"{self.name} is closed")

    def _connection_error(self) -> ConnectionError:
        more = self._why_ended()
        return ConnectionError(f"{self.name} has ended" + (f": {more}" if more else ""))


def open_line(address: str) -> Line:
    """Open a line by its name.

    Parameters
    ----------
    address
        ``serial:PATH[:BAUD]``: a serial port, by default at 115200 baud.

    Raises
    ------
    ValueError
        If the name has another form.
    OSError
        If the line cannot be opened.
    """
    kind, _, argument = address.partition(":")
    if kind != "serial" or not argument:
        raise ValueError(f"'{address}' is not a connection to a board; give serial:PATH[:BAUD]")
    path, colon, text = argument.rpartition(":")
    if not colon or not text.isdigit():
        path, text = argument, str(DEFAULT_BAUD)
    try:
        import termios
    except ImportError as error:
        raise ValueError(
            f"{address}: this system has no termios, which serial ports need"
        ) from error
    speed = getattr(termios, f"B{text}", None)
    if speed is None:
        known = sorted(int(name[1:]) for name in dir(termios) if name[1:].isdigit())
        raise ValueError(f"{address}: the speed must be one of {', '.join(map(str, known[1:]))}")
    fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        _make_raw(termios, fd, speed)
    except termios.error as error:
        os.close(fd)
        raise ValueError(f"{path} is not a serial port: {error.args[-1]}") from error
    return Line(address, fd, fd, lambda: os.close(fd))


def _make_raw(termios: Any, fd: int, speed: int) -> None:
    """Set raw mode: 8 bits, no parity, no translation, equal speed in both directions."""
    off, control = 0, termios.CS8 | termios.CREAD | termios.CLOCAL
    characters = termios.tcgetattr(fd)[6]
    characters[termios.VMIN], characters[termios.VTIME] = 0, 0
    termios.tcsetattr(fd, termios.TCSANOW, [off, off, control, off, speed, speed, characters])
    termios.tcflush(fd, termios.TCIOFLUSH)


def start_emulator(command: Sequence[str], image: str, shift: int) -> Line:
    """Start QEMU with an image and return the line to its serial port.

    Its clock advances 2 ** ``shift`` nanoseconds per instruction, so that times are reproducible.

    Raises
    ------
    FileNotFoundError
        If the emulator is not installed.
    """
    if shutil.which(command[0]) is None:
        raise FileNotFoundError(f"{command[0]} is not installed; it emulates the board")
    log_file = tempfile.TemporaryFile()
    process = subprocess.Popen(
        [
            *command, "-display", "none", "-monitor", "none", "-icount", f"shift={shift}",
            "-chardev", "stdio,id=line,signal=off", "-serial", "chardev:line", "-kernel", image,
        ],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log_file,
    )  # fmt: skip
    assert process.stdin is not None and process.stdout is not None
    sink, source = process.stdin, process.stdout
    os.set_blocking(sink.fileno(), False)

    def close() -> None:
        process.kill()
        process.wait()
        for stream in (sink, source, log_file):
            with contextlib.suppress(OSError):
                stream.close()

    def why_ended() -> str:
        log_file.seek(0)
        return log_file.read().decode(errors="replace").strip()[-300:]

    return Line(command[0], source.fileno(), sink.fileno(), close, why_ended)

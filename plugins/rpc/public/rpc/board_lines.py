"""Lines to boards: a serial port, or a QEMU process.

Serial ports are opened with ``termios``. All POSIX systems, which the client side of remote calls
needs, have it, so another package would only add a dependency.
"""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import weakref
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["Line", "open_line"]

DEFAULT_BAUD = 115200


class Line:
    """Connection to a board.

    Parameters
    ----------
    name
        Name of the line in error messages.
    descriptor
        Non-blocking descriptor to read from and to write to.
    close
        Called once, by close() or when the object is released.
    """

    def __init__(self, name: str, descriptor: int, close: Callable[[], object]) -> None:
        self.name, self._descriptor = name, descriptor
        self._close = weakref.finalize(self, close)

    def send(self, data: bytes) -> None:
        """Send all bytes; ConnectionError if they are not taken within ten seconds."""
        left = memoryview(data)
        while left:
            self._check_open()
            if not select.select([], [self._descriptor], [], 10)[1]:
                raise ConnectionError(f"{self.name} does not accept data; check the connection")
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:
                continue
            except OSError as error:
                raise ConnectionError(f"{self.name} has ended") from error

    def receive(self, max_bytes: int, seconds: float) -> bytes:
        """Return at most `max_bytes` bytes; none if none have come in time. Raises ConnectionError
        at the end of the line."""
        self._check_open()
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return b""
        try:
            data = os.read(self._descriptor, max_bytes)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise ConnectionError(f"{self.name} has ended") from error
        if not data:
            raise ConnectionError(f"{self.name} has ended")
        return data

    def close(self) -> None:
        """Close the line; a second call does nothing."""
        self._close()

    def _check_open(self) -> None:
        if not self._close.alive:
            raise ConnectionError(f"{self.name} is closed")


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
    return Line(address, fd, lambda: os.close(fd))


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
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    process = subprocess.Popen(
        [
            *command, "-display", "none", "-monitor", "none", "-icount", f"shift={shift}",
            "-chardev", "stdio,id=line,signal=off", "-serial", "chardev:line", "-kernel", image,
        ],
        stdin=theirs.fileno(), stdout=theirs.fileno(),
    )  # fmt: skip
    theirs.close()

    def close() -> None:
        process.kill()
        process.wait()
        ours.close()

    return Line(command[0], ours.fileno(), close)

"""Test the remote call server for boards as a process: bytes, calls, and failing lines."""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import struct
import subprocess
import time
import tty

import numpy as np
import pytest

import tvmrt
from tvmrt.compiler.export.firmware_build import SERVER, runtime_sources
from tvmrt.error import TVMError
from tvmrt.libinfo import find_firmware_path, find_include_path
from tvmrt.rpc.board import connect_board
from tvmrt.rpc.board_frames import FrameReader, frame
from tvmrt.rpc.board_lines import Line, open_line

CHECKS = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


@pytest.fixture(scope="session")
def program(tmp_path_factory):
    """Build the server from the files of an image, with the sanitizers."""
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    names = {*runtime_sources([SERVER]), *runtime_sources(["aot"])}
    sources = [f"{find_firmware_path()}/{name}" for name in sorted(names) if name.endswith(".c")]
    out = tmp_path_factory.mktemp("board") / "board"
    main = f"{os.path.dirname(__file__)}/board_server.c"
    includes = [f"-I{path}" for path in find_include_path()]
    warnings = ["-std=gnu99", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *warnings, *CHECKS, *includes, main, *sources, "-o", out], check=True)
    return out


@pytest.fixture
def start(program):
    """Return a function that starts a board on a descriptor, or else returns a socket to it. No
    board may have failed at the end."""
    started, sockets = [], []

    def start_one(descriptor=None):
        if descriptor is None:
            sockets.append(socket.socketpair())
            descriptor = sockets[-1][1]
        streams = {"stdin": descriptor, "stdout": descriptor, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen([program], **streams))
        return sockets[-1][0] if sockets else started[-1]

    yield start_one
    for ours, _ in sockets:
        ours.shutdown(socket.SHUT_WR)
    for process in started:
        assert process.wait(timeout=600) == 0, process.stderr.read().decode()
        process.stderr.close()
    for each in itertools.chain(*sockets):
        each.close()


class Noisy(Line):
    """Changes a byte of what it sends, if asked to, and adds bytes before what it receives."""

    is_noisy, added = False, b""

    def send(self, data):
        super().send(bytes([*data[:-1], data[-1] ^ 4]) if self.is_noisy else data)

    def receive(self, max_bytes, seconds):
        if not self.added:
            return super().receive(max_bytes, seconds)
        taken, self.added = self.added[:max_bytes], self.added[max_bytes:]
        return taken


def line_of(board) -> Noisy:
    return Noisy("the board", board.fileno(), lambda: None)


@pytest.fixture
def session(start):
    made = connect_board(line_of(start()))
    yield made
    made.close()


# ---- raw bytes ----


def read_exactly(board, size: int) -> bytes:
    return board.recv(size, socket.MSG_WAITALL)


def read_payload(board) -> bytes:
    """Return the payload of the next frame."""
    reader, payloads = FrameReader(), []
    while not payloads:
        payloads += reader.take(board.recv(1))
    return payloads[0]


INIT = bytes.fromhex("10 00000000000000 02000000 0000000000000000 00000000".replace(" ", ""))
GET_ECHO = bytes.fromhex("18 00000000000000 09000000 01000000 0b000000 0400000000000000 6563686f")


def test_frames_equal_tvm():
    """The expected bytes were recorded from TVM 0.18."""
    assert frame(bytes.fromhex("000002")).hex() == "fffd030000000000026677"
    assert frame(bytes.fromhex("21000001")).hex() == "fffd0400000021000001d198"
    payload, reader = bytes(range(256)) * 3, FrameReader()
    damaged = frame(payload)[:-1] + b"\0"
    oversized = b"\xff\xfd\xff\xff\xff\xff\xff\xff\xff\xff"
    received = b"noise\xff" + damaged + frame(payload)[:99] + oversized + frame(payload) * 2
    assert list(reader.take(received)) == [payload] * 2
    byte_by_byte = [each for byte in received for each in reader.take(bytes([byte]))]
    assert byte_by_byte == [payload] * 2


def test_session_bytes_equal_microtvm(start):
    board = start()
    assert read_exactly(board, 12).hex() == "fefffd030000000000026677"
    board.sendall(bytes.fromhex("fffd0400000021000001d198"))  # TVM's own
    reply = read_exactly(board, 12)
    nonce = reply[7]
    assert nonce and reply == frame(bytes([0x21, nonce, 1, 1]))
    head = bytes([0x21, nonce, 0x10])
    board.sendall(frame(head + INIT) + frame(head + GET_ECHO))
    void = bytes.fromhex("0c00000000000000 04000000 01000000 04000000")
    assert read_exactly(board, len(frame(head + void))) == frame(head + void)
    packet = read_payload(board)[3:]
    assert packet[:20].hex() == "1400000000000000" + "04000000" + "01000000" + "03000000"
    assert int.from_bytes(packet[20:28], "little") != 0


# ---- calls ----


def test_values_and_tensors_go_there_and_back(session):
    echo = session.get_function("echo")
    values = [7, -(2**62), 1.5, "text", b"\xff\xfe\xfd\0", b"", None]
    assert [echo(x) for x in values] == values
    array = np.random.default_rng(1).normal(size=3000).astype("float32")  # six packets
    there = tvmrt.nd.array(array, session.cpu())
    assert session.get_function("sum")(there) == pytest.approx(array.astype("float64").sum())
    np.testing.assert_array_equal(there.numpy(), array)


def test_times_are_of_the_boards_clock(session):
    make = session.get_function("runtime.RPCTimeEvaluator")
    evaluate = make(None, "rest", 1, 0, 1, 3, 0, 0, 0, 1, 0, "")
    seconds = struct.unpack("<3d", bytes(evaluate(20)))
    assert all(0.02 <= one < 0.2 for one in seconds)


def test_error_returns_its_code_and_session_continues(session):
    echo = session.get_function("echo")
    with pytest.raises(TVMError, match="code 0x00000800"):
        echo(1, 2)
    with pytest.raises(TVMError, match="code 0x00000503"):  # out of memory
        tvmrt.nd.empty((1 << 20,), "float32", session.cpu())
    with pytest.raises(AttributeError):
        session.get_function("no such function")
    assert echo(3) == 3


# ---- failing lines ----


def test_damaged_request_is_not_run(start):
    line = line_of(start())
    session = connect_board(line, answer_seconds=0.05)
    crash = session.get_function("crash")
    line.is_noisy = True
    with pytest.raises(TVMError, match="the board has not finished a call; check the serial line"):
        crash()
    session.close()


def test_board_that_only_sends_messages_starts_no_session():
    """Its messages arrive without a pause, and none is the expected one."""

    class Talking(Line):
        talk = itertools.cycle(frame(b"\0\0\3still here"))

        def send(self, data):
            pass

        def receive(self, max_bytes, seconds):
            return bytes(itertools.islice(self.talk, max_bytes))

    start = time.monotonic()
    with pytest.raises(TVMError, match="it last said 'still here'"):
        connect_board(Talking("the line", -1, lambda: None), start_seconds=0.2, retry_seconds=0.05)
    assert time.monotonic() - start < 30


def test_board_that_exits_is_reported(program):
    ours, theirs = socket.socketpair()
    with ours, theirs, subprocess.Popen([program], stdin=theirs, stdout=theirs):
        theirs.close()
        session = connect_board(line_of(ours))
        with pytest.raises(ConnectionError, match="the board has ended"):
            session.get_function("crash")()
        with pytest.raises(TVMError, match="the session is closed"):
            session.get_function("echo")
        session.close()


def test_board_that_stops_answering_or_restarts_is_reported(start):
    line = line_of(start())
    session = connect_board(line, answer_seconds=0.02)
    rest = session.get_function("rest")
    rest(300)  # longer than other requests may take
    line.added = frame(b"\0\0\2")  # message of a starting board
    with pytest.raises(TVMError, match="was restarted, or ended the session; connect again"):
        rest(0)
    session.close()
    session = connect_board(line_of(start()), answer_seconds=0.02)
    rest = session.get_function("rest")
    with pytest.raises(TVMError, match="the board has not finished a call"):
        rest(1500)
    session.close()


def test_a_tensor_too_large_to_count_is_refused(start):
    """The size must not overflow to an empty tensor, whose address is not checked."""
    board = start()
    board.sendall(frame(bytes.fromhex("21000001")))
    head = bytes([0x21, 1, 0x10])
    tensor = struct.pack("<QiiiIqqQ", 0xA1A1A1A1A1A1, 1, 0, 2, 0x12002, -1, 1 << 40, 8)
    body = struct.pack("<4i", 3, 7, 7, 3) + tensor * 2 + bytes(8)
    copy = struct.pack("<Qi", len(body) + 4, 16) + body
    board.sendall(frame(head + INIT) + frame(head + copy))
    assert read_exactly(board, 1) == b"\xfe"
    payloads = [read_payload(board) for _ in range(4)]
    assert b"code 0x00000803" in payloads[-1]


# ---- lines ----


def test_a_serial_port_carries_it(start):
    ours, theirs = os.openpty()
    tty.setraw(ours)
    board = start(ours)
    session = connect_board(f"serial:{os.ttyname(theirs)}:115200")
    assert session.get_function("echo")("over a terminal") == "over a terminal"
    session.close()
    os.close(theirs)
    board.wait(timeout=600)
    os.close(ours)


@pytest.mark.parametrize(
    "place, text",
    [
        ("serial:", "not a connection to a board; give serial:PATH"),
        ("tcp:host:1", "not a connection to a board; give serial:PATH"),
        ("serial:/dev/null", "/dev/null is not a serial port"),
        ("serial:/dev/null:12345", "the speed must be one of .*115200"),
    ],
)
def test_names_of_lines_are_checked(place, text):
    with pytest.raises(ValueError, match=text):
        open_line(place)

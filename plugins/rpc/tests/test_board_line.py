"""Test the remote call server for boards as a process: bytes, calls, and failing lines."""

from __future__ import annotations

import binascii
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
    """Return a function that starts boards: a process with two pipes. No process may have failed at
    the end."""
    started = []

    def start_one(**streams):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, **streams}
        process = subprocess.Popen([program], stderr=subprocess.PIPE, **pipes)
        started.append(process)
        return process

    yield start_one
    for process in started:
        if process.stdin:
            process.stdin.close()
        assert process.wait(timeout=600) == 0, process.stderr.read().decode()
        for stream in (process.stdout, process.stderr):
            if stream:
                stream.close()


def line_of(process, kind=Line, **options):
    return kind(
        "the board", process.stdout.fileno(), process.stdin.fileno(), lambda: None, **options
    )


@pytest.fixture
def session(start):
    made = connect_board(line_of(start()))
    yield made
    made.close()


# ---- raw bytes ----


def frame(payload: bytes) -> bytes:
    """Return a frame in microTVM's format; Python computes the checksum."""
    escaped = (struct.pack("<I", len(payload)) + payload).replace(b"\xff", b"\xff\xff")
    text = b"\xff\xfd" + escaped
    crc = struct.pack("<H", binascii.crc_hqx(text, 0xFFFF))
    return text + crc.replace(b"\xff", b"\xff\xff")


def read_exactly(process, size: int) -> bytes:
    return process.stdout.read(size)


def read_payload(process) -> bytes:
    """Return the payload of the next frame."""

    def take(size: int) -> bytes:
        out = b""
        while len(out) < size:
            out += process.stdout.read(1)
            if out[-1] == 0xFF:
                assert process.stdout.read(1) == b"\xff"
        return out

    assert process.stdout.read(2) == b"\xff\xfd"
    payload = take(struct.unpack("<I", take(4))[0])
    take(2)
    return payload


INIT = bytes.fromhex("10 00000000000000 02000000 0000000000000000 00000000".replace(" ", ""))
GET_ECHO = bytes.fromhex("18 00000000000000 09000000 01000000 0b000000 0400000000000000 6563686f")


def test_frames_equal_tvm():
    """The expected bytes were recorded from TVM 0.18."""
    assert frame(bytes.fromhex("000002")).hex() == "fffd030000000000026677"
    assert frame(bytes.fromhex("21000001")).hex() == "fffd0400000021000001d198"


def test_session_bytes_equal_microtvm(start):
    board = start()
    assert read_exactly(board, 12).hex() == "fefffd030000000000026677"
    board.stdin.write(bytes.fromhex("fffd0400000021000001d198"))  # TVM's own
    board.stdin.flush()
    reply = read_exactly(board, 12)
    nonce = reply[7]
    assert nonce and reply == frame(bytes([0x21, nonce, 1, 1]))
    head = bytes([0x21, nonce, 0x10])
    board.stdin.write(frame(head + INIT) + frame(head + GET_ECHO))
    board.stdin.flush()
    void = bytes.fromhex("0c00000000000000 04000000 01000000 04000000")
    assert read_exactly(board, len(frame(head + void))) == frame(head + void)
    packet = read_payload(board)[3:]
    assert packet[:20].hex() == "1400000000000000" + "04000000" + "01000000" + "03000000"
    assert int.from_bytes(packet[20:28], "little") != 0


# ---- calls ----


def test_values_go_there_and_back(session):
    echo = session.get_function("echo")
    assert [echo(x) for x in (7, -(2**62), 1.5, "text", b"\xff\xfe\xfd\0", b"")] == [
        7, -(2**62), 1.5, "text", b"\xff\xfe\xfd\0", b"",
    ]  # fmt: skip
    assert echo(None) is None


def test_tensors_are_copied_in_parts(session):
    array = np.random.default_rng(1).normal(size=3000).astype("float32")  # six packets
    there = tvmrt.nd.array(array, session.cpu())
    assert session.get_function("sum")(there) == pytest.approx(array.astype("float64").sum())
    np.testing.assert_array_equal(there.numpy(), array)
    del there


def test_out_of_memory_returns_an_error_code(session):
    with pytest.raises(TVMError, match="code 0x00000503"):
        tvmrt.nd.empty((1 << 20,), "float32", session.cpu())
    assert session.get_function("echo")(1) == 1


def test_times_are_of_the_boards_clock(session):
    make = session.get_function("runtime.RPCTimeEvaluator")
    evaluate = make(None, "rest", 1, 0, 1, 3, 0, 0, 0, 1, 0, "")
    seconds = struct.unpack("<3d", bytes(evaluate(20)))
    assert all(0.02 <= one < 0.2 for one in seconds)


def test_error_returns_its_code_and_session_continues(session):
    with pytest.raises(TVMError, match="code 0x00000800"):
        session.get_function("echo")(1, 2)
    with pytest.raises(AttributeError):
        session.get_function("no such function")
    assert session.get_function("echo")(3) == 3


# ---- failing lines ----


class Noisy(Line):
    """Changes a byte of what it sends, if asked to, and adds bytes before what it receives."""

    is_noisy, added = False, b""

    def send(self, data, microseconds=None):
        changed = bytes([*data[:-1], data[-1] ^ 4]) if self.is_noisy else data
        return super().send(changed, microseconds)

    def receive(self, most, microseconds=None):
        if not self.added:
            return super().receive(most, microseconds)
        taken, self.added = self.added[:most], self.added[most:]
        return taken


def test_damaged_request_is_not_run(start):
    line = line_of(start(), Noisy)
    session = connect_board(line, answer_seconds=0.05)
    count = session.get_function("count")
    assert count() == 1
    line.is_noisy = True
    with pytest.raises(TVMError, match="the board has not finished a call; check the serial line"):
        count()
    session.close()


def test_silent_line_is_reported(tmp_path):
    ours, theirs = socket.socketpair()
    line = Line("the line", ours.fileno(), ours.fileno(), ours.close)
    with pytest.raises(
        TVMError, match="the line does not start a session; check that its firmware"
    ):
        connect_board(line, start_seconds=0.2)
    theirs.close()


def test_board_that_only_sends_messages_starts_no_session():
    """Its messages arrive without a pause, and none is the expected one."""

    class Talking(Line):
        talk = itertools.cycle(frame(b"\0\0\3still here"))

        def send(self, data, microseconds=None):
            return len(data)

        def receive(self, most, microseconds=None):
            return bytes(itertools.islice(self.talk, most))

    line = Talking("the line", -1, -1, lambda: None)
    start = time.monotonic()
    with pytest.raises(TVMError, match="it last said 'still here'"):
        connect_board(line, start_seconds=0.2, retry_seconds=0.05)
    assert time.monotonic() - start < 30


def test_board_that_exits_is_reported(start):
    session = connect_board(line_of(start()))
    with pytest.raises(ConnectionError, match="the board has ended"):
        session.get_function("crash")()
    with pytest.raises(TVMError, match="the session is closed"):
        session.get_function("echo")
    session.close()


def test_board_that_stops_answering_is_reported(start):
    session = connect_board(line_of(start()), answer_seconds=0.02)
    rest = session.get_function("rest")
    rest(300)  # longer than other requests may take
    with pytest.raises(TVMError, match="the board has not finished a call"):
        rest(1500)
    session.close()


def test_board_that_restarts_is_reported(start):
    line = line_of(start(), Noisy)
    session = connect_board(line)
    echo = session.get_function("echo")
    line.added = frame(b"\0\0\2")  # message of a starting board
    with pytest.raises(TVMError, match="was restarted, or ended the session; connect again"):
        echo(1)
    session.close()


def test_a_tensor_too_large_to_count_is_refused(start):
    """Found by fuzzing: the size overflowed to an empty tensor, whose address is not checked."""
    board = start()
    board.stdin.write(frame(bytes.fromhex("21000001")))
    head = bytes([0x21, 1, 0x10])
    tensor = struct.pack("<QiiiIqqQ", 0xA1A1A1A1A1A1, 1, 0, 2, 0x12002, -1, 1 << 40, 8)
    body = struct.pack("<4i", 3, 7, 7, 3) + tensor * 2 + bytes(8)
    copy = struct.pack("<Qi", len(body) + 4, 16) + body
    board.stdin.write(frame(head + INIT) + frame(head + copy))
    board.stdin.flush()
    assert read_exactly(board, 1) == b"\xfe"
    payloads = [read_payload(board) for _ in range(4)]
    assert b"code 0x00000803" in payloads[-1]


# ---- lines ----


def test_a_serial_port_carries_it(start):
    ours, theirs = os.openpty()
    tty.setraw(ours)
    board = start(stdin=ours, stdout=ours)
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
        ("com1", "not a connection to a board; give serial:PATH"),
        ("serial:/dev/null", "/dev/null is not a serial port"),
        ("serial:/dev/null:12345", "the speed must be one of .*115200"),
        ("tcp:host:1", "not a connection to a board; give serial:PATH"),
    ],
)
def test_names_of_lines_are_checked(place, text):
    with pytest.raises(ValueError, match=text):
        open_line(place)

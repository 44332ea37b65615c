"""Test the tracker: its messages by hand, and servers and clients that meet through it."""

from __future__ import annotations

import json
import socket
import struct
import time

import pytest
import rpc_case

from tvmrt import rpc
from tvmrt.error import TVMError
from tvmrt.rpc.messages import read_exactly


@pytest.fixture
def tracker():
    started = rpc.Tracker(port=0)
    yield started
    started.terminate()


class Line:
    """Connection to a tracker that sends and receives raw bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.sendall(bytes.fromhex("71f20200"))
        assert read_exactly(self.socket, 4) == bytes.fromhex("71f20200")

    def send(self, text: str) -> None:
        self.socket.sendall(struct.pack("<i", len(text)) + text.encode())

    def read(self):
        (size,) = struct.unpack("<i", read_exactly(self.socket, 4))
        return json.loads(read_exactly(self.socket, size))

    def ask(self, text: str):
        self.send(text)
        return self.read()


def test_messages_of_the_protocol(tracker):
    server, first, second, third = (Line(tracker.port) for _ in range(4))
    assert server.ask("[1]") == 0
    assert server.ask('[5, {"key": "server:pi", "addr": [null, "9091"]}]') == 0
    assert server.ask('[3, "pi", [9091, "pi:0.1"], null]') == 0
    assert server.ask("[7]") == ["pi:0.1"]
    assert first.ask("[6]") == [
        0,
        {
            "queue_info": {"pi": {"free": 1, "pending": 0}},
            "server_info": [{"key": "server:pi", "addr": ["127.0.0.1", 9091]}],
        },
    ]
    assert first.ask('[4, "pi", "", 1]') == [0, ["127.0.0.1", 9091, "pi:0.1"]]
    assert server.ask("[7]") == []
    second.send('[4, "pi", "", 1]')
    deadline = time.monotonic() + 60
    while first.ask("[6]")[1]["queue_info"].get("pi") != {"free": 0, "pending": 1}:
        assert time.monotonic() < deadline
    third.send('[4, "pi", "", 5]')  # came later, and is served first
    while first.ask("[6]")[1]["queue_info"]["pi"]["pending"] != 2:
        assert time.monotonic() < deadline
    assert server.ask('[3, "pi", [9091, "pi:0.2"], "board.local"]') == 0
    assert third.read() == [0, ["board.local", 9091, "pi:0.2"]]
    assert server.ask('[3, "pi", [9091, "pi:0.3"], null]') == 0
    assert second.read() == [0, ["127.0.0.1", 9091, "pi:0.3"]]
    assert server.ask('[3, "pi", [9091, "pi:0.4"], null]') == 0
    server.socket.close()  # its offered servers go with it
    while first.ask("[6]")[1] != {"queue_info": {}, "server_info": []}:
        assert time.monotonic() < deadline
    assert first.ask("[99]") == -1


def test_invalid_message_closes_only_its_connection(tracker):
    for data in (b"\xff" * 4, struct.pack("<i", 1 << 30), b"\x02\0\0\0{}", b"\x01\0\0\0x"):
        line = Line(tracker.port)
        line.socket.sendall(data)
        assert line.socket.recv(1) == b""
    deep = Line(tracker.port)
    deep.send("[" * 100000)
    assert deep.socket.recv(1) == b""
    assert Line(tracker.port).ask("[1]") == 0
    other = socket.create_connection(("127.0.0.1", tracker.port), timeout=60)
    other.sendall(b"GET / HTTP/1.0\r\n\r\n")
    assert other.recv(1) == b""


def test_a_server_is_handed_out_one_client_after_the_other(tracker):
    address = ("127.0.0.1", tracker.port)
    server = rpc_case.start_server(tracker_addr=address)
    line = rpc.connect_tracker(*address)
    deadline = time.monotonic() + 60
    while not line.summary()["queue_info"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (info,) = line.summary()["server_info"]
    assert info["addr"] == ["127.0.0.1", server.port]
    with pytest.raises(TVMError, match="cannot find server that matches"):
        rpc.connect("127.0.0.1", server.port, rpc_case.KEY)  # not through the tracker
    for number in range(2):
        remote = line.request(rpc_case.KEY)
        assert remote.get_function("test_rpc.add_one")(number) == number + 1
        assert line.summary()["queue_info"] == {rpc_case.KEY: {"free": 0, "pending": 0}}
        remote.close()
    server.terminate()
    while line.summary()["server_info"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_whole_message_has_one_timeout(tracker, monkeypatch):
    monkeypatch.setattr("tvmrt.rpc.messages.MESSAGE_SECONDS", 0.3)
    line = Line(tracker.port)
    line.socket.sendall(struct.pack("<i", 4000))
    assert rpc_case.trickle(line.socket) < 30

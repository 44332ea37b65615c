"""Test servers on a thread of this process: settings of their owners, and refusals."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import threading
import time

import pytest
from rpc_case import KEY, VOID, Raw, begun, packet, texts

import tvmrt
from tvmrt import rpc
from tvmrt.error import TVMError
from tvmrt.rpc.messages import read_exactly
from tvmrt.rpc.server import Listener

INIT = packet(2, struct.pack("<Q", 5) + b"0.8.0" + bytes(4))


@contextlib.contextmanager
def listening(**options):
    """Start a server on a thread and return it with its log lines."""
    lines: list[str] = []
    listener = Listener(port=0, key=KEY, log=lines.append, **options)
    thread = threading.Thread(target=listener.run)
    thread.start()
    try:
        yield listener, lines
    finally:
        listener.stop()
        thread.join()
        listener.close()


def wait_for(condition) -> None:
    """Wait until a condition is true; fail after a timeout."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_log():
    with listening(session_seconds=60) as (listener, lines):
        remote = rpc.connect("127.0.0.1", listener.port, KEY)
        assert remote.get_function("runtime.NumThreads")() > 0
        remote.close()
        wait_for(lambda: len(lines) == 2)
        assert lines[0].endswith("has begun") and lines[1].startswith(lines[0].split(" has")[0])
        with Raw(listener.port, "other"):
            wait_for(lambda: lines[-1] == "no session for a client: it sent a wrong key")


def test_sessions_wait_for_each_other_and_end_with_the_server():
    with listening() as (listener, lines):
        first, second = Raw(listener.port).begin(), client_with_key(listener.port)
        second.settimeout(0.1)
        with pytest.raises(TimeoutError if sys.version_info >= (3, 10) else socket.timeout):
            second.recv(1)  # no reply while the first session is open
        first.send(packet(1))
        second.settimeout(60)
        assert read_exactly(second, 4) == bytes.fromhex("71f20f00")
        wait_for(lambda: len(lines) == 3)
    assert read_exactly(second, 11 + len(KEY)).endswith(KEY.encode())
    assert second.recv(1) == b""
    assert "ended by signal 9" in lines[-1]


def client_with_key(port: int) -> socket.socket:
    """Return a client that has sent the key and waits for the reply."""
    text = f"client:{KEY}".encode()
    sock = socket.create_connection(("127.0.0.1", port), timeout=60)
    sock.sendall(bytes.fromhex("71f20f00") + struct.pack("<i", len(text)) + text)
    return sock


def greeted_in(port: int) -> float:
    """Return the seconds until a client with the key has its reply."""
    start = time.monotonic()
    with Raw(port) as client:
        assert client.greeting == bytes.fromhex("71f20f00")
    return time.monotonic() - start


@pytest.mark.parametrize("sent", [b"", b"\x71\xf2\x0f\0\xe8\3\0\0cli"])
def test_peers_without_the_key_delay_no_client(sent, monkeypatch):
    """Open more connections than the server keeps, each stopped after some bytes of the
    greeting."""
    monkeypatch.setattr("tvmrt.rpc.server.GREET_SECONDS", 600)
    with listening() as (listener, lines):
        peers = []
        for _ in range(140):
            peers.append(socket.create_connection(("127.0.0.1", listener.port), timeout=60))
            peers[-1].sendall(sent)
        assert greeted_in(listener.port) < 30
        assert peers[0].recv(1) == b""  # the oldest one was dropped
        peers[-1].settimeout(0.05)
        with pytest.raises(OSError, match="timed out"):
            peers[-1].recv(1)  # the last are still there
        session = [line for line in lines if line.startswith("session")]
        assert len(session) <= 2  # no peer had sent one
        for peer in peers:
            peer.close()


def test_a_byte_now_and_then_does_not_prolong_the_greeting(monkeypatch):
    monkeypatch.setattr("tvmrt.rpc.server.GREET_SECONDS", 0.5)
    with listening() as (listener, _):
        peer = socket.create_connection(("127.0.0.1", listener.port), timeout=60)
        peer.sendall(struct.pack("<ii", 0xFF271, 4096))
        peer.settimeout(0.05)
        start = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() < start + 60:
                peer.sendall(b"c")
                with contextlib.suppress(socket.timeout):
                    assert peer.recv(1) == b""
                    break
        assert 0.4 < time.monotonic() - start < 30


def test_tracked_server_rejects_clients_before_it_has_a_key():
    with listening(tracker="127.0.0.1:9") as (listener, _), Raw(listener.port, "") as client:
        assert client.greeting == bytes.fromhex("73f20f00")


def test_times_end_sessions():
    def end(seconds):
        with listening(session_seconds=seconds) as (listener, _), Raw(listener.port) as client:
            return client.begin().read(60)

    assert b"RPCSessionTimeoutError" in begun(end)

    def idle(seconds):
        with listening(idle_seconds=seconds) as (listener, _), Raw(listener.port) as client:
            return client.begin().socket.recv(1)

    assert begun(idle) == b""


@pytest.mark.slow
def test_server_survives_a_restarting_tracker():
    tracker = rpc.Tracker(port=0)
    where = ("127.0.0.1", tracker.port)
    with listening(tracker=where, custom_addr="localhost") as (listener, lines):
        line = rpc.connect_tracker(*where)
        wait_for(lambda: line.summary()["queue_info"])
        assert line.summary()["server_info"] == [
            {"key": f"server:{KEY}", "addr": ["localhost", listener.port]}
        ]
        line.request(KEY).close()
        wait_for(lambda: line.summary()["queue_info"][KEY]["free"] == 1)
        tracker.terminate()
        wait_for(lambda: lines[-1] == "the tracker does not answer; it is tried again")


@pytest.mark.parametrize(
    "options, text",
    [
        ({"key": "a b"}, "a key must have at most 100 characters"),
        ({"tracker": "desk"}, "the tracker 'desk' must be given as HOST:PORT"),
        ({"tracker": "desk:x"}, "the tracker 'desk:x' must be given as HOST:PORT"),
        ({"max_sessions": 65}, "at most 64 sessions"),
        ({"host": "no such host.invalid"}, "the address of no such host.invalid cannot be found"),
        ({"port": 70000}, "70000 is not a port"),
    ],
)
def test_invalid_options(options, text):
    with pytest.raises((OSError, ValueError), match=text):
        Listener(**{"port": 0, **options})


def test_words_of_a_key():
    """A sufficient timeout, and a word that this server does not know."""
    with listening(session_seconds=50) as (listener, lines):
        for key, timeout in ((KEY, 40), (f"{KEY} -other=1", 0), (KEY, -1)):
            remote = rpc.connect("127.0.0.1", listener.port, key, session_timeout=timeout)
            assert remote.get_function("runtime.NumThreads")() > 0
            remote.close()
        wait_for(lambda: sum(line.endswith("has ended") for line in lines) == 3)


def test_no_folder_for_uploads(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with listening() as (listener, lines):
        with client_with_key(listener.port) as client:
            assert client.recv(1) == b""
        wait_for(lambda: lines)
        assert lines[0].startswith("no session for a client: cannot make a folder for")
        assert lines[0].endswith("set TMPDIR")


def test_ports_in_use():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{port}"):
            Listener(port=port, port_end=port)
        with pytest.raises(TVMError, match="cannot connect"):
            rpc.connect("127.0.0.1", 1)


def test_server_loops_over_connected_sockets():
    """Serve as TVM's own servers in Python do."""
    ours, theirs = socket.socketpair()
    loop = tvmrt.get_global_func("rpc.ServerLoop")
    thread = threading.Thread(target=loop, args=[theirs.fileno()])
    thread.start()
    ours.sendall(INIT + packet(0) + INIT + packet(9, texts("no such")) + packet(1))
    assert read_exactly(ours, len(VOID)) == VOID
    unknown, again = (
        read_exactly(ours, struct.unpack("<Q", read_exactly(ours, 8))[0]) for _ in "ab"
    )
    assert b"Unknown event 0" in unknown
    assert b"Server has already been initialized" in again
    assert read_exactly(ours, 28)[-8:] == bytes(8)
    thread.join()
    tvmrt.get_global_func("rpc.ReturnException")(theirs.fileno(), "bad")
    assert read_exactly(ours, 31) == bytes.fromhex(
        "1700000000000000 05000000 01000000 0b000000 0300000000000000 626164"
    )

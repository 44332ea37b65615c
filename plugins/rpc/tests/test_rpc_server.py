"""Test servers: keys, time limits, logs, and refused clients and options."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import time

import pytest
from rpc_case import INIT, KEY, VOID, begun, client_with_key, connected, packet, trickle

from tvmrt import rpc
from tvmrt.error import TVMError
from tvmrt.rpc.messages import read_exactly
from tvmrt.rpc.server import Listener, Server


@contextlib.contextmanager
def serving(**options):
    """Start a server that logs to standard error."""
    server = rpc.Server(**{"port": 0, "key": KEY, **options})
    try:
        yield server
    finally:
        server.terminate()


def test_log(capfd):
    with serving() as server:
        for key, timeout in ((KEY, 40), (f"{KEY} -other=1", 0), (KEY, -1)):
            remote = rpc.connect("127.0.0.1", server.port, key, session_timeout=timeout)
            assert remote.get_function("runtime.NumThreads")() > 0
            remote.close()
        with connected(server.port, "other") as client:
            assert client.greeting == bytes.fromhex("73f20f00")
            assert client.socket.recv(1) == b""
    lines = capfd.readouterr().err.splitlines()
    for begin, end in zip(lines[:6:2], lines[1:6:2]):
        assert begin.endswith("has begun") and end == begin.replace("begun", "ended")
    assert lines[6:] == ["no session for a client: it sent a wrong key"]


def test_sessions_wait_for_each_other_and_end_with_the_server(capfd):
    with serving() as server:
        with connected(server.port) as first, client_with_key(server.port) as second:
            first.begin()
            second.settimeout(0.1)
            with pytest.raises(TimeoutError if sys.version_info >= (3, 10) else socket.timeout):
                second.recv(1)  # no reply while the first session is open
            first.send(packet(1))
            second.settimeout(60)
            assert read_exactly(second, 15 + len(KEY)).endswith(KEY.encode())
            second.sendall(INIT)
            assert read_exactly(second, len(VOID)) == VOID
            server.terminate()
            assert second.recv(1) == b""
    assert "ended by signal 9" in capfd.readouterr().err.splitlines()[-1]


def test_a_byte_now_and_then_does_not_prolong_the_greeting(monkeypatch):
    monkeypatch.setattr("tvmrt.rpc.server.GREET_SECONDS", 0.5)
    with serving(silent=True) as server:
        peer = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        peer.sendall(struct.pack("<ii", 0xFF271, 4096))
        assert 0.4 < trickle(peer) < 30
        rpc.connect("127.0.0.1", server.port, KEY).close()  # the next one is served


def test_tracked_server_rejects_clients_before_it_has_a_key():
    tracker = {"tracker_addr": "127.0.0.1:9", "silent": True}
    with serving(**tracker) as server, connected(server.port) as client:
        assert client.greeting == bytes.fromhex("73f20f00")


def test_the_time_of_a_session_ends():
    with serving(silent=True) as server:

        def begin(seconds):
            remote = rpc.connect("127.0.0.1", server.port, KEY, session_timeout=seconds)
            count = remote.get_function("runtime.NumThreads")
            assert count() > 0
            return count

        count = begun(begin)
        with pytest.raises(TVMError, match="RPCSessionTimeoutError"):
            for _ in range(10000):
                time.sleep(0.01)
                count()


@pytest.mark.parametrize(
    "options, text",
    [
        ({"key": "a b"}, "a key must have at most 100 characters"),
        ({"tracker_addr": "desk:x"}, "the tracker must be given as HOST:PORT, not 'desk:x'"),
        ({"tracker_addr": ("desk", 0)}, "the tracker must be given as HOST:PORT, not 'desk:0'"),
        ({"host": "no such host.invalid"}, "the address of no such host.invalid cannot be found"),
        ({"port": 70000}, "70000 is not a port"),
    ],
)
def test_invalid_options(options, text):
    with pytest.raises((OSError, ValueError), match=text):
        Listener(**{"host": "127.0.0.1", "port": 0, **options})


def test_a_proxy_at_its_place_in_tvm_is_refused():
    with pytest.raises(ValueError, match="is_proxy must be False: tvmrt has no proxy"):
        Server("127.0.0.1", 0, 0, True, ("desk", 9190))


def test_no_folder_for_uploads(monkeypatch, tmp_path, capfd):
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix: os.mkdir(tmp_path / "no" / prefix))
    with serving() as server, client_with_key(server.port) as client:
        assert client.recv(1) == b""
    log = capfd.readouterr().err
    assert log.startswith("no session for a client: cannot make a folder for")
    assert log.endswith("set TMPDIR\n")


def test_ports_in_use():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"cannot listen at 127.0.0.1:{port}"):
            Listener("127.0.0.1", port)

"""Test the proxy: its bytes by hand, and servers and clients that connect through it."""

from __future__ import annotations

import random
import socket
import struct
import subprocess
import sys
import time

import numpy as np
import pytest
import rpc_case

import tvmrt
from tvmrt import rpc
from tvmrt.error import TVMError
from tvmrt.rpc.messages import read_exactly

MAGIC = bytes.fromhex("71f20f00")
DUPLICATE, MISMATCH = bytes.fromhex("72f20f00"), bytes.fromhex("73f20f00")


@pytest.fixture
def proxy():
    started = rpc.Proxy(port=0)
    yield started
    started.terminate()


def connect(proxy: rpc.Proxy, key: bytes) -> socket.socket:
    """Open a connection and send a key."""
    sock = socket.create_connection(("127.0.0.1", proxy.port), timeout=60)
    sock.sendall(MAGIC + struct.pack("<i", len(key)) + key)
    return sock


def greeting(sock: socket.socket) -> bytes:
    """Return the key that the proxy sends to the other side."""
    assert read_exactly(sock, 4) == MAGIC
    return read_exactly(sock, struct.unpack("<i", read_exactly(sock, 4))[0])


def silent(sock: socket.socket) -> bool:
    """Return True if nothing arrives for a while."""
    sock.settimeout(0.1)
    try:
        return sock.recv(1) is None
    except TimeoutError:
        return True
    finally:
        sock.settimeout(60)


def test_bytes_of_the_protocol(proxy):
    """Each side receives the other's words; afterwards bytes pass unchanged in both directions."""
    server = connect(proxy, b"server:pi more")
    assert silent(server)
    second = connect(proxy, b"server:pi")
    assert read_exactly(second, 4) == DUPLICATE and second.recv(1) == b""
    other = connect(proxy, b"client:tau")
    client = connect(proxy, b"client:pi -timeout=5")
    assert greeting(client) == b"server:pi more"
    assert greeting(server) == b"client:pi -timeout=5"
    data = random.Random(1).randbytes(1 << 20)
    for sender, receiver in ((client, server), (server, client)):
        sender.setblocking(False)
        sent, came = 0, b""
        while len(came) < len(data):
            try:
                sent += sender.send(data[sent : sent + 65536]) if sent < len(data) else 0
            except BlockingIOError:
                pass
            receiver.settimeout(0.01)
            try:
                came += receiver.recv(1 << 20)
            except TimeoutError:
                pass
        assert came == data
    server.close()
    client.settimeout(60)
    assert client.recv(1) == b""  # the end of the stream passes, too
    assert silent(other)


def test_clients_wait_in_their_order(proxy):
    first, second = connect(proxy, b"client:k"), connect(proxy, b"client:k")
    gone = connect(proxy, b"client:k")
    assert silent(second)
    for one in (first, gone):
        one.shutdown(socket.SHUT_WR)
        assert one.recv(1) == b""  # the proxy knows that it has closed
    server = connect(proxy, b"server:k")
    assert greeting(server) == b"client:k" and greeting(second) == b"server:k"


def test_waiting_too_long_is_reported():
    proxy = rpc.Proxy(port=0, timeout_client=0.1, timeout_server=0.2)
    try:
        for key in (b"client:nobody", b"server:nobody"):
            sock = connect(proxy, key)
            assert read_exactly(sock, 4) == MISMATCH and sock.recv(1) == b""
        with pytest.raises(TVMError, match="cannot find server that matches key=nobody"):
            rpc.connect("127.0.0.1", proxy.port, "nobody")
    finally:
        proxy.terminate()


def test_hostile_bytes_close_only_their_connection(proxy):
    waiting = connect(proxy, b"server:mine")
    rng = random.Random(7)
    cases = [
        b"GET / HTTP/1.0\r\n\r\n", MAGIC + b"\xff" * 8, MAGIC + struct.pack("<i", 1 << 30),
        MAGIC + struct.pack("<i", 3) + b"abc", MAGIC + struct.pack("<i", 9) + b"client:\xff\xfe",
        MAGIC + struct.pack("<i", 10) + b"neither:xy", DUPLICATE + b"\7\0\0\0client:",
        *(rng.randbytes(rng.randrange(8, 200)) for _ in range(200)),
    ]  # fmt: skip
    for data in cases:
        sock = socket.create_connection(("127.0.0.1", proxy.port), timeout=60)
        sock.sendall(data)
        try:
            assert sock.recv(1) == b""
        except ConnectionResetError:
            pass
        sock.close()
    early = connect(proxy, b"client:early")
    early.sendall(b"before it was asked")
    assert early.recv(1) == b""
    client = connect(proxy, b"client:mine")
    assert greeting(client) == b"server:mine" and greeting(waiting) == b"client:mine"


def test_sessions_of_a_proxied_server(proxy):
    """Sessions run one after the other, each in a process of the server, which does not listen
    itself."""
    rpc_case.register_functions()
    server = rpc.Server("127.0.0.1", proxy.port, is_proxy=True, key="pi", silent=True)
    try:
        for number in range(2):
            remote = rpc.connect("127.0.0.1", proxy.port, "pi", session_timeout=60)
            assert remote.get_function("test_rpc.add_one")(number) == number + 1
            values = np.arange(300000, dtype="float32")
            np.testing.assert_array_equal(tvmrt.nd.array(values, remote.cpu()).numpy(), values)
            remote.close()

        def begin(seconds):
            remote = rpc.connect("127.0.0.1", proxy.port, "pi", session_timeout=seconds)
            add = remote.get_function("test_rpc.add_one")
            assert add(1) == 2
            return add

        add = rpc_case.begun(begin)
        with pytest.raises(TVMError, match="RPCSessionTimeoutError"):
            for _ in range(10000):
                time.sleep(0.01)
                add(1)
    finally:
        server.terminate()


def test_commands(tmp_path):
    """Run ``tvmrt rpc-proxy`` and ``rpc-server --proxy``, with a server started before its
    proxy."""
    command = [sys.executable, "-m", "tvmrt"]
    pipe = {"stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "rpc-proxy", "--port", "0"], **pipe) as proxy:
        words, port = proxy.stdout.readline().strip().rsplit(":", 1)
        assert words == "joining at 127.0.0.1"
        place = ["--proxy", f"127.0.0.1:{port}", "--key", "k"]
        with subprocess.Popen([*command, "rpc-server", *place], **pipe) as server:
            assert server.stdout.readline() == f"serving through 127.0.0.1:{port}\n"
            remote = rpc.connect("127.0.0.1", int(port), "k")
            remote.upload(b"abc", "a")
            assert remote.listdir() == ["a"]
            remote.close()
            server.terminate()
        proxy.terminate()


@pytest.mark.parametrize(
    "options, text",
    [
        ({"proxy": "nowhere"}, "the proxy 'nowhere' must be given as HOST:PORT"),
        ({"proxy": "a:1", "tracker": "a:1"}, "either a proxy or a tracker, not both"),
    ],
)
def test_refused_options(options, text):
    from tvmrt.rpc.server import Listener

    with pytest.raises(ValueError, match=text):
        Listener(**options)


def test_clients_without_proxy_support_are_served():
    """Their options struct ends before the proxy members."""
    from tvmrt.runtime._library import check, ffi, lib

    options, out = ffi.new("tvmrt_rpc_server_options*"), ffi.new("tvmrt_rpc_server**")
    options.struct_bytes = ffi.offsetof("tvmrt_rpc_server_options", "proxy")
    options.proxy = ffi.cast("char*", 1)  # past the end of their struct
    check(lib.tvmrt_rpc_server_open(options, out))
    assert lib.tvmrt_rpc_server_port(out[0]) > 0
    lib.tvmrt_rpc_server_close(out[0])
    options.struct_bytes -= 8
    assert lib.tvmrt_rpc_server_open(options, out) != 0 and out[0] == ffi.NULL

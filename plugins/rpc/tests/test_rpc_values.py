"""Test which values can be sent, and invalid requests and replies."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest
from rpc_case import INIT, VOID, FakeServer, packet, served, texts

import tvmrt
from tvmrt import rpc
from tvmrt.error import TVMError

CPU = struct.pack("<ii", 1, 0)
SCALAR = bytes.fromhex("0000000002200100")  # dimensions and type of a tensor
VECTOR = bytes.fromhex("0100000002200100")


def test_values_that_are_not_sent(session):
    same, other = session.get_function("test_rpc.same"), rpc.LocalSession()
    for value, error, text in (
        (np.zeros(3), ValueError, "argument 0 is a tensor of this machine"),
        (tvmrt.cpu(0), ValueError, "argument 0 is a device of this machine"),
        (tvmrt.nd.empty((2,), device=other.cpu()), ValueError, "of another RPC session"),
        (lambda: None, TypeError, "Cannot pass runtime.PackedFunc as argument 0"),
        (tvmrt.runtime.convert([1, 2]), TypeError, "Cannot pass Array as argument 0"),
        (ctypes.c_void_p(12345), TypeError, "Cannot pass a value of this type as argument 0"),
    ):
        with pytest.raises(error, match=text):
            same(value)
    assert same(session.cpu(0)) == session.cpu(0)
    with pytest.raises(TVMError, match="a result that is an object or an address cannot be sent"):
        session.get_function("runtime.ShapeTuple")(5, 6, 7)
    assert session.get_function("runtime.String")("text") == "text"
    mine, theirs = (tvmrt.nd.empty((2,), device=each.cpu()) for each in (session, other))
    with pytest.raises(ValueError, match="only between this machine's CPU and a session"):
        mine.copyto(theirs)
    with pytest.raises(TypeError, match="argument 0 must be a module of an RPC session"):
        tvmrt.get_global_func("rpc.SessTableIndex")(tvmrt.runtime.system_lib())


def test_sessions_are_limited_by_devices():
    held = []
    with pytest.raises(TVMError, match="maximum number of RPC session reached"):
        held.extend(iter(rpc.LocalSession, None))
    assert len(held) > 8
    held.pop().close()
    assert rpc.LocalSession().get_function("runtime.NumThreads")() > 0


# A request, and a part of the server's error text.
INVALID = {
    "length beyond what is received": (struct.pack("<Qi", 1 << 62, 3), b"exceeds"),
    "length below a packet's": (struct.pack("<Q", 3), b"too short"),
    "text beyond the packet": (packet(3, struct.pack("<QiiQ", 1, 1, 11, 1 << 60)), b"packet"),
    "number of values": (packet(3, struct.pack("<Qi", 1, 1 << 30)), b"more than 256 values"),
    "kind of value": (packet(9, struct.pack("<ii", 1, 8) + bytes(12)), b"cannot be sent"),
    "number of dimensions": (
        packet(7, struct.pack("<QiiiI", 64, 1, 0, 1 << 20, 0x00012002)), b"too many dimensions"
    ),
    "handle": (packet(3, struct.pack("<Qi", 77, 0)), b"no handle 77"),
    "freed handle": (packet(10, struct.pack("<iiiQQ", 2, 3, 0, 12345, 10)), b"no handle 12345"),
    "memory": (
        packet(14, struct.pack("<iiiiiQ", 2, 6, 3, 1, 0, 0xDEADBEEF0)), b"has not allocated"
    ),
    "number of arguments": (packet(13, bytes(4)), b"takes 4 arguments, got 0"),
    "type of argument": (packet(9, struct.pack("<iiQ", 1, 0, 5)), b"has another type"),
    "kind of device": (
        packet(6, bytes(8) + struct.pack("<ii", 4, 0) + SCALAR + bytes(16)), b"CPU memory only"
    ),
    "scope of memory": (
        packet(17, struct.pack("<iiiQ", 2, 7, 11, 0) + CPU + SCALAR + bytes(8)
               + struct.pack("<Q", 7) + b"texture"),
        b"no memory scope 'texture'",
    ),
    "event": (packet(99), b"Unknown event 99"),
    "second start": (INIT, b"already been initialized"),
    "nothing, then an event": (bytes(8) + packet(98), b"Unknown event 98"),
}  # fmt: skip


@pytest.mark.parametrize("name", INVALID)
def test_invalid_requests(name):
    """Lengths are refused before memory is allocated, and the server survives."""
    request, text = INVALID[name]
    with served() as client:
        answer = client.begin().ask(request)
        assert answer[8:20] == struct.pack("<iii", 5, 1, 11) and text in answer, answer


def test_rare_system_calls():
    with served() as client:
        client.begin()
        device = struct.pack("<ii", 1, 6) + CPU
        for code in (11, 15, 19, 20):  # set the device; wait for, free and set a stream
            assert client.ask(packet(code, device)) == VOID
        for code in (18, 21):  # a new stream and the current one: the default
            assert client.ask(packet(code, device))[20:] == bytes(8)
        attribute = struct.pack("<iii", 2, 6, 0) + CPU  # whether it exists, and another one
        exists = client.ask(packet(12, attribute + struct.pack("<q", 0)))
        assert exists[12:] == struct.pack("<iiq", 1, 0, 1)
        assert client.ask(packet(12, attribute + struct.pack("<q", 1))) == VOID
        allocate = struct.pack("<5i", 4, 6, 0, 0, 5) + CPU
        for size, text in ((-1, b"a negative size"), (1 << 40, b"the session's limit of")):
            request = packet(13, allocate + struct.pack("<qq", size, 64) + bytes(8))
            assert text in client.ask(request)
        tensor = bytes(8) + CPU + VECTOR + struct.pack("<qQ", 3, 0)
        body = struct.pack("<iii", 2, 7, 11) + tensor + struct.pack("<Q", 6) + b"global"
        data = client.ask(packet(17, body))[20:]
        copy = data + CPU + VECTOR + struct.pack("<qQQ", 3, 0, 12)
        assert client.ask(packet(6, copy))[8:12] == struct.pack("<i", 8)
        assert b"a copy of 12 bytes contains 13" in client.ask(packet(7, copy + bytes(13)))
        there = data + CPU + VECTOR + struct.pack("<qQ", 3, 0)
        among = struct.pack("<4i", 3, 7, 7, 3) + there * 2 + bytes(8)
        assert client.ask(packet(16, among)) == VOID
        assert client.ask(packet(14, struct.pack("<iii", 2, 6, 3) + CPU + data)) == VOID
        handle = client.function("test_rpc.same")
        address = packet(3, struct.pack("<QiiQ", handle, 1, 3, 8))
        assert b"an address cannot be an argument" in client.ask(address)
        null = client.ask(packet(3, struct.pack("<QiiQ", handle, 1, 3, 0)))
        assert null[20:] == struct.pack("<iQ", 4, 4)
        module = packet(3, struct.pack("<QiiQ", handle, 1, 9, handle))
        assert b"is a function, not a Module" in client.ask(module)


def test_sessions_begin_in_order():
    version = struct.pack("<Q", 5) + b"0.8.0"
    for request, text in (
        (packet(9, texts("name")), b"the session has not started"),
        (packet(6, bytes(8) + CPU + SCALAR + bytes(16)), b"not started"),
        (packet(2, struct.pack("<Q", 5) + b"9.9.9" + bytes(4)), b"speaks version 9.9.9"),
        (packet(2, struct.pack("<Q", 6) + b"0.8.0"), b"ends too early"),
        (packet(2, version + texts("rpc.Connect")), b"offers sessions on its own machine only"),
    ):
        with served() as client:
            assert text in client.ask(request)


def reply(*codes: int, body: bytes = b"") -> bytes:
    return packet(4, struct.pack(f"<{len(codes) + 1}i", len(codes), *codes) + body)


FUNCTION = reply(3, body=struct.pack("<Q", 5))
REPLIES = {
    "unknown device": (reply(0, 6, body=struct.pack("<qii", 6, 1000, 0)), "a device of type 1000"),
    "module without a handle": (reply(0, 0, body=struct.pack("<qq", 9, 5)), "an invalid handle"),
    "tensor that nobody owns": (
        reply(0, 7, body=struct.pack("<q", 7) + bytes(8) + CPU + SCALAR
              + bytes(8)),
        "a value of a type that cannot be returned",
    ),
    "no result": (reply(11, body=struct.pack("<Q", 1) + b"x"), "the reply has no result"),
    "unknown code": (packet(99, bytes(4)), "the reply has the unknown code 99"),
}  # fmt: skip


@pytest.mark.parametrize("name", REPLIES)
def test_invalid_replies(name):
    answer, text = REPLIES[name]
    fake = FakeServer([FUNCTION, answer])
    function = rpc.connect("127.0.0.1", fake.port, "ab").get_function("f")
    with pytest.raises(TVMError, match=text):
        function()


def test_invalid_handles_and_copies():
    fake = FakeServer([reply(0, body=bytes(8))])
    with pytest.raises(TVMError, match="the reply has no handle"):
        rpc.connect("127.0.0.1", fake.port, "ab").get_function("f")
    memory = reply(3, body=struct.pack("<Q", 4096))
    fake = FakeServer([memory, packet(8, bytes(3))])
    remote = rpc.connect("127.0.0.1", fake.port, "ab")
    tensor = tvmrt.nd.empty((2,), device=remote.cpu())
    with pytest.raises(TVMError, match="a copy of 8 bytes contains 3"):
        tensor.numpy()

"""Test which values can be sent, and invalid requests and replies."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest
from rpc_case import KEY, VOID, FakeServer, Raw, packet, texts

import tvmrt
from tvmrt import rpc
from tvmrt.error import TVMError
from tvmrt.runtime import _library

C = ctypes.CDLL(_library.PATH)
INT, FLOAT, VIEW, OBJECT, TEXT, MOVED = 0, 2, 7, 8, 11, 14
CPU = struct.pack("<ii", 1, 0)
SCALAR = bytes.fromhex("0000000002200100")  # dimensions and type of a tensor
VECTOR = bytes.fromhex("0100000002200100")


def call_in_c(function, value: int, code: int) -> int | str:
    """Call with an argument that Python would not pass; return the bits of the result, or the
    error."""
    values, codes = (ctypes.c_int64 * 1)(value), (ctypes.c_int * 1)(code)
    result, result_code = ctypes.c_int64(), ctypes.c_int()
    handle = ctypes.c_void_p(function.handle)
    out = ctypes.byref(result), ctypes.byref(result_code)
    C.TVMGetLastError.restype = ctypes.c_char_p
    if C.TVMFuncCall(handle, values, codes, 1, *out) != 0:
        return C.TVMGetLastError().decode()
    return result.value


def test_boxed_strings_and_numbers_are_sent_as_values(any_session):
    there = any_session.get_function
    assert there("runtime.String")("text") == "text"
    for name, value in (("Int", 7), ("Float", -2.5), ("Bool", True)):
        assert there(f"runtime.Box{name}")(value) == value
    bits = struct.unpack("<q", struct.pack("<d", -2.5))[0]
    text = ctypes.create_string_buffer(b"one of ours")
    makers = (("BoxInt", 7, INT), ("BoxBool", 1, INT), ("BoxFloat", bits, FLOAT))
    for name, value, code in makers:
        boxed = call_in_c(tvmrt.get_global_func(f"runtime.{name}"), value, code)
        assert call_in_c(there("test_rpc.same"), boxed, OBJECT) == value
        C.TVMObjectFree(ctypes.c_void_p(boxed))
    made = call_in_c(tvmrt.get_global_func("runtime.String"), ctypes.addressof(text), TEXT)
    assert call_in_c(there("test_rpc.length"), made, OBJECT) == 11
    C.TVMObjectFree(ctypes.c_void_p(made))
    assert there("test_rpc.how_many")(*range(40)) == 40


def test_other_objects_stay_where_they_are(any_session):
    there = any_session.get_function
    shape = there("runtime.ShapeTuple")(5, 6, 7)
    assert there("runtime.GetShapeTupleSize")(shape) == 3
    assert there("runtime.GetShapeTupleElem")(shape, 1) == 6
    assert there("runtime.GetShapeTupleSize")(shape._move()) == 3
    with pytest.raises(TypeError, match="Cannot pass Array as argument 0"):
        there("test_rpc.same")(tvmrt.runtime.convert([1, 2]))


def test_addresses_and_devices_are_those_of_the_server(any_session):
    remote, same = any_session, any_session.get_function("test_rpc.same")
    assert same(remote.cpu(0)) == remote.cpu(0)
    kept = tvmrt.nd.empty((4,), device=remote.cpu())
    at = kept.data_address
    assert same(ctypes.c_void_p(at)).value == at
    with pytest.raises(TVMError, match="not in memory that this session has allocated"):
        same(ctypes.c_void_p(12345))
    assert not same(ctypes.c_void_p(0))


def test_arguments_that_only_c_passes(session):
    same = session.get_function("test_rpc.same")
    assert "Cannot pass a NULL handle as argument 0" in call_in_c(same, 0, OBJECT)
    assert "Cannot pass a moved object as argument 0" in call_in_c(same, 0, MOVED)
    assert "Cannot pass a value of unknown type as argument 0" in call_in_c(same, 0, 99)
    extents = (ctypes.c_int64 * 2)(4, 8)
    where = session.cpu().device_type, 0, 1, 0x12002  # one dimension of float32
    view = struct.pack(
        "<QiiiIQQQ", 4096, *where, ctypes.addressof(extents), ctypes.addressof(extents) + 8, 0
    )
    kept = ctypes.create_string_buffer(view)
    assert "tensor with strides cannot be passed" in call_in_c(same, ctypes.addressof(kept), VIEW)


def test_copies_between_sessions_and_modules_of_this_machine_are_refused(session):
    other = rpc.LocalSession()
    with pytest.raises(ValueError, match="between this machine's CPU and a session, or within one"):
        tvmrt.nd.empty((2,), device=session.cpu()).copyto(tvmrt.nd.empty((2,), device=other.cpu()))
    with pytest.raises(TypeError, match="argument 0 must be a module of an RPC session"):
        tvmrt.get_global_func("rpc.SessTableIndex")(tvmrt.runtime.system_lib())


def test_sessions_are_limited_by_devices():
    held = []
    with pytest.raises(TVMError, match="maximum number of RPC session reached"):
        held.extend(iter(rpc.LocalSession, None))
    assert len(held) > 8
    last = held.pop()
    last.close()
    del last
    assert rpc.LocalSession().get_function("runtime.NumThreads")() > 0


def test_objects_of_a_session_are_refused_by_tvm_ffi():
    """Pass objects of a session alone and in containers."""
    tvm_ffi = pytest.importorskip("tvm_ffi")
    from tvmrt.contrib import tvm_ffi as bridge

    session = rpc.LocalSession()
    remote = session.get_function("runtime.ShapeTuple")(1, 2)
    function = bridge.from_tvm_ffi(tvm_ffi.convert(lambda *_: None))
    for value in (remote, [1, remote], {"a": remote}):
        with pytest.raises(TypeError, match="has no equivalent in tvm-ffi"):
            function(value)


# A request, and a part of the server's error text.
NO_SENSE = {
    "call of an invalid handle": (packet(3, struct.pack("<Qi", 77, 0)), b"no handle 77"),
    "system call without arguments": (packet(13, bytes(4)), b"takes 4 arguments, got 0"),
    "system call of another type": (
        packet(9, struct.pack("<iiQ", 1, 0, 5)), b"must be a str, got an int"
    ),
    "copy from another kind of device": (
        packet(6, bytes(8) + struct.pack("<ii", 4, 0) + SCALAR + bytes(16)),
        b"CPU memory only",
    ),
    "memory of an unknown scope": (
        packet(17, struct.pack("<iiiQ", 2, 7, 11, 0) + CPU + SCALAR
               + bytes(8) + struct.pack("<Q", 7) + b"texture"),
        b"there is no memory scope 'texture'",
    ),
    "a stream that nobody made": (
        packet(20, struct.pack("<iii", 2, 6, 3) + CPU + struct.pack("<Q", 9)),
        b"only the default stream",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NO_SENSE)
def test_invalid_requests(server, name):
    request, text = NO_SENSE[name]
    with Raw(server.port) as client:
        answer = client.begin().ask(request)
        assert answer[8:12] == struct.pack("<i", 5) and text in answer, answer
        assert client.ask(packet(18, struct.pack("<ii", 1, 6) + CPU))[8:12] == bytes((4, 0, 0, 0))


def test_rare_system_calls(server):
    with Raw(server.port) as client:
        client.begin()
        device = struct.pack("<ii", 1, 6) + CPU
        assert client.ask(packet(11, device)) == VOID  # set the device
        for code in (18, 21):  # a new stream and the current one: the default
            assert client.ask(packet(code, device))[20:] == bytes(8)
        tensor = bytes(8) + CPU + VECTOR + struct.pack("<qQ", 3, 0)
        for scope in (b"global", b""):
            body = struct.pack("<iii", 2, 7, 11) + tensor + struct.pack("<Q", len(scope)) + scope
            data = client.ask(packet(17, body))[20:]
            assert data != bytes(8)
            copy = data + CPU + VECTOR + struct.pack("<qQQ", 3, 0, 12)
            assert client.ask(packet(6, copy))[8:12] == struct.pack("<i", 8)
            assert b"a copy of 12 bytes contains 13" in client.ask(packet(7, copy + bytes(13)))
        handle = client.function("test_rpc.same")
        null = client.ask(packet(3, struct.pack("<QiiQ", handle, 1, 3, 0)))
        assert null[16:28] == struct.pack("<iQ", 0, 4) or null[20:] == struct.pack("<iQ", 4, 4)
        module = packet(3, struct.pack("<QiiQ", handle, 1, 9, handle))
        assert b"is a function, not a Module" in client.ask(module)


def test_sessions_begin_in_order(server):
    version = struct.pack("<Q", 5) + b"0.8.0"
    for request, text in (
        (packet(9, texts("name")), b"the session has not started"),
        (packet(6, bytes(8) + CPU + SCALAR + bytes(16)), b"not started"),
        (packet(2, struct.pack("<Q", 5) + b"9.9.9" + bytes(4)), b"speaks version 9.9.9"),
        (packet(2, version + texts("rpc.Connect")), b"offers sessions on its own machine only"),
    ):
        with Raw(server.port) as client:
            (size,) = struct.unpack("<i", client.read(4))
            client.read(size)
            assert text in client.ask(request)


def test_handles_are_limited(server):
    device = bytes.fromhex("04000000 06000000 00000000 00000000 05000000") + CPU
    allocate = packet(13, device + struct.pack("<qq", 8, 8) + bytes.fromhex("0220010000000000"))
    with Raw(server.port) as client:
        client.begin()
        for _ in range(64):  # replies are read in between: little waits for a reader
            client.send(packet(9, texts("runtime.NumThreads")) * 1024)
            client.read(1024 * 28)
        for refused in (packet(9, texts("runtime.NumThreads")), allocate):
            assert b"has reached its limit of 65536 handles" in client.ask(refused)


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


def test_server_requires_its_key(server):
    with pytest.raises(TVMError, match="cannot find server that matches"):
        rpc.connect("127.0.0.1", server.port, KEY + "x")
    remote = rpc.connect("127.0.0.1", server.port, KEY)
    there = tvmrt.nd.array(np.arange(3, dtype="float32"), remote.cpu())
    assert remote.get_function("test_rpc.sum")(there) == 3

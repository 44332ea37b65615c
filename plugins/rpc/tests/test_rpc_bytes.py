"""Test the bytes of the protocol, written by hand from what TVM 0.18 sends and expects."""

from __future__ import annotations

import socket
import struct
import threading

import numpy as np
import pytest
from rpc_case import VOID, FakeServer, packet, served, texts

from tvmrt import rpc
from tvmrt.error import TVMError


def test_server_answers_calls():
    with served() as client:
        handle = client.begin().function("test_rpc.count")
        call = bytes.fromhex(
            "2a00000000000000 03000000 HHHHHHHHHHHHHHHH 02000000 00000000 0b000000"
            "0a00000000000000 0200000000000000 6162".replace(
                "HHHHHHHHHHHHHHHH", struct.pack("<Q", handle).hex()
            )
        )
        assert client.ask(call) == bytes.fromhex(
            "2000000000000000 04000000 02000000 00000000 000000000000000000000000 0b00000000000000"
        )
        nothing = packet(3, struct.pack("<Qi", client.function("test_rpc.nothing"), 0))
        assert client.ask(nothing) == bytes.fromhex(
            "1800000000000000 04000000 02000000 00000000 04000000 0400000000000000"
        )
        array = packet(3, struct.pack("<QiiQ", client.function("test_rpc.array"), 1, 0, 6))
        assert client.ask(array)[8:36] == struct.pack("<5iQ", 4, 3, 0, 7, 3, 13)
        assert client.ask(packet(9, texts("no such function")))[12:] == bytes.fromhex(
            "01000000 03000000 0000000000000000"
        )
        fail = packet(3, struct.pack("<Q", client.function("test_rpc.fail")) + texts("way"))
        text = b"ValueError: no way"
        answer = client.ask(fail)
        assert answer[8:20] == struct.pack("<iii", 5, 1, 11)
        assert answer[20:] == struct.pack("<Q", len(text)) + text


def test_server_returns_values_of_tvm():
    """A device, a number, bytes, and a data type, which is a string in Python."""
    with served() as client:
        handle = client.begin().function("test_rpc.same")
        for sent, received in (
            ("06000000 0100000001000000", "06000000 00000000 0100000001000000"),
            ("02000000 000000000000f83f", "02000000 00000000 000000000000f83f"),
            ("0c000000 02000000000000000102", "0c000000 00000000 02000000000000000102"),
            ("05000000 0220010000000000",
             "0b000000 00000000 0700000000000000" + b"float32".hex()),
        ):  # fmt: skip
            call = packet(3, struct.pack("<Qi", handle, 1) + bytes.fromhex(sent))
            value = bytes.fromhex(received)
            head = bytes.fromhex("04000000 02000000 00000000")
            assert client.ask(call)[8:] == head + value[:4] + value


def test_server_copies_only_within_its_memory():
    cpu = "01000000 00000000"
    with served() as client:
        client.begin()
        codes = "04000000 06000000 00000000 00000000 05000000"
        sizes = struct.pack("<qq", 24, 64).hex()
        body = bytes.fromhex(codes + cpu + sizes + "0220010000000000")
        data = client.ask(packet(13, body))[20:]
        tensor = data + bytes.fromhex(cpu + "02000000 02200100") + struct.pack("<qqQ", 2, 3, 0)
        values = np.arange(6, dtype="float32").tobytes()
        assert client.ask(packet(7, tensor + struct.pack("<Q", 24) + values)) == VOID
        copy = packet(6, tensor + struct.pack("<Q", 24))
        assert copy[:8] == bytes.fromhex("3c00000000000000")
        assert client.ask(copy) == bytes.fromhex("1c00000000000000 08000000") + values
        late = tensor[:-8] + struct.pack(
            "<Q", 12
        )  # a byte offset, as clients with partial copies send
        assert client.ask(packet(6, late + struct.pack("<Q", 8)))[12:] == values[12:20]
        for bad in (
            packet(6, tensor + struct.pack("<Q", 25)),
            packet(6, late + struct.pack("<Q", 13)),
            packet(6, struct.pack("<Q", 4096) + tensor[8:] + struct.pack("<Q", 24)),
            packet(7, tensor + struct.pack("<Q", 32) + bytes(32)),
        ):
            assert client.ask(bad)[8:12] == struct.pack("<i", 5)
        assert client.ask(copy)[12:] == values


def test_client_sends_the_bytes_of_tvm():
    data = np.arange(6, dtype="float32")
    handle = bytes.fromhex("1800000000000000 04000000 01000000 03000000 2211000000000000")
    handle = struct.pack("<Q", len(handle) - 8) + handle[8:]
    array = bytes.fromhex(
        "5400000000000000 04000000 03000000 00000000 07000000 03000000 0d00000000000000"
        "aa007f0000000000 01000000 00000000 02000000 02200100 0200000000000000"
        "0300000000000000 0000000000000000 00017f0000000000"
    )
    fake = FakeServer(
        [
            handle,
            bytes.fromhex(
                "2000000000000000 04000000 02000000 00000000 00000000 0000000000000000"
                "0b00000000000000"
            ),
            bytes.fromhex("1700000000000000 05000000 01000000 0b000000 0300000000000000 626164"),
            array,
            struct.pack("<Qi", 28, 8) + data.tobytes(),
            VOID,
            VOID,
            packet(4, struct.pack("<iiQ", 1, 3, 0)),
        ]
    )
    session = rpc.connect("127.0.0.1", fake.port, "ab")
    function = session.get_function("f")
    assert function(10, "ab") == 11
    with pytest.raises(TVMError, match="RPCError: Error caught from RPC call:\nbad"):
        function()
    tensor = function()
    assert tensor.shape == (2, 3) and repr(tensor.device).endswith("]:cpu(0)")
    np.testing.assert_array_equal(tensor.numpy().ravel(), data)
    del tensor, function
    with pytest.raises(AttributeError):
        session.get_function("g")  # what was freed is sent with the next request
    session.close()
    fake.thread.join(120)
    assert (fake.magic, fake.key) == (bytes.fromhex("71f20f00"), b"client:ab")
    init, get, call, _, _, copy, *rest = fake.packets
    assert init == bytes.fromhex("1500000000000000 02000000 0500000000000000 302e382e30 00000000")
    assert get == packet(9, texts("f"))
    assert call == bytes.fromhex(
        "2a00000000000000 03000000 2211000000000000 02000000 00000000 0b000000"
        "0a00000000000000 0200000000000000 6162"
    )
    # 24 bytes of the same memory; the client chooses how to describe the tensor
    assert copy[8:20] == struct.pack("<iQ", 6, 0x7F00AA) and copy[-8:] == struct.pack("<Q", 24)
    free = struct.pack("<iii", 2, 3, 0)
    assert rest == [
        packet(10, free + struct.pack("<QQ", 0x7F0100, 13)),
        packet(10, free + struct.pack("<QQ", 0x1122, 10)),
        packet(9, texts("g")),
        packet(1),
    ]


def test_client_refuses_peers_that_are_not_servers():
    for answer, text in (
        ("72f20f00", "already have key=ab"),
        ("73f20f00", "cannot find server that matches key=ab"),
        ("48545450", "is not TVM RPC server"),
    ):
        listener = socket.create_server(("127.0.0.1", 0))
        thread = threading.Thread(
            target=lambda at=listener, says=answer: at.accept()[0].sendall(bytes.fromhex(says))
        )
        thread.start()
        with pytest.raises(TVMError, match=text):
            rpc.connect("127.0.0.1", listener.getsockname()[1], "ab")
        thread.join()
        listener.close()

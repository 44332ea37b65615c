"""Test sessions over the loopback: functions, tensors, modules, files, and hostile clients."""

from __future__ import annotations

import os
import struct
import subprocess
import threading
import time

import numpy as np
import pytest
from rpc_case import KEY, Raw, begun, packet

import tvmrt
from tvmrt import rpc
from tvmrt.error import TVMError


def test_functions(any_session):
    remote = any_session
    assert remote.get_function("test_rpc.add_one")(41) == 42
    same = remote.get_function("test_rpc.same")
    for value in (None, 7, -1.5, "text", "", b"\0bytes", bytearray(100000)):
        assert same(value) == value
    assert remote.get_function("test_rpc.adder")(3)(4) == 7
    adder = remote.get_function("test_rpc.adder")
    assert [adder(i) for i in range(40)][39](2) == 41  # several are alive
    with pytest.raises(AttributeError, match="has no function 'no such'"):
        remote.get_function("no such")
    with pytest.raises(TVMError, match="ValueError: no way"):
        remote.get_function("test_rpc.fail")("way")
    assert same(1) == 1


def test_tensors(any_session):
    remote = any_session
    values = np.random.default_rng(0).standard_normal((3, 5)).astype("float32")
    there = tvmrt.nd.array(values, remote.cpu())
    assert there.device == remote.cpu() and repr(there.device).startswith("remote[")
    np.testing.assert_array_equal(there.numpy(), values)
    assert remote.get_function("test_rpc.sum")(there) == pytest.approx(values.sum(), abs=1e-4)
    other = there.copyto(tvmrt.nd.empty((3, 5), device=remote.cpu()))
    np.testing.assert_array_equal(other.numpy(), values)
    back = other.copyto(tvmrt.cpu(0))
    assert back.device == tvmrt.cpu(0)
    np.testing.assert_array_equal(back.numpy(), values)
    view = there._create_view((5,), relative_byte_offset=20)
    np.testing.assert_array_equal(view.numpy(), values[1])
    made = remote.get_function("test_rpc.array")(4)
    np.testing.assert_array_equal(made.numpy(), [0, 1, 2, 3])
    assert remote.get_function("test_rpc.sum")(made) == 6
    assert tvmrt.nd.empty((0, 2), device=remote.cpu()).numpy().shape == (0, 2)
    assert remote.cpu().exist
    remote.cpu().sync()


def test_objects_of_other_sessions_are_refused(session):
    total = session.get_function("test_rpc.sum")
    with pytest.raises(ValueError, match="argument 0 is a tensor of this machine"):
        total(np.zeros(3, "float32"))
    with pytest.raises(ValueError, match="argument 0 is a device of this machine"):
        total(tvmrt.cpu(0))
    with pytest.raises(TypeError, match="Cannot pass"):
        total(lambda: None)
    for name in ("module.loadbinary_tvmrt_regions", "TVMArrayAllocWithScope"):
        with pytest.raises(TVMError, match="takes addresses of the server's own process"):
            session.get_function(f"runtime.{name}")
    other = rpc.LocalSession()
    with pytest.raises(ValueError, match="of another RPC session"):
        total(tvmrt.nd.empty((2,), device=other.cpu()))


def test_files_stay_in_their_folder(any_session, tmp_path):
    remote = any_session
    remote.upload(b"123", "a.bin")
    (tmp_path / "b.txt").write_bytes(bytes(range(256)) * 1000)
    remote.upload(tmp_path / "b.txt")
    assert remote.download("b.txt") == bytes(range(256)) * 1000
    assert remote.listdir() == ["a.bin", "b.txt"]
    long = os.urandom(1 << 20) * 5  # is written to the file as it arrives
    remote.upload(long, "long")
    assert remote.download("long") == long
    with pytest.raises(TVMError, match="is not a file name"):
        remote.get_function("tvm.rpc.server.upload")("../long", long)
    assert remote.get_function("test_rpc.same")(long) == long
    remote.remove("long")
    remote.remove("a.bin")
    assert remote.listdir() == ["b.txt"]
    folder = os.path.dirname(str(remote.get_function("tvm.rpc.server.workpath")("b.txt")))
    assert os.path.isfile(f"{folder}/b.txt")
    for name in ("../out", "/tmp/out", "a/b", "..", "", "a\\b", "a\nb", "x" * 300):
        with pytest.raises(TVMError, match="is not a file name in the session's folder"):
            remote.get_function("tvm.rpc.server.upload")(name, b"x")
    remote.close()
    deadline = time.monotonic() + 60
    while os.path.exists(folder) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not os.path.exists(folder)
    with pytest.raises(TVMError, match="the session is closed"):
        remote.get_function("test_rpc.same")


PLUGIN = """
#include <tvm/runtime/c_packed_func.h>
int twice(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* self) {
  (void)codes; (void)self;
  if (n != 1) { TVMPackedFuncSetLastError("ValueError: twice takes 1 argument"); return -1; }
  out->v_int64 = 2 * args[0].v_int64;
  *out_code = kTVMArgInt;
  return 0;
}
int crash(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* self) {
  (void)codes; (void)n; (void)out; (void)out_code; (void)self;
  return *(volatile int*)(8 * args[0].v_int64);
}
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """Return a library with two functions."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "plugin.c").write_text(PLUGIN)
    include = f"-I{tvmrt.libinfo.find_include_path()[0]}"
    files = [str(folder / "plugin.c"), "-o", str(folder / "plugin.so")]
    subprocess.run(["cc", "-shared", "-fPIC", "-w", include, *files], check=True)
    return folder / "plugin.so"


def test_modules(any_session, plugin):
    remote = any_session
    remote.upload(plugin)
    module = remote.load_module("plugin.so")
    assert module.type_key == "rpc"
    assert module["twice"](21) == 42
    assert module.implements_function("twice") and not module.implements_function("thrice")
    with pytest.raises(TVMError, match="ValueError: twice takes 1 argument"):
        module["twice"]()
    times = module.time_evaluator("twice", remote.cpu(), number=3, repeat=4)(1)
    assert len(times.results) == 4 and all(0 < t < 1 for t in times.results)
    with pytest.raises(TVMError, match=r"missing\.so"):
        remote.load_module("missing.so")


def test_a_crash_ends_its_session_and_no_other(server, session, plugin):
    broken = rpc.connect("127.0.0.1", server.port, KEY)
    broken.upload(plugin)
    crash = broken.load_module("plugin.so")["crash"]
    with pytest.raises(TVMError, match="the other side has closed the connection"):
        crash(1)
    with pytest.raises(TVMError, match="the session is closed"):
        crash(1)
    assert session.get_function("test_rpc.add_one")(1) == 2
    again = rpc.connect("127.0.0.1", server.port, KEY)
    assert again.get_function("test_rpc.add_one")(2) == 3


def test_many_threads_share_a_session(session):
    add = session.get_function("test_rpc.add_one")
    wrong = []

    def work(start: int) -> None:
        wrong.extend(i for i in range(start, start + 200) if add(i) != i + 1)

    threads = [threading.Thread(target=work, args=(1000 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_time_of_a_session_ends(server):
    def begin(seconds):
        remote = rpc.connect("127.0.0.1", server.port, KEY, session_timeout=seconds)
        add = remote.get_function("test_rpc.add_one")
        assert add(1) == 2
        return add

    add = begun(begin)
    with pytest.raises(TVMError, match="RPCSessionTimeoutError"):
        for _ in range(10000):
            time.sleep(0.01)
            add(1)


def test_hostile_lengths_allocate_nothing(server):
    """Lengths beyond the received bytes are refused before memory is allocated, and the server
    survives."""
    huge = struct.pack("<Qi", 1 << 62, 3)
    for data in (
        huge,
        struct.pack("<Q", 3),
        packet(3, struct.pack("<QiiQ", 1, 1, 11, 1 << 60)),
        packet(3, struct.pack("<Qi", 1, 1 << 30)),
        packet(9, struct.pack("<ii", 1, 8) + bytes(12)),
        packet(10, struct.pack("<iiiQQ", 2, 3, 0, 12345, 10)),
        packet(99),
        packet(2),
        packet(14, struct.pack("<iiiiiQ", 2, 6, 3, 1, 0, 0xDEADBEEF0)),
        packet(7, bytes(3)),
        packet(7, struct.pack("<QiiiI", 64, 1, 0, 1 << 20, 0x00012002)),
    ):
        with Raw(server.port) as client:
            answer = client.begin().ask(data)
            assert answer[8:20] == struct.pack("<iii", 5, 1, 11), data

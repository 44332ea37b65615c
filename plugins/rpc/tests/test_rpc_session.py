"""Test sessions over the loopback: functions, tensors, modules, files."""

from __future__ import annotations

import os
import re
import subprocess
import time
from multiprocessing.pool import ThreadPool

import numpy as np
import pytest
from rpc_case import KEY

import tvmrt
from tvmrt import rpc
from tvmrt.error import TVMError


def test_functions(session):
    assert session.get_function("test_rpc.add_one")(41) == 42
    same = session.get_function("test_rpc.same")
    for value in (None, 7, -1.5, "text", "", b"\0bytes", bytearray(100000)):
        assert same(value) == value
    assert session.get_function("test_rpc.adder")(3)(4) == 7
    adder = session.get_function("test_rpc.adder")
    assert [adder(i) for i in range(40)][39](2) == 41  # several are alive
    with pytest.raises(AttributeError, match="has no function 'no such'"):
        session.get_function("no such")
    with pytest.raises(TVMError, match="ValueError: no way"):
        session.get_function("test_rpc.fail")("way")
    assert same(1) == 1
    assert session.get_function("test_rpc.how_many")(*range(40)) == 40


def test_tensors(session):
    values = np.random.default_rng(0).standard_normal((3, 5)).astype("float32")
    there = tvmrt.nd.array(values, session.cpu())
    assert there.device == session.cpu() and repr(there.device).startswith("remote[")
    np.testing.assert_array_equal(there.numpy(), values)
    assert session.get_function("test_rpc.sum")(there) == pytest.approx(values.sum(), abs=1e-4)
    back = there.copyto(tvmrt.cpu(0))
    assert back.device == tvmrt.cpu(0)
    np.testing.assert_array_equal(back.numpy(), values)
    view = there._create_view((5,), relative_byte_offset=20)
    np.testing.assert_array_equal(view.numpy(), values[1])
    made = session.get_function("test_rpc.array")(4)
    np.testing.assert_array_equal(made.numpy(), [0, 1, 2, 3])
    assert session.get_function("test_rpc.sum")(made) == 6
    assert tvmrt.nd.empty((0, 2), device=session.cpu()).numpy().shape == (0, 2)
    assert session.cpu().exist and not session.device("opencl").exist
    session.cpu().sync()


def test_local_session():
    """It is a copy of this process, whose files and functions it has."""
    tvmrt.register_func("test_rpc.here", os.getpid, override=True)
    remote = rpc.LocalSession()
    assert remote.get_function("test_rpc.here")() != os.getpid()
    there = tvmrt.nd.array(np.arange(3), remote.cpu())
    np.testing.assert_array_equal(there.numpy(), range(3))
    remote.close()
    with pytest.raises(TVMError, match="the session is closed"):
        there.numpy()


def test_uploads_stay_in_their_folder(session):
    long = os.urandom(1 << 20) * 5
    session.upload(long, "long")
    assert session.get_function("test_rpc.same")(long) == long
    with pytest.raises(TVMError, match="long") as not_a_library:
        session.load_module("long")
    folder = re.search(r"/\S*/tvmrt-rpc-\w+(?=/long)", str(not_a_library.value))[0]
    assert os.listdir(folder) == ["long"]
    for name in ("../out", "/tmp/out", "a/b", "..", ""):
        with pytest.raises(TVMError, match="is not a file name in the session's folder"):
            session.get_function("tvm.rpc.server.upload")(name, b"x")
    session.close()
    deadline = time.monotonic() + 60
    while os.path.exists(folder) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not os.path.exists(folder)


PLUGIN = """
#include <tvm/runtime/c_packed_func.h>
int twice(TVMValue* args, int* codes, int n, TVMValue* out, int* out_code, void* self) {
  (void)codes; (void)self;
  if (n != 1) { TVMPackedFuncSetLastError("ValueError: twice takes 1 argument"); return -1; }
  out->v_int64 = 2 * args[0].v_int64;
  *out_code = kTVMArgInt;
  return 0;
}
"""


def test_modules(session, tmp_path):
    (tmp_path / "plugin.c").write_text(PLUGIN)
    include = f"-I{tvmrt.libinfo.find_include_path()[0]}"
    command = ["cc", "-shared", "-fPIC", "-w", include, "plugin.c", "-o", "plugin.so"]
    subprocess.run(command, check=True, cwd=tmp_path)
    session.upload(tmp_path / "plugin.so")
    module = session.load_module("plugin.so")
    assert module.type_key == "rpc"
    assert module["twice"](21) == 42
    assert module.implements_function("twice") and not module.implements_function("thrice")
    with pytest.raises(TVMError, match="ValueError: twice takes 1 argument"):
        module["twice"]()
    times = module.time_evaluator("twice", session.cpu(), number=3, repeat=4)(1)
    assert len(times.results) == 4 and all(0 < t < 1 for t in times.results)
    with pytest.raises(TVMError, match=r"missing\.so"):
        session.load_module("missing.so")


def test_a_crash_ends_its_session_and_not_the_server(server):
    for _ in range(2):
        crash = rpc.connect("127.0.0.1", server.port, KEY).get_function("test_rpc.crash")
        with pytest.raises(TVMError, match="the other side has closed the connection"):
            crash()
        with pytest.raises(TVMError, match="the session is closed"):
            crash()


def test_many_threads_share_a_session(session):
    with ThreadPool(4) as pool:
        sums = pool.map(session.get_function("test_rpc.add_one"), range(800))
    assert sums == list(range(1, 801))

"""Test remote calls from and to Windows, emulated by Wine."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from windows import DIGITS, compile_network, program_of

import tvmrt
from tvmrt import rpc
from tvmrt.contrib import graph_executor
from tvmrt.error import TVMError

ort = pytest.importorskip("onnxruntime")


@pytest.fixture
def far_server(built, wine, tmp_path):
    """Start the documented server program under Wine and return its port."""
    page = (Path(__file__).parents[1] / "docs" / "rpc.md").read_text(encoding="utf-8")
    source = tmp_path / "server.c"
    text = re.search(r"cat > server\.c <<'END'\n(.*?\n)END\n", page, re.DOTALL)[1]
    source.write_text(text)
    command = ["wine", program_of(built, source), "key"]
    environment = wine.environment
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, text=True
    ) as server:
        yield int(server.stdout.readline().split()[1])
        server.kill()


@pytest.mark.slow
def test_remote_calls_are_served_there(wine, far_server, tmp_path):
    """Code compiled and uploaded here runs there, and can be uploaded again meanwhile."""
    library = compile_network("digits_f32", tmp_path, levels=["v2"])
    session = ort.InferenceSession(DIGITS / "digits_f32.onnx")
    image = np.random.default_rng(5).random((1, 1, 8, 8), np.float32)
    (expected,) = session.run(None, {"image": image})
    with pytest.raises(TVMError, match="cannot find server that matches"):
        rpc.connect("127.0.0.1", far_server)
    remote = rpc.connect("127.0.0.1", far_server, "key")
    remote.upload(library)
    loaded = remote.load_module(library.name)
    network = graph_executor.GraphModule(loaded["default"](remote.cpu()))
    network.set_input("image", tvmrt.nd.array(image, remote.cpu()))
    network.run()
    np.testing.assert_allclose(network.get_output(0).numpy(), expected, rtol=2e-5, atol=1e-6)
    remote.upload(b"another one", library.name)
    with pytest.raises(TVMError, match="an older library with this path is in use; release ev"):
        remote.load_module(library.name)
    assert remote.download(library.name) == b"another one"
    assert remote.listdir() == [library.name]
    with pytest.raises(TVMError, match="none: No such file or directory"):
        remote.remove("none")
    folder = Path(remote.get_function("tvm.rpc.server.workpath")("x").replace("\\", "/")).parent
    (folder,) = Path(wine.environment["WINEPREFIX"]).glob(f"drive_c/users/*/Temp/{folder.name}")
    remote.close()
    rpc.connect("127.0.0.1", far_server, "key").close()
    assert not folder.exists(), "it goes with its session"
    for seconds in (1, 4, 16):  # a busy machine may start too late for a short one
        with contextlib.suppress(TVMError):
            again = rpc.connect("127.0.0.1", far_server, "key", session_timeout=seconds)
            assert again.listdir() == []
            break
    time.sleep(seconds + 0.1)
    with pytest.raises(TVMError, match=r"time of the session is over|has closed the connection"):
        again.listdir()


@pytest.mark.slow
def test_clients_there_reach_servers_here(built, wine):
    program = program_of(built, Path(__file__).parent / "remote_client.c")
    server = rpc.Server(key="key", silent=True)
    try:
        said = wine(program, "127.0.0.1", str(server.port), "key")
        assert said == "the session has ten.txt,\n"
        refused = wine(program, "127.0.0.1", str(server.port), "other", code=1)
        assert "cannot find server that matches key=other" in refused
    finally:
        server.terminate()
    unused_port = wine(program, "127.0.0.1", str(server.port), "key", code=1)
    assert re.search(r"cannot connect to 127\.0\.0\.1:\d+: \w", unused_port)

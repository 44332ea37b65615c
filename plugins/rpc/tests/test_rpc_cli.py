"""Test ``run``, ``verify`` and ``bench`` on another machine, simulated by a second process."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from rpc_case import KEY

from tvmrt import rpc
from tvmrt.cli import app

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


@pytest.fixture(scope="module", params=["graph", "aot"])
def library(request, tmp_path_factory):
    """Return the digits network."""
    path = tmp_path_factory.mktemp("network") / "digits.so"
    network = str(DIGITS / "digits_f32.onnx")
    assert app.run(["compile", network, "-o", str(path), "--executor", request.param]) == app.DONE
    return path


@pytest.fixture(scope="module")
def place():
    """Return the options that name a server."""
    server = rpc.Server(port=0, key=KEY, silent=True)
    yield ["--rpc", f"127.0.0.1:{server.port}", "--rpc-key", KEY]
    server.terminate()


def test_run_and_bench(library, place, tmp_path, capsys):
    image = np.random.default_rng(1).random((1, 1, 8, 8), "float32")
    np.savez(tmp_path / "in.npz", image=image)
    files = ["--inputs", str(tmp_path / "in.npz"), "--outputs", str(tmp_path / "out.npz")]
    run = ["run", str(library), *files, "--repeat", "3", "--threads", "1", "--json", *place]
    begin = time.perf_counter()
    assert app.run(run) == app.DONE
    whole = time.perf_counter() - begin
    times = json.loads(capsys.readouterr().out)["seconds"]
    assert len(times) == 3 and min(times) > 0 and sum(times) <= whole
    judge = onnxruntime.InferenceSession(str(DIGITS / "digits_f32.onnx"))
    (right,) = judge.run(None, {"image": image})
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["probabilities"], right, atol=1e-5)
    assert app.run(["bench", str(library), "--seconds", "0.02", "--json", *place]) == app.DONE
    assert json.loads(capsys.readouterr().out)


def test_wait_for_a_server(library, capsys):
    tracker = rpc.Tracker(port=0)
    address = ("127.0.0.1", tracker.port)
    server = rpc.Server(port=0, key="pi", tracker_addr=address, silent=True)
    run = ["run", str(library), "--random", "--rpc-tracker", f"127.0.0.1:{tracker.port}"]
    try:
        busy = rpc.connect_tracker(*address).request("pi")
        assert app.run([*run, "--rpc-key", "pj"]) == app.CANNOT
        assert "start 'tvmrt rpc server --tracker'" in capsys.readouterr().err
        threading.Timer(0.5, busy.close).start()
        assert app.run([*run, "--rpc-key", "pi"]) == app.DONE
        note = "tvmrt: note: waits for a free server with the key 'pi'"
        assert capsys.readouterr().err.splitlines() == [note]
    finally:
        server.terminate()
        tracker.terminate()


def test_missing_tracker_is_reported_at_once(library, capsys):
    with socket.socket() as taken:  # but does not listen
        taken.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        where = ["--rpc-tracker", place, "--rpc-key", "pi"]
        assert app.run(["run", str(library), "--random", *where]) == app.CANNOT
    assert capsys.readouterr().err.splitlines() == [
        f"tvmrt: error: no tracker answers at {place}; start 'tvmrt rpc tracker' there, or check "
        "the address"
    ]


def test_verify(place, capsys):
    network = str(DIGITS / "digits_int8.onnx")
    assert app.run(["verify", network, "--outputs-only", *place]) == app.DONE
    assert "1 of 1 tensors agree" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options, text",
    [
        (["--rpc", "127.0.0.1:1"], "cannot connect to 127.0.0.1:1"),
        (["--rpc", "127.0.0.1:x"], "--rpc must be given as HOST:PORT, not '127.0.0.1:x'"),
        (["--rpc", "a:1", "--rpc-tracker", "a:1"], "give either --rpc or --rpc-tracker"),
        (["--rpc-key", "k"], "--rpc-key needs --rpc or --rpc-tracker"),
    ],
)
def test_refusals(tmp_path, options, text, capsys):
    (tmp_path / "x.so").write_bytes(b"")
    assert app.run(["run", str(tmp_path / "x.so"), "--random", *options]) == app.CANNOT
    assert text in capsys.readouterr().err


def test_profile_is_of_this_machine(library, place, capsys):
    assert app.run(["run", str(library), "--random", "--profile", *place]) == app.CANNOT
    assert "profiled on this machine only" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["server", "tracker"])
def test_servers_end_by_the_signal_itself(command):
    """Session processes inherit the default signal action: SIGTERM ends each at once."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "tvmrt", "rpc", command, "--host", "127.0.0.1",
         "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert "127.0.0.1" in process.stdout.readline()
    process.terminate()
    assert process.wait(timeout=60) == -signal.SIGTERM

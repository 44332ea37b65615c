"""Test the server commands, their options, and errors about TVM's names."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tvmrt.cli import app


@pytest.mark.skipif(os.name != "posix", reason="another system's signals")
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


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize(
    "command",
    [["rpc", "server", "--idle-seconds"], ["rpc", "server", "--session-seconds"]],
    ids=" ".join,
)
def test_no_finite_number(capsys, command, value):
    assert app.run([*command, value]) == app.CANNOT
    sentence = capsys.readouterr().err
    assert command[-1] in sentence and value in sentence


def test_the_package_has_the_module_of_tvm():
    ask = "import tvmrt as tvm; print(tvm.rpc.connect.__module__)"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout == "tvmrt.rpc.client\n"


@pytest.mark.parametrize(
    "words",
    [
        ["rpc", "server"], ["run", "net.so", "--random", "--rpc", "a:1"],
        ["verify", "net.onnx", "--rpc-tracker", "a:1"], ["bench", "net.onnx", "--rpc-key", "k"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_unsupported_names_are_refused(words):
    done = subprocess.run(
        [sys.executable, "-m", "tvmrt", *words], env={**os.environ, "TVMRT_PLUGINS": "-rpc"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    what = "rpc" if words[0] == "rpc" else "--rpc"
    assert f"the plug-in rpc has {what}, but TVMRT_PLUGINS leaves it out" in done.stderr

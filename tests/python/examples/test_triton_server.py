"""The model repository of the example in the Triton server of the package nvidia-pytriton."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from wheels import built_wheel

import tvmrt

ROOT = Path(__file__).parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits_f32.onnx"
REPOSITORY = ROOT / "examples" / "serving" / "triton"
SECONDS = 60  # to start
TRITON = importlib.util.find_spec("pytriton")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(TRITON is None, reason="nvidia-pytriton is not installed"),
    pytest.mark.skipif(importlib.util.find_spec("mesonpy") is None, reason="there is no mesonpy"),
]


@pytest.fixture
def python(tmp_path) -> Path:
    """Return the folder of commands of an environment for the server, whose backend needs
    numpy 1."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "venv"], check=True)
    commands = tmp_path / "venv" / "bin"
    install = [commands / "python", "-m", "pip", "install", "-q", "numpy<2"]
    if subprocess.run([*install, built_wheel(tmp_path)], check=False).returncode:
        pytest.skip("there is no package index with numpy")
    return commands


@pytest.fixture
def address(tmp_path, python):
    """Start the server with the example, whose network is a library; return its address."""
    home = Path(TRITON.submodule_search_locations[0]) / "tritonserver"
    backend = tmp_path / "backends" / "python"
    shutil.copytree(home / "backends" / "python", backend)
    version = "{}.{}".format(*sys.version_info)
    shutil.copy(home / "python_backend_stubs" / version / "triton_python_backend_stub", backend)
    for program in (home / "bin" / "tritonserver", backend / "triton_python_backend_stub"):
        program.chmod(0o755)  # as the package does
    shapes = {"image": ("batch<=64", 1, 8, 8)}
    tvmrt.compile(DIGITS, shapes=shapes).export_library(tmp_path / "digits.so")
    models = shutil.copytree(REPOSITORY, tmp_path / "models")
    config = models / "digits" / "config.pbtxt"
    config.write_text(re.sub(r'"/models/.*?"', f'"{tmp_path}/digits.so"', config.read_text()))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        home / "bin" / "tritonserver", f"--model-repository={models}",
        f"--backend-directory={backend.parent}", "--http-address=127.0.0.1", f"--http-port={port}",
        "--allow-grpc=false", "--allow-metrics=false",
    ]  # fmt: skip
    # libpython, and libraries that the backend finds at its own place only
    libraries = [sysconfig.get_config_var("LIBDIR"), f"{home.parents[1]}/nvidia_pytriton.libs"]
    environment = {
        **os.environ,
        "PATH": f"{python}:{os.environ['PATH']}",
        "LD_LIBRARY_PATH": ":".join(libraries),
    }
    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        _wait(server, f"http://127.0.0.1:{port}/v2/health/ready", tmp_path / "log")
        yield f"http://127.0.0.1:{port}/v2/models/digits/infer"
    finally:
        server.terminate()
        server.wait(SECONDS)


def _wait(server: subprocess.Popen, address: str, log: Path) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(address)
            return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"the server is not ready: {log.read_text()[-3000:]}")


def test_answers_are_those_of_the_network(address):
    with np.load(DIGITS.with_name("digits_test.npz")) as data:
        images = (data["images"][:9, None] / 16).astype(np.float32)
    expected = tvmrt.load(DIGITS, shapes={"image": ("batch<=64", 1, 8, 8)})(images)
    for count in (1, 9):
        given = {"name": "image", "datatype": "FP32", "shape": [count, 1, 8, 8]}
        given["data"] = images[:count].ravel().tolist()
        body = json.dumps({"inputs": [given]}).encode()
        with urllib.request.urlopen(urllib.request.Request(address, body)) as answer:
            (output,) = json.load(answer)["outputs"]
        found = np.array(output["data"], np.float32).reshape(output["shape"])
        np.testing.assert_allclose(found, expected[:count], rtol=1e-5, atol=1e-7)

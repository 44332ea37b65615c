"""The HTTP servers of ``examples/serving``, each in a process of its own on a loopback address."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import tvmrt

EXAMPLES = Path(__file__).parents[3] / "examples"
SERVING = EXAMPLES / "serving"
SECONDS = 120  # until a state is reached

# It serves until a line comes, then stops the application as an operator does.
RAY_SERVE = """
import sys
import ray
from ray import serve
from ray_serve_app import app
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
serve.run(app({"metrics": sys.argv[2]}))
sys.stdin.readline()
serve.delete("default")
serve.shutdown()
ray.shutdown()
"""


class Server:
    """A running server, whose network is the file ``network``.

    Parameters
    ----------
    framework
        ``uvicorn`` or ``ray``.
    folder
        For the network's file, the log and the metrics.
    source
        The network to begin with.
    processes
        Number of processes that answer requests.
    """

    def __init__(self, framework: str, folder: Path, source: Path, processes: int = 2) -> None:
        self.framework = framework
        self.network = folder / "network.so"
        self.processes = processes
        self.log = folder / "log.txt"
        shutil.copy(source, self.network)
        port = _free_port()
        self.url = f"http://127.0.0.1:{port}"
        uvicorn = ["-m", "uvicorn", "--app-dir", str(SERVING), "fastapi_app:app"]
        uvicorn += ["--host", "127.0.0.1", "--port", str(port), "--workers", str(processes)]
        ray = ["-c", RAY_SERVE, str(port), str(folder / "metrics")]
        environment = {
            **os.environ,
            "PYTHONPATH": str(SERVING),  # also for replicas
            "DIGITS_NETWORK": str(self.network),
            "DIGITS_RELOAD_SECONDS": "0.1",
            "TVM_NUM_THREADS": "1",
        }
        if framework == "uvicorn" and processes > 1:
            environment["PROMETHEUS_MULTIPROC_DIR"] = str(folder / "metrics")
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, *(ray if framework == "ray" else uvicorn)],
                stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=environment,
            )  # fmt: skip
        try:
            self.until(lambda: self.get("/ready")[0] == 200, "the server is ready")
            self.until(self.uses(self.network), "all processes have the network")
        except BaseException:
            self.kill()
            raise

    def until(self, reached: Callable[[], bool], what: str) -> None:
        """Wait for a state."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log.read_text()
            try:
                if reached():
                    return
            except (urllib.error.URLError, ConnectionError):
                pass  # not listening yet
            time.sleep(0.05)
        raise TimeoutError(f"not within {SECONDS} s: {what}\n{self.log.read_text()}")

    def get(self, path: str) -> tuple[int, str]:
        """Return status and body of a page."""
        return self._answer(urllib.request.Request(self.url + path))

    def post(self, body: Any) -> tuple[int, Any]:
        """Send an image; a body of bytes is sent as it is. Return status and answer."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        status, text = self._answer(urllib.request.Request(self.url + "/digit", data, headers))
        return status, json.loads(text)

    def _answer(self, request: urllib.request.Request) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str, **labels: str) -> float:
        """Return the value of a metric; 0 if it has none yet."""
        from prometheus_client.parser import text_string_to_metric_families

        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                if sample.name == name and labels.items() <= sample.labels.items():
                    return sample.value
        return 0.0

    def is_busy(self) -> bool:
        """Return whether a request for a digit has no answer yet."""
        return self.metric("digits_in_flight", path="/digit") > 0

    def uses(self, path: Path) -> Callable[[], bool]:
        """Return a condition: all processes use the network of a file."""
        known = version(path)
        return lambda: self.metric("digits_network_version", version=known) == self.processes

    def place(self, path: Path) -> None:
        """Replace the network's file as the documentation says: written aside, then renamed."""
        aside = self.network.with_name("network.new")
        shutil.copy(path, aside)
        aside.replace(self.network)

    def stop(self) -> None:
        """Ask the server to stop, and return at once."""
        if self.framework == "ray":
            assert self.process.stdin is not None
            self.process.stdin.write(b"\n")
            self.process.stdin.close()
        else:
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Stop the server, and end its process if it does not."""
        if self.process.poll() is None and (self.process.stdin and not self.process.stdin.closed):
            self.stop()
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def version(path: Path) -> str:
    """Return the version of a network's file, as ``sha256sum`` prints it."""
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def export(model: Path | onnx.ModelProto, path: Path) -> Path:
    """Compile a network to a library."""
    tvmrt.compile(model).export_library(path)
    return path


def long_network(rounds: int, digits: int = 10) -> onnx.ModelProto:
    """Return a network with the inputs and outputs of the digits network that multiplies matrices
    for a time that grows with the rounds: some seconds for ten million."""
    rng = np.random.default_rng(0)
    value = helper.make_tensor_value_info
    weights = {
        "flat": np.array([1, 64]), "rounds": np.array(rounds),
        "w": rng.standard_normal((64, 64)).astype(np.float32),
        "last": rng.standard_normal((64, digits)).astype(np.float32),
    }  # fmt: skip
    state = [1, 64]
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["before", "w"], ["product"]),
            helper.make_node("Tanh", ["product"], ["after"]),
            helper.make_node("Identity", ["going"], ["on"]),
        ],
        "body",
        [
            value("i", TensorProto.INT64, []),
            value("going", TensorProto.BOOL, []),
            value("before", TensorProto.FLOAT, state),
        ],
        [value("on", TensorProto.BOOL, []), value("after", TensorProto.FLOAT, state)],
    )
    nodes = [
        helper.make_node("Reshape", ["image", "flat"], ["first"]),
        helper.make_node("Loop", ["rounds", "", "first"], ["state"], body=body),
        helper.make_node("MatMul", ["state", "last"], ["sums"]),
        helper.make_node("Softmax", ["sums"], ["probabilities"]),
    ]
    graph = helper.make_graph(
        nodes,
        "long",
        [value("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [value("probabilities", TensorProto.FLOAT, [1, digits])],
        [numpy_helper.from_array(each, name) for name, each in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])

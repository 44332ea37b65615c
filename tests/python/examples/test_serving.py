"""Serving examples: each answers with the network's results."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import socket
import subprocess
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import tvmrt

EXAMPLES = Path(__file__).parents[3] / "examples"
DIGITS = EXAMPLES / "digits" / "digits_f32.onnx"


@pytest.fixture(scope="module")
def net():
    return tvmrt.load(DIGITS)


def _module(name: str, path: Path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pydantic resolves annotations in this module
    spec.loader.exec_module(module)
    return module


def test_fastapi_answers_with_the_digit(net):
    pytest.importorskip("httpx")
    client_of = pytest.importorskip("fastapi.testclient").TestClient
    app = _module("fastapi_app", EXAMPLES / "serving" / "fastapi_app.py").app
    with np.load(EXAMPLES / "digits" / "digits_test.npz") as data:
        pixels = data["images"][0].astype(np.float32)
    client = client_of(app)
    answer = client.post("/digit", json={"pixels": pixels.tolist()}).json()
    probabilities = net(pixels[None, None] / 16)[0]
    assert answer["digit"] == probabilities.argmax()
    assert answer["probability"] == pytest.approx(float(probabilities.max()))
    refused = client.post("/digit", json={"pixels": [[1.0, 2.0]]})
    assert refused.status_code == 422


@dataclass
class _Tensor:
    name: str
    array: np.ndarray

    def as_numpy(self):
        return self.array


def test_triton_model_runs_all_requests_in_one_call(net, monkeypatch):
    """Triton's Python module is replaced by a stub with its documented interface."""
    backend = types.ModuleType("triton_python_backend_utils")
    backend.Tensor = _Tensor
    backend.InferenceResponse = lambda output_tensors: output_tensors
    backend.get_input_tensor_by_name = lambda request, name: next(
        tensor for tensor in request if tensor.name == name
    )
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", backend)
    model = _module("triton_model", EXAMPLES / "serving/triton/digits/1/model.py")
    text = (EXAMPLES / "serving" / "triton" / "digits" / "config.pbtxt").read_text()
    names = dict(re.findall(r'(input|output) \[\{ name: "(\w+)"', text))
    config = {
        "parameters": {"network": {"string_value": str(DIGITS)}},
        **{side: [{"name": name}] for side, name in names.items()},
    }
    served = model.TritonPythonModel()
    served.initialize({"model_config": json.dumps(config)})
    rng = np.random.default_rng(0)
    rows = [rng.random((count, 1, 8, 8), np.float32) for count in (1, 3, 2)]
    responses = served.execute([[_Tensor(names["input"], each)] for each in rows])
    for given, (tensor,) in zip(rows, responses):
        assert tensor.name == names["output"]
        np.testing.assert_array_equal(tensor.array, net(given))


# Several threads send requests, so that Serve batches some of them.
ASKS_RAY_SERVE = """
import json, sys, urllib.request
from concurrent.futures import ThreadPoolExecutor
import numpy as np, ray
from ray import serve
from ray_serve_app import app
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[2])})
serve.run(app)
def answer(pixels):
    body = json.dumps({"pixels": pixels.tolist()}).encode()
    with urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[2]}/", body, timeout=600) as reply:
        return json.load(reply)
with ThreadPoolExecutor(8) as pool:
    print(json.dumps(list(pool.map(answer, np.load(sys.argv[1])["images"][:32]))))
serve.shutdown()
"""


@pytest.mark.slow
def test_ray_serve_answers_with_the_digits(net):
    pytest.importorskip("ray.serve", exc_type=ImportError)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    images = EXAMPLES / "digits" / "digits_test.npz"
    command = [sys.executable, "-c", ASKS_RAY_SERVE, str(images), port]
    environment = {**os.environ, "PYTHONPATH": str(EXAMPLES / "serving")}  # also for replicas
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=600, env=environment
    )
    assert done.returncode == 0, done.stderr
    # Ray prints to the streams of the process
    answers = json.loads(next(line for line in done.stdout.splitlines() if line.startswith("[{")))
    with np.load(images) as data:
        expected = net(data["images"][:32, None].astype(np.float32) / 16)
    assert [answer["digit"] for answer in answers] == expected.argmax(1).tolist()
    found = [answer["probability"] for answer in answers]
    np.testing.assert_allclose(found, expected.max(1), rtol=1e-6)


@pytest.mark.parametrize(
    "framework, file", [("ray", "ray_batches"), ("distributed", "dask_batches")]
)
@pytest.mark.slow
def test_cluster_results_equal_one_process(framework, file):
    """The program compares each result bit by bit."""
    pytest.importorskip(framework)
    program = EXAMPLES / "serving" / f"{file}.py"
    command = [sys.executable, str(program), "--images", "1000", "--cores", "2", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert re.search(r"2 workers +[\d,]+ images/s each +[\d,]+ images/s of proc", done.stdout)

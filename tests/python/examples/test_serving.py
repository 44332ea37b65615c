"""Serving examples: each answers with the network's results."""

from __future__ import annotations

import importlib.util
import json
import re
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


def test_fastapi_answers_with_the_digit(net, monkeypatch):
    """``test_http_servers.py`` has the rest, with a server in another process."""
    pytest.importorskip("httpx")
    pytest.importorskip("prometheus_client")
    monkeypatch.syspath_prepend(EXAMPLES / "serving")
    client_of = pytest.importorskip("fastapi.testclient").TestClient
    app = _module("fastapi_app", EXAMPLES / "serving" / "fastapi_app.py").app
    with np.load(EXAMPLES / "digits" / "digits_test.npz") as data:
        pixels = data["images"][0].astype(np.float32)
    client = client_of(app)
    answer = client.post("/digit", json={"pixels": pixels.tolist()}).json()
    probabilities = net(pixels[None, None] / 16)[0]
    assert answer["digit"] == probabilities.argmax()
    assert answer["probability"] == pytest.approx(float(probabilities.max()))
    for body, field in (({"pixels": [[0.0] * 8] * 7 + [[0.0]]}, "pixels[7]"), ({}, "pixels")):
        refused = client.post("/digit", json=body)
        assert (refused.status_code, refused.json()["detail"][0]["field"]) == (422, field)


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
    most = int(re.search(r"max_batch_size: (\d+)", text)[1])
    sizes = re.search(r"dims: \[ ([\d, ]+) \]", text)[1].split(", ")
    config = {
        "max_batch_size": most,
        "parameters": {"network": {"string_value": str(DIGITS)}},
        "input": [{"name": names["input"], "dims": sizes}],  # int64 is text in protobuf's JSON
        "output": [{"name": names["output"]}],
    }
    served = model.TritonPythonModel()
    served.initialize({"model_config": json.dumps(config)})
    assert served.net.dims == {"batch": (1, most)}, "one call runs a whole batch"
    rng = np.random.default_rng(0)
    rows = [rng.random((count, 1, 8, 8), np.float32) for count in (1, 3, 2)]
    responses = served.execute([[_Tensor(names["input"], each)] for each in rows])
    for given, (tensor,) in zip(rows, responses):
        assert tensor.name == names["output"]
        right = np.concatenate([net(row[None]) for row in given])
        np.testing.assert_allclose(tensor.array, right, rtol=1e-5)


@pytest.mark.parametrize(
    "framework, file", [("ray.data", "ray_batches"), ("distributed", "dask_batches")]
)
@pytest.mark.slow
def test_cluster_results_equal_one_process(framework, file):
    """The program compares each result bit by bit."""
    pytest.importorskip(framework, exc_type=ImportError)
    program = EXAMPLES / "serving" / f"{file}.py"
    command = [sys.executable, str(program), "--images", "1000", "--cores", "2", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert re.search(r"2 workers +[\d,]+ images/s each +[\d,]+ images/s of proc", done.stdout)

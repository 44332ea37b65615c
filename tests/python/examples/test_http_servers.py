"""The example servers as operators and clients meet them: answers, errors, metrics, replacement of
the network, shutdown."""

from __future__ import annotations

import importlib.util
import json
from concurrent.futures import ThreadPoolExecutor

import http_servers
import numpy as np
import pytest
from http_servers import EXAMPLES, Server

DIGITS = EXAMPLES / "digits" / "digits_f32.onnx"
OTHER = EXAMPLES / "digits" / "digits_int8.onnx"
ROW = [0.0] * 8
NEEDED = {"uvicorn": ["fastapi", "uvicorn"], "ray": ["fastapi", "ray.serve"]}

pytestmark = pytest.mark.slow


def _need(framework: str) -> None:
    for package in (*NEEDED[framework], "prometheus_client"):
        if importlib.util.find_spec(package.split(".")[0]) is None:
            pytest.skip(f"{package} is not installed")
        pytest.importorskip(package, exc_type=ImportError)


@pytest.fixture(scope="module")
def networks(tmp_path_factory):
    """Compiled networks by name."""
    folder = tmp_path_factory.mktemp("networks")
    sources = {
        "digits": DIGITS,
        "other": OTHER,
        "long": http_servers.long_network(3_000_000),
        "seven": http_servers.long_network(1, digits=7),
    }
    return {
        name: http_servers.export(each, folder / f"{name}.so") for name, each in sources.items()
    }


@pytest.fixture(scope="module", params=["uvicorn", "ray"])
def server(request, networks, tmp_path_factory):
    _need(request.param)
    started = Server(request.param, tmp_path_factory.mktemp(request.param), networks["digits"])
    yield started
    started.kill()


def _expected(path, images: np.ndarray) -> np.ndarray:
    session = pytest.importorskip("onnxruntime").InferenceSession(str(path))
    return np.concatenate([session.run(None, {"image": each[None, None]})[0] for each in images])


def test_answers_equal_onnxruntime(server):
    """Several clients at a time, so that Serve gathers some of their requests."""
    with np.load(EXAMPLES / "digits" / "digits_test.npz") as data:
        images = data["images"][:32].astype(np.float32)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(server.post, [{"pixels": each.tolist()} for each in images]))
    right = _expected(DIGITS, images / 16)
    assert [status for status, _ in answers] == [200] * 32
    assert [answer["digit"] for _, answer in answers] == right.argmax(1).tolist()
    found = [answer["probability"] for _, answer in answers]
    np.testing.assert_allclose(found, right.max(1), rtol=1e-5)


WRONG = {
    "short rows": ({"pixels": [[0.0] * 7] * 8}, "pixels[0]"),
    "a row too many": ({"pixels": [ROW] * 9}, "pixels"),
    "ragged": ({"pixels": [ROW] * 7 + [[0.0] * 9]}, "pixels[7]"),
    "empty row": ({"pixels": [ROW] * 3 + [[]] + [ROW] * 4}, "pixels[3]"),
    "a word": ({"pixels": [["dark", *ROW[1:]]] + [ROW] * 7}, "pixels[0][0]"),
    "a number as text": ({"pixels": [["1", *ROW[1:]]] + [ROW] * 7}, "pixels[0][0]"),
    "too bright": ({"pixels": [ROW] * 7 + [[*ROW[1:], 16.5]]}, "pixels[7][7]"),
    "a list too deep": ({"pixels": [[[0.0] * 8] * 8] * 8}, "pixels[0][0]"),
    "missing": ({}, "pixels"),
    "unknown": ({"pixels": [ROW] * 8, "pixel": 1}, "pixel"),
    "not an object": ([ROW] * 8, "body"),
    "NaN": (b'{"pixels": [[NaN, 0, 0, 0, 0, 0, 0, 0]]}', "pixels[0][0]"),
    "infinite": (b'{"pixels": [[1e999, 0, 0, 0, 0, 0, 0, 0]]}', "pixels[0][0]"),
    "not JSON": (b'{"pixels": [', "body"),
    "not UTF-8": (b'{"pixels": "\xff"}', "body"),
    "nested without end": (b'{"pixels": ' + b"[" * 100_000, "body"),
    "a number without end": (b'{"pixels": [[' + b"1" * 5000 + b"]]}", "body"),
    "nothing": (b"", "body"),
}


def test_wrong_input_is_422_with_field_and_sentence(server):
    for name, (body, field) in WRONG.items():
        status, answer = server.post(body)
        assert status == 422, (name, answer)
        problem = answer["detail"][0]
        assert problem["field"] == field, (name, problem)
        assert problem["message"].startswith(f"{field}: "), name
        assert len(problem["message"].split()) >= 3, name
    assert server.post({"pixels": [ROW] * 8})[0] == 200


def test_health_readiness_and_metrics(server, networks):
    before = {status: _requests(server, status) for status in ("200", "422")}
    errors = server.metric("digits_errors_total", path="/digit")
    timed = server.metric("digits_latency_seconds_count", path="/digit")
    for body in [{"pixels": [ROW] * 8}] * 5 + [{}] * 3:
        server.post(body)
    assert _requests(server, "200") == before["200"] + 5
    assert _requests(server, "422") == before["422"] + 3
    assert server.metric("digits_errors_total", path="/digit") == errors + 3
    assert server.metric("digits_latency_seconds_count", path="/digit") == timed + 8
    assert server.metric("digits_latency_seconds_bucket", path="/digit", le="+Inf") == timed + 8
    assert server.metric("digits_in_flight", path="/digit") == 0
    assert server.get("/health")[0] == 200
    status, text = server.get("/ready")
    known = http_servers.version(networks["digits"])
    assert (status, json.loads(text)) == (200, {"ready": True, "version": known, "error": None})
    assert server.get("/nowhere")[0] == 404


def _requests(server: Server, status: str) -> float:
    return server.metric("digits_requests_total", path="/digit", status=status)


def test_broken_file_is_reported_and_the_network_stays(server, networks, tmp_path):
    def failed() -> float:
        return server.metric("digits_reloads_total", result="failed")

    known = http_servers.version(networks["digits"])
    broken = tmp_path / "broken.so"
    contents = networks["digits"].read_bytes()
    for wrong in (b"", contents[: len(contents) // 2], networks["seven"].read_bytes()):
        broken.write_bytes(wrong)
        expected = failed() + server.processes
        server.place(broken)
        server.until(lambda count=expected: failed() == count, "the file is refused")
        status, text = server.get("/ready")
        assert status == 200
        assert "network.so" in json.loads(text)["error"]
        assert server.post({"pixels": [ROW] * 8})[1]["version"] == known
    server.network.unlink()
    server.until(lambda: "does not exist" in server.get("/ready")[1], "the loss is reported")
    assert server.post({"pixels": [ROW] * 8})[1]["version"] == known
    server.place(networks["digits"])
    server.until(lambda: '"error":null' in server.get("/ready")[1], "the error is over")


def test_replaced_network_answers_new_requests_and_the_old_one_those_in_flight(server, networks):
    image = {"pixels": [ROW] * 8}
    server.place(networks["long"])
    server.until(server.uses(networks["long"]), "the long network is in use")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(server.post, image)
        server.until(server.is_busy, "the request has begun")
        server.place(networks["other"])
        server.until(server.uses(networks["other"]), "the other network is in use")
        status, answer = server.post(image)
        assert not slow.done() or server.framework == "ray"  # which may use one replica for both
        assert (status, answer["version"]) == (200, http_servers.version(networks["other"]))
        right = _expected(OTHER, np.zeros((1, 8, 8), np.float32)).max()
        assert answer["probability"] == pytest.approx(float(right), rel=1e-5)
        status, answer = slow.result()
        assert (status, answer["version"]) == (200, http_servers.version(networks["long"]))
    server.place(networks["digits"])
    server.until(server.uses(networks["digits"]), "the first network is back")


@pytest.mark.parametrize("framework, processes", [("uvicorn", 1), ("uvicorn", 2), ("ray", 2)])
def test_stopped_server_answers_the_requests_in_flight(framework, processes, networks, tmp_path):
    _need(framework)
    server = Server(framework, tmp_path, networks["long"], processes)
    try:
        with ThreadPoolExecutor(2) as pool:
            slow = pool.submit(server.post, {"pixels": [ROW] * 8})
            server.until(server.is_busy, "the request has begun")
            server.stop()
            status, answer = slow.result()
        assert (status, answer["version"]) == (200, http_servers.version(networks["long"]))
        server.process.wait(http_servers.SECONDS)
    finally:
        server.kill()
    with pytest.raises(OSError):
        server.get("/health")

"""Test that independent loaders read and run the files that tvmrt writes."""

from __future__ import annotations

import json
import re
import shutil
import tarfile

import numpy as np
import onnx
import pytest
from artefacts import loader, reader, stream, toolchain
from onnx.reference import ReferenceEvaluator
from small_network import small_network

import tvmrt

EXECUTORS = {"graph": loader.run_graph, "aot": loader.run_ahead}
executors = pytest.mark.parametrize("executor", list(EXECUTORS))


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return small_network()


@pytest.fixture(scope="module")
def x() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((1, 3, 9, 11)).astype(np.float32)


@pytest.fixture(scope="module")
def libraries(model, tmp_path_factory):
    """Return exported libraries by executor."""
    folder = tmp_path_factory.mktemp("written")
    paths = {}
    for executor in EXECUTORS:
        paths[executor] = folder / f"{executor}.so"
        tvmrt.compile(model, executor=executor).export_library(paths[executor])
    return paths


@executors
def test_library_runs_in_another_loader(libraries, model, x, executor):
    """Module tree, JSON, metadata and calling convention follow the formats."""
    assert tvmrt.runtime.enabled("cpu")  # exports the runtime's symbols in the process
    outputs = EXECUTORS[executor](loader.Library(libraries[executor]), {"x": x})
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-4, atol=1e-5)


@pytest.fixture(scope="module")
def with_file(model, tmp_path_factory):
    """Return a graph library whose weights are in a params file."""
    path = tmp_path_factory.mktemp("params") / "graph.so"
    tvmrt.compile(model, executor="graph", params="file").export_library(path)
    return path


def test_weights_in_a_file_run_in_another_loader(with_file, model, x):
    arrays = reader.read_params(with_file.with_suffix(".params").read_bytes())
    assert arrays
    outputs = loader.run_graph(loader.Library(with_file), {"x": x, **arrays})
    (expected,) = ReferenceEvaluator(model).run(None, {"x": x})
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-4, atol=1e-5)


@executors
def test_library_needs_only_what_every_runtime_exports(libraries, executor):
    if shutil.which("nm") is None:
        pytest.skip("nm is not installed")
    wanted = toolchain.execute(["nm", "-D", "--undefined-only", libraries[executor]])
    symbols = set(re.findall(r"\b(TVM\w+|tvm\w+)", wanted))
    assert symbols <= {
        "TVMAPISetLastError",
        "TVMFuncCall",
        "TVMBackendAllocWorkspace",
        "TVMBackendFreeWorkspace",
        "TVMBackendParallelLaunch",
        "TVMBackendParallelBarrier",
        "TVMBackendGetFuncFromEnv",
        "TVMBackendRunOnce",
    }


def test_numbers_go_through_a_params_file_unchanged(tmp_path):
    arrays = {
        "float32": np.array([[1.5, -0.0], [np.inf, np.nan]], np.float32),
        "int8": np.arange(-3, 3, dtype=np.int8),
        "bool": np.array([True, False, True]),
        "scalar": np.array(7, np.int64),
        "empty": np.zeros((0, 3), np.float16),
        "a name with blanks/and:signs é": np.array([1], np.uint64),
    }
    path = tmp_path / "net.params"
    tvmrt.runtime.save_param_dict_to_file(arrays, path)
    read = reader.read_params(path.read_bytes())
    assert set(read) == set(arrays)
    for name, array in arrays.items():
        assert read[name].dtype == array.dtype
        np.testing.assert_array_equal(read[name], array)


def test_bytes_that_are_read_are_written_again():
    data = stream.params({"w": np.arange(6, dtype=np.float32), "b": np.array([True])})
    assert bytes(tvmrt.runtime.save_param_dict(tvmrt.runtime.load_param_dict(data))) == data


# ---- the archive ----


def check_module(module: dict, executor: str) -> None:
    assert module["model_name"] == "default"
    assert module["executors"] == [executor]
    assert module["style"] == "full-model"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", module["export_datetime"])
    assert all(isinstance(target, str) for target in module["target"])
    (main,) = module["memory"]["functions"]["main"]
    assert main["device"] == 1
    for key in ("workspace_size_bytes", "constants_size_bytes", "io_size_bytes"):
        assert main[key] >= 0
    assert main["inputs"] == {"x": {"size": 4 * 3 * 9 * 11, "dtype": "float32"}}
    assert main["outputs"] == {"output": {"size": 20, "dtype": "float32"}}
    for function in module["memory"]["functions"]["operator_functions"]:
        assert function["function_name"].startswith("tvmgen_default_")
        assert all(w["device"] == 1 for w in function["workspace"])


@executors
def test_archive_has_the_files_and_keys_of_version_7(model, tmp_path, executor):
    path = tmp_path / "network.tar"
    tvmrt.compile(model, executor=executor).export_model_library_format(path)
    with tarfile.open(path, "r:") as tar:
        names = [member.name.removeprefix("./") for member in tar.getmembers()]
        files = {n.removeprefix("./"): tar.extractfile(n) for n in tar.getnames()}
        metadata = json.loads(files["metadata.json"].read())
        params = files["parameters/default.params"].read()
        graph = files.get("executor-config/graph/default.graph")
        graph_text = None if graph is None else graph.read()
    assert metadata["version"] == 7
    assert list(metadata["modules"]) == ["default"]
    check_module(metadata["modules"]["default"], executor)
    assert any(re.match(r"codegen/host/src/.*lib\d+\.c$", name) for name in names)
    assert reader.read_params(params) == {}
    assert (graph_text is None) == (executor == "aot")
    if graph_text is not None:
        loader.check_graph(json.loads(graph_text))

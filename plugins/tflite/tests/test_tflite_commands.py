"""Test the commands with ``.tflite`` files."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from tflite_case import FILES, Net, ours

import tvmrt
from tvmrt.cli.session import Session
from tvmrt.plugins.tflite import verify
from tvmrt.plugins.tflite.frontend import load_model

NETWORK = FILES / "residual_int8.tflite"


def _tvmrt(*words) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "tvmrt", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


def test_compile_and_run(tmp_path):
    library, inputs = tmp_path / "net.so", tmp_path / "in.npz"
    done = _tvmrt("compile", NETWORK, "-o", library)
    assert done.returncode == 0, done.stderr
    np.savez(inputs, x=np.zeros((1, 10, 10, 4), np.int8))
    done = _tvmrt("run", library, "--inputs", inputs, "--json")
    assert json.loads(done.stdout)["outputs"]["Identity"]["shape"] == [1, 4, 4, 12]


@pytest.mark.slow
def test_an_archive_has_the_scales_that_litert_reads(tmp_path):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(str(NETWORK))
    details = [interpreter.get_input_details()[0], interpreter.get_output_details()[0]]
    library = tvmrt.compile(NETWORK, target="cortex-m4", interface_api="c", module_name="net")
    header = library.sources.files["tvmgen_net.h"]
    for member, each in zip(("X", "OUTPUT"), details):
        scale, zero = each["quantization"]
        found = re.search(rf"_{member}_SCALE (\S+)f\n.*_{member}_ZERO_POINT \(?(-?\d+)", header)
        assert np.float32(found[1]) == np.float32(scale) and int(found[2]) == zero
    library.export(tmp_path / "net.tar")
    rows = json.loads(_tvmrt("inspect", tmp_path / "net.tar", "--json").stdout)
    found = [(r["scale"], r["zero point"]) for r in rows["quantised inputs and outputs"]]
    assert found == [tuple(each["quantization"]) for each in details]


def test_inspect_lists_operators_with_versions_and_scales():
    found = json.loads(_tvmrt("inspect", NETWORK, "--json").stdout)
    assert found["format"] == "TensorFlow Lite" and found["can_be_imported"] is True
    assert {"operator": "CONV_2D", "version": 3, "count": 4} in found["operators"]
    assert found["inputs"][0]["zero point"] == -7


def test_verify_holds_every_tensor():
    pytest.importorskip("ai_edge_litert")
    done = _tvmrt("verify", NETWORK, "--json")
    found = json.loads(done.stdout)
    assert done.returncode == 0 and found["judge"] == "LiteRT's reference kernels"
    assert len(found["tensors"]) == 13 and found["wrong"] == 0


def test_verify_detects_one_integer_step():
    pytest.importorskip("ai_edge_litert")
    from tvmrt.cli import tolerance

    right = np.zeros((3,), np.int8)
    assert tolerance.compare_exactly(right, right).right
    assert not tolerance.compare_exactly(right + np.int8(1), right).right


def _two_signatures() -> bytes:
    """Make signatures negate: {"x"} -> {"less"} and double: {"a"} -> {"twice"} of graphs 0 and
    1."""
    net = Net()
    other = Net(net)
    net.op("NEG", [net.input((4,), "float32")], [net.output((4,), "float32")])
    a = other.input((4,), "float32")
    other.op("ADD", [a, a], [other.output((4,), "float32")], options="AddOptions")

    def maps(**ends) -> list:
        rows = []
        for name, index in ends.items():
            row = net.schema.TensorMapT()
            row.name, row.tensorIndex = name, index
            rows.append(row)
        return rows

    net.model.signatureDefs = []
    keys = {"negate": ("x", "less"), "double": ("a", "twice")}
    for number, (key, ends) in enumerate(keys.items()):
        signature = net.schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = key, number
        signature.inputs, signature.outputs = maps(**{ends[0]: 0}), maps(**{ends[1]: 1})
        net.model.signatureDefs.append(signature)
    return net.data()


@pytest.mark.slow
def test_one_of_several_signatures_is_compiled_checked_and_timed(tmp_path):
    pytest.importorskip("ai_edge_litert")
    path = tmp_path / "net.tflite"
    path.write_bytes(_two_signatures())
    for options, ends, right in (
        ({}, ("x", "less"), -1),
        ({"signature": "negate"}, ("x", "less"), -1),
        ({"signature": "double"}, ("a", "twice"), 2),
    ):
        summary = tvmrt.compile(str(path), **options).summary
        assert (summary.inputs[0].name, summary.outputs[0].name) == ends
        (got,) = ours(str(path), [np.ones(4, np.float32)], tmp_path, **options)
        assert got.tolist() == [right] * 4
    with pytest.raises(KeyError, match='signature="other" is not known; the file has negate'):
        tvmrt.compile(str(path), signature="other")
    with pytest.raises(ValueError, match=r"signature is for \.tflite files"):
        tvmrt.compile("examples/digits/digits_f32.onnx", signature="double")
    done = _tvmrt("verify", path, "--signature", "double", "--json")
    found = json.loads(done.stdout)
    assert [t["tensor"] for t in found["tensors"]] == ["twice"] and found["wrong"] == 0
    words = ("--signature", "double", "--seconds", "0.01", "--against", "litert", "--json")
    timed = json.loads(_tvmrt("bench", path, *words).stdout)
    assert [t["runtime"] for t in timed["networks"][0]["timings"]] == ["tvmrt", "litert"]
    assert "compare with litert" in _tvmrt("bench", path, "--against", "onnxruntime").stderr


@pytest.mark.slow
def test_dynamic_dimensions_are_set_per_run(tmp_path):
    pytest.importorskip("ai_edge_litert")
    path = FILES / "squeeze_excite_int8.tflite"
    main = load_model(path).subgraphs[0]
    rest, library = main.tensors[main.inputs[0]].shape[1:], tmp_path / "any.so"
    tvmrt.compile(str(path), shapes={"x": ("N<=3", *rest)}).export_library(str(library))
    session, rng = Session(library, 1), np.random.default_rng(4)
    for count in (3, 1, 2):
        x = rng.integers(-128, 128, (count, *rest)).astype(np.int8)
        (got,) = session.run({"x": x}).values()
        _, (right,) = verify.litert_tensors(path.read_bytes(), [x], main.outputs)
        np.testing.assert_array_equal(got, right)
    with pytest.raises(KeyError, match="no input has the dimension M"):
        tvmrt.compile(str(path), dims={"M": 4})
    words = ",".join(map(str, ("x=N<=3", *rest)))
    found = json.loads(_tvmrt("verify", path, "--shape", words, "--json").stdout)
    assert found["wrong"] == 0 and found["tensors"][0]["shape"][0] == 3


def test_compile_errors_are_one_sentence(tmp_path):
    pytest.importorskip("ai_edge_litert")
    net = Net()
    x, y = net.input((4,), "float32"), net.tensor((4,), "float32")
    net.op("SKIP_GRAM", [x], [y])
    net.graph.outputs.append(y)
    path = tmp_path / "net.tflite"
    path.write_bytes(net.data())
    done = _tvmrt("compile", path, "-o", tmp_path / "net.so")
    assert done.returncode == 2 and "SKIP_GRAM version 1" in done.stderr
    flat = FILES / "convolutional_int8.tflite"
    done = _tvmrt("compile", flat, "-o", tmp_path / "n.so", "--shape", "x=N<=4,12,10,3")
    assert done.returncode == 2 and "right for one size alone" in done.stderr
    (tmp_path / "bad.tflite").write_bytes(b"nothing")
    assert "is not a .tflite file" in _tvmrt("inspect", tmp_path / "bad.tflite").stderr

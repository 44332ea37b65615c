"""Files ``net.tvmrt``: other processes run them without the network, without onnx and without a C
compiler; what is damaged or of another version or processor is refused."""

import hashlib
import io
import json
import os
import subprocess
import sys
import time
import zipfile

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.error import CompileError
from tvmrt.plugins.kernel_pack import pack

pytestmark = pytest.mark.skipif(bool(pack.why_missing()), reason=pack.why_missing() or "-")

RUN = """
import sys
sys.modules["onnx"] = None  # not installed
import numpy as np
import tvmrt
net = tvmrt.load(sys.argv[1])
np.savez(sys.argv[3], **net(dict(np.load(sys.argv[2]))))
assert not any(name.startswith("tvmrt.compiler.frontend") for name in sys.modules)
print(net.form, *net.inputs[0].shape)
"""
RNG = np.random.default_rng(3)
FEEDS = {"picture": RNG.standard_normal((2, 3, 9, 7)).astype(np.float32)}


def _network():
    """Return a network of open sizes: a convolution, a recurrent layer and integers."""
    weights = {
        "kernel": RNG.standard_normal((4, 3, 3, 3)), "w": RNG.standard_normal((1, 15, 4)),
        "r": RNG.standard_normal((1, 15, 5)),
    }  # fmt: skip
    nodes = [
        helper.make_node("Conv", ["picture", "kernel"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["positive"]),
        helper.make_node("ReduceMax", ["positive", "axis"], ["rows"], keepdims=0),
        helper.make_node("Transpose", ["rows"], ["steps"], perm=[2, 0, 1]),
        helper.make_node("GRU", ["steps", "w", "r"], ["states", "last"], hidden_size=5),
        helper.make_node("TopK", ["last", "two"], ["best", "places"]),
    ]
    ends = [
        helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["n", 3, "height", "width"]),
        *(helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("states", "best")),
        helper.make_tensor_value_info("places", TensorProto.INT64, None),
    ]
    constants = [numpy_helper.from_array(v.astype(np.float32), n) for n, v in weights.items()]
    constants += [numpy_helper.from_array(np.array([v]), n) for n, v in (("axis", 2), ("two", 2))]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the network, and the file that the command line makes of it."""
    folder = tmp_path_factory.mktemp("written")
    onnx.save(_network(), folder / "net.onnx")
    _tvmrt("compile", folder / "net.onnx", "-o", folder / "net.tvmrt")
    return folder / "net.onnx", folder / "net.tvmrt"


def _tvmrt(*arguments, code=0):
    command = [sys.executable, "-m", "tvmrt", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def _run_elsewhere(folder, file):
    np.savez(folder / "in.npz", **FEEDS)
    command = [sys.executable, "-c", RUN, file.name, "in.npz", "out.npz"]
    (folder / file.name).write_bytes(file.read_bytes())
    environment = {k: v for k, v in os.environ.items() if k not in ("CC", "TVMRT_COMPILE")}
    done = subprocess.run(
        command, cwd=folder, env={**environment, "PATH": ""}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), dict(np.load(folder / "out.npz"))


def test_another_process_runs_it_without_onnx_and_a_compiler(written, tmp_path, monkeypatch):
    network, file = written
    form, found = _run_elsewhere(tmp_path, file)
    assert form == "kernel-pack n 3 height width"
    session = ort.InferenceSession(network)
    names = [each.name for each in session.get_outputs()]
    for name, expected in zip(names, session.run(None, FEEDS)):
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-6)
    monkeypatch.setenv("TVMRT_COMPILE", "never")
    for name, expected in tvmrt.load(network, cache=False)(FEEDS).items():
        np.testing.assert_array_equal(found[name], expected)


def test_the_commands_read_it(written, tmp_path):
    _, file = written
    assert "made of the .tvmrt file on this machine" in _tvmrt("inspect", file)
    np.savez(tmp_path / "in.npz", **FEEDS)
    timed = _tvmrt("bench", file, "--seconds", "0.1", "--inputs", tmp_path / "in.npz")
    assert "median time" in timed
    _tvmrt("run", file, "--inputs", tmp_path / "in.npz", "--outputs", tmp_path / "out.npz")
    (best, *_) = ort.InferenceSession(written[0]).run(["best"], FEEDS)
    np.testing.assert_allclose(np.load(tmp_path / "out.npz")["best"], best, rtol=1e-5, atol=1e-6)
    assert "give the .onnx or .tflite file it was compiled from" in _tvmrt("verify", file, code=2)


def test_an_option_of_the_network_stays_in_the_file(written, tmp_path):
    """One library for all processors; fixed order and bounds are the network's."""
    network, _ = written
    options = {"reproducible": True, "target": "kernel-pack", "dims": {"n": (1, 4)}}
    library = tvmrt.compile(str(network), **options)
    library.export(tmp_path / "net.tvmrt")
    assert [*_contents(tmp_path / "net.tvmrt")] == ["fixed"]
    expected = tvmrt.load(library)(FEEDS)
    for name, found in _run_elsewhere(tmp_path, tmp_path / "net.tvmrt")[1].items():
        np.testing.assert_array_equal(found, expected[name])
    with pytest.raises(ValueError, match="n"):
        tvmrt.load(tmp_path / "net.tvmrt")(np.ones((5, 3, 4, 4), np.float32))


def _archive(file):
    return zipfile.ZipFile(io.BytesIO(file.read_bytes().partition(b"\n")[2]))


def _contents(file):
    return json.loads(_archive(file).read("contents.json"))


def test_it_has_each_level_of_the_family_and_equal_files_once(written):
    contents = _contents(written[1])
    assert [*contents] == [*pack.targets_of_family()]
    stored = [key for files in contents.values() for key in files.values()]
    assert sorted(set(stored)) == sorted(set(_archive(written[1]).namelist()) - {"contents.json"})
    assert len(set(stored)) < len(stored)


def test_equal_networks_are_equal_files_at_any_time(written, tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time", lambda: 2e9)
    library = tvmrt.compile(str(written[0]), target="kernel-pack")
    library.export(tmp_path / "net.tvmrt")
    assert (tmp_path / "net.tvmrt").read_bytes() == written[1].read_bytes()


def _with_line(data, version):
    return b"tvmrt network %s %s\n" % (version, hashlib.sha256(data).hexdigest().encode()) + data


def _of_another_family(data):
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w") as archive:
        archive.writestr("contents.json", json.dumps({"rv64": {}}))
    return _with_line(copy.getvalue(), tvmrt.__version__[:3].encode())


@pytest.mark.parametrize(
    "change, reason",
    [
        (lambda data: b"", "is not a network of tvmrt, or it is damaged"),
        (lambda data: data[40:], "is not a network of tvmrt, or it is damaged"),
        (lambda data: data[:-1], "its contents do not have its hash"),
        (lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:], "do not have its hash"),
        (lambda data: data + b"more", "its contents do not have its hash"),
        (
            lambda data: _with_line(data.partition(b"\n")[2], b"99"),
            rf"is for tvmrt 99, and this is {tvmrt.__version__}; compile it again, or install",
        ),
        (_of_another_family, "has code for rv64, and the kernels of this processor are"),
    ],
    ids=["empty", "begun late", "cut", "changed", "longer", "version", "family"],
)
def test_other_files_are_refused(written, tmp_path, change, reason):
    file = tmp_path / "net.tvmrt"
    file.write_bytes(change(written[1].read_bytes()))
    for read in (tvmrt.load, tvmrt.runtime.load_module):
        with pytest.raises(ValueError, match=reason):
            read(file)


def test_a_processor_without_kernels_is_refused(written, monkeypatch):
    monkeypatch.setattr(pack.processor, "flags", lambda: frozenset({"sse2"}))
    pack.find_pack.cache_clear()
    try:
        with pytest.raises(CompileError, match="no kernels for this processor"):
            tvmrt.load(written[1])
    finally:
        monkeypatch.undo()
        pack.find_pack.cache_clear()


@pytest.mark.parametrize(
    "options, reason",
    [
        ({}, "calls the kernel pack; choose target="),
        ({"target": "kernel-pack", "params": "file"}, "has its weights; choose params="),
        ({"board": "stm32f4"}, "is for hosts; choose a folder of sources"),
    ],
)
def test_networks_that_it_cannot_hold(tmp_path, options, reason):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xy"]
    weights = [numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")]
    model = helper.make_model(helper.make_graph(nodes, "g", ends[:1], ends[1:], weights))
    with pytest.raises(ValueError, match=reason):
        tvmrt.compile(model, **options).export(tmp_path / "net.tvmrt")
    assert not list(tmp_path.iterdir())


def test_what_the_pack_cannot_build_is_an_error_when_it_is_compiled(written, tmp_path):
    broken = tmp_path / "net.tvmrt"
    text = _tvmrt("compile", written[0], "-o", broken, "--abi", "tvm-ffi", code=2)
    assert "kernel pack cannot build" in text and "write a .so file" in text
    assert not broken.exists()
    assert "is a compiled network" in _tvmrt("compile", written[1], "-o", broken, code=2)

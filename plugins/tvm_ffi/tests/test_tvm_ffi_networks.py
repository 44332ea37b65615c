"""Test networks compiled for tvm-ffi: functions of tensors, in a process without tvmrt's
runtime."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt.error import UnsupportedError

tvm_ffi = pytest.importorskip("tvm_ffi", reason="apache-tvm-ffi is not installed")


def network() -> onnx.ModelProto:
    """Return a model with two results of two inputs, one of them bool, with dynamic rows."""
    rng = np.random.default_rng(3)
    weight = rng.standard_normal((24, 40)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Where", ["mask", "m", "zero"], ["picked"]),
        helper.make_node("Softmax", ["picked"], ["y"], axis=-1),
        helper.make_node("Greater", ["m", "zero"], ["positive"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 24]),
            helper.make_tensor_value_info("mask", TensorProto.BOOL, ["n", 40]),
        ],
        [
            helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 40]),
            helper.make_tensor_value_info("positive", TensorProto.BOOL, ["n", 40]),
        ],
        [
            onnx.numpy_helper.from_array(weight, "w"),
            onnx.numpy_helper.from_array(np.float32(0), "zero"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return libraries for 5 rows and for 1 to 8, inputs of 5 rows, and onnxruntime's results."""
    folder = tmp_path_factory.mktemp("net")
    model = network()
    rng = np.random.default_rng(4)
    inputs = {
        "x": rng.standard_normal((5, 24)).astype(np.float32),
        "mask": rng.random((5, 40)) < 0.5,
    }
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    y, positive = session.run(None, inputs)
    paths = {}
    for name, dims in {"fixed": {"n": (5, 5)}, "sized": {"n": 8}}.items():
        paths[name] = folder / f"{name}.so"
        shapes = {"x": [5, 24], "mask": [5, 40]} if name == "fixed" else None
        tvmrt.compile(
            model, abi="tvm-ffi", shapes=shapes, dims=dims if shapes is None else None
        ).export_library(paths[name])
    np.savez(folder / "case.npz", y=y, positive=positive, **inputs)
    return paths, folder / "case.npz"


def test_network_is_a_function_without_the_runtime(built):
    """Only tvm_ffi and numpy are imported."""
    paths, case = built
    script = """
        import os
        import sys
        import numpy as np
        import tvm_ffi

        case = np.load(sys.argv[1])
        for path in sys.argv[2:]:
            module = tvm_ffi.load_module(path)
            for run in (module.default, module.main):
                y, positive = np.empty((5, 40), np.float32), np.empty((5, 40), bool)
                run(case["x"], case["mask"], y, positive)
                np.testing.assert_allclose(y, case["y"], rtol=1e-5, atol=1e-6)
                assert (positive == case["positive"]).all()
        y, positive = np.empty((3, 40), np.float32), np.empty((3, 40), bool)
        module.main(case["x"][:3].copy(), case["mask"][:3].copy(), y, positive)
        np.testing.assert_allclose(y, case["y"][:3], rtol=1e-5, atol=1e-6)
        opened = {os.path.basename(line.rstrip()) for line in open("/proc/self/maps")}
        assert not [name for name in opened if name.startswith("libtvm_runtime")]
        print("right")
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(case), *map(str, paths.values())]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout == "right\n"


def test_the_packed_network_is_there_as_ever(built):
    paths, case = built
    with np.load(case) as data:
        module = tvmrt.runtime.load_module(str(paths["fixed"]))
        run = tvmrt.runtime.executor.AotModule(module["default"](tvmrt.cpu()))
        run.set_input("x", data["x"])
        run.set_input("mask", data["mask"])
        run.run()
        np.testing.assert_allclose(run.get_output(0).numpy(), data["y"], rtol=1e-5, atol=1e-6)


def _arguments(case, rows=5):
    with np.load(case) as data:
        inputs = [data["x"][:rows].copy(), data["mask"][:rows].copy()]
    return [*inputs, np.empty((rows, 40), np.float32), np.empty((rows, 40), bool)]


def _strided(array):
    return np.repeat(array, 2, axis=1)[:, ::2]


REFUSED = {
    "count": ("fixed", lambda a: a[:3], TypeError, "expected 4 tensors .2 inputs, 2 outputs"),
    "kind": (
        "fixed",
        lambda a: [*a[:3], 7],
        TypeError,
        "argument 3, output 'positive', is not a t",
    ),
    "type": (
        "fixed",
        lambda a: [a[0].astype(np.float64), *a[1:]],
        TypeError,
        "input 'x', has DLPack",
    ),
    "shape": ("fixed", lambda a: [a[0][:4].copy(), *a[1:]], ValueError, r"\[4, 24\], expected \[5"),
    "rank": (
        "sized",
        lambda a: [a[0][0].copy(), *a[1:]],
        ValueError,
        r"\[24\], expected \[any, 24",
    ),
    "strided": ("fixed", lambda a: [_strided(a[0]), *a[1:]], ValueError, "'x', is not contiguous"),
    "many": ("sized", lambda a: [np.zeros((9, 24), np.float32), *a[1:]], ValueError, "has 9 elem"),
    "small": ("sized", lambda a: [*a[:2], a[2][:2].copy(), a[3]], ValueError, "output 'y': axis 0"),
    "large": (
        "sized",
        lambda a: [*a[:2], np.empty((6, 40), np.float32), a[3]],
        ValueError,
        r"output 'y', has the shape \[6, 40\], expected \[5, 40\]",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_values_are_tvm_ffi_errors(built, name):
    paths, case = built
    which, change, error, text = REFUSED[name]
    run = tvm_ffi.load_module(str(paths[which])).main
    with pytest.raises(error, match=text):
        run(
            *[
                tvm_ffi.from_dlpack(a) if hasattr(a, "shape") else a
                for a in change(_arguments(case))
            ]
        )


def test_incompatible_options_are_refused():
    with pytest.raises(ValueError, match='choose executor="aot", runtime="host"'):
        tvmrt.compile(network(), abi="tvm-ffi", executor="graph")
    nonzero = helper.make_graph(
        [helper.make_node("NonZero", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [1, "k"])],
    )
    model = helper.make_model(nonzero, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(UnsupportedError, match=r"the size of output y .* choose abi packed"):
        tvmrt.compile(model, abi="tvm-ffi")


def test_torch_calls_it(built):
    torch = pytest.importorskip("torch")
    paths, case = built
    x, mask, y, positive = map(torch.from_numpy, _arguments(case))
    tvm_ffi.load_module(str(paths["sized"])).main(x, mask, y, positive)
    with np.load(case) as data:
        np.testing.assert_allclose(y.numpy(), data["y"], rtol=1e-5, atol=1e-6)


def test_jax_calls_it(built):
    jax = pytest.importorskip("jax", reason="jax is not installed")
    jax_tvm_ffi = pytest.importorskip("jax_tvm_ffi", reason="jax-tvm-ffi is not installed")
    paths, case = built
    x, mask, y, positive = _arguments(case)
    main = tvm_ffi.load_module(str(paths["sized"])).get_function("main")
    jax_tvm_ffi.register_ffi_target("sized", main, arg_spec=["args", "rets"], platform="cpu")

    def call(*shapes):
        results = [jax.ShapeDtypeStruct(s, r.dtype) for s, r in zip(shapes, (y, positive))]
        return jax.jit(jax.ffi.ffi_call("sized", results))(x, mask)

    with np.load(case) as data:
        got, marks = call(y.shape, positive.shape)
        np.testing.assert_allclose(got, data["y"], rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(marks, data["positive"])
    with pytest.raises(RuntimeError, match="output 'y', has the shape"):
        call((*y.shape, 1), positive.shape)[0].block_until_ready()

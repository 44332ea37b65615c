"""Test networks compiled for tvm-ffi: functions of tensors, in a process without tvmrt's
runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from bridge_case import run_alone, tvm_ffi

import tvmrt
from tvmrt.error import UnsupportedError


def network(text: str, **constants: np.ndarray) -> onnx.ModelProto:
    """Return a model in ONNX's text format, with these initializers."""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> net {text}')
    for name, value in constants.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
    return model


# Two results of two inputs, one of them bool, with dynamic rows.
NETWORK = """(float[n, 24] x, bool[n, 40] mask) => (float[n, 40] y, bool[n, 40] positive) {
    m = MatMul(x, w)
    picked = Where(mask, m, zero)
    y = Softmax<axis = -1>(picked)
    positive = Greater(m, zero)
}"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return libraries for 5 rows and for 1 to 8, inputs of 5 rows, and onnxruntime's results."""
    folder = tmp_path_factory.mktemp("net")
    rng = np.random.default_rng(4)
    weight = rng.standard_normal((24, 40)).astype(np.float32)
    model = network(NETWORK, w=weight, zero=np.float32(0))
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
    assert run_alone(script, case, *paths.values()) == "right\n"


def test_packed_network_runs_without_tvm_ffi(built):
    paths, case = built
    script = """
        import sys
        import numpy as np
        import tvmrt

        case = np.load(sys.argv[1])
        module = tvmrt.runtime.load_module(sys.argv[2])
        run = tvmrt.runtime.executor.AotModule(module["default"](tvmrt.cpu()))
        run.set_input("x", case["x"])
        run.set_input("mask", case["mask"])
        run.run()
        np.testing.assert_allclose(run.get_output(0).numpy(), case["y"], rtol=1e-5, atol=1e-6)
        print("right")
    """
    assert run_alone(script, case, paths["fixed"]) == "right\n"


def _arguments(case, rows=5):
    with np.load(case) as data:
        inputs = [data["x"][:rows].copy(), data["mask"][:rows].copy()]
    return [*inputs, np.empty((rows, 40), np.float32), np.empty((rows, 40), bool)]


def _with(arguments, first):
    return [first, *arguments[1:]]


def _strided(array):
    return np.repeat(array, 2, axis=1)[:, ::2]


# The library, the changed arguments, the error.
REFUSED = {
    "count": ("fixed", lambda a: a[:3], TypeError, "expected 4 tensors .2 inputs, 2 outputs"),
    "kind": ("fixed", lambda a: [*a[:3], 7], TypeError, "argument 3, output 'positive', is not a"),
    "type": ("fixed", lambda a: _with(a, a[0].astype(float)), TypeError, "input 'x', has DLPack"),
    "shape": ("fixed", lambda a: _with(a, a[0][:4]), ValueError, r"\[4, 24\], expected \[5"),
    "rank": ("sized", lambda a: _with(a, a[0][0]), ValueError, r"\[24\], expected \[any, 24"),
    "strided": ("fixed", lambda a: _with(a, _strided(a[0])), ValueError, "is not contiguous"),
    "many": ("sized", lambda a: _with(a, np.zeros((9, 24), "f4")), ValueError, "has 9 elem"),
    "small": ("sized", lambda a: [*a[:2], a[2][:2], a[3]], ValueError, "output 'y': axis 0"),
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
    nonzero = network("(float[4] x) => (int64[1, k] y) { y = NonZero(x) }")
    with pytest.raises(ValueError, match='choose executor="aot", runtime="host"'):
        tvmrt.compile(nonzero, abi="tvm-ffi", executor="graph")
    with pytest.raises(UnsupportedError, match=r"the size of output y .* choose abi packed"):
        tvmrt.compile(nonzero, abi="tvm-ffi")


def test_torch_calls_it(built):
    torch = pytest.importorskip("torch")
    paths, case = built
    x, mask, y, positive = map(torch.from_numpy, _arguments(case))
    tvm_ffi.load_module(str(paths["sized"])).main(x, mask, y, positive)
    with np.load(case) as data:
        np.testing.assert_allclose(y.numpy(), data["y"], rtol=1e-5, atol=1e-6)

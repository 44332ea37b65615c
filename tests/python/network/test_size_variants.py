"""Calls with sizes outside of a network's bounds, compared with onnxruntime by each entrance."""

from __future__ import annotations

import asyncio
import os
import pickle
import subprocess
import sys
import threading
import warnings

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import parser

import tvmrt
from tvmrt.error import TvmrtWarning

pytestmark = pytest.mark.filterwarnings("ignore::tvmrt.error.TvmrtWarning")

HEAD = '<ir_version: 9, opset_import: ["" : 18]>\n'
# Networks whose rows depend on each other or on their number; ROWS is the name of the dimension.
MIXED = {
    "Softmax": "g (float[ROWS,4] x) => (float[ROWS,4] y) { y = Softmax<axis=0>(x) }",
    "Slice reversed": """g (float[ROWS,4] x) => (float[ROWS,4] y) {
        s = Constant<value_ints=[-1]>() e = Constant<value_ints=[-2147483648]>()
        a = Constant<value_ints=[0]>() y = Slice(x, s, e, a, s) }""",
    "roll": """g (float[ROWS,4] x) => (float[ROWS,4] y) {
        z = Constant<value_ints=[0]>() o = Constant<value_ints=[1]>()
        e = Constant<value_ints=[2147483647]>()
        p = Slice(x, o, e, z) q = Slice(x, z, o, z) y = Concat<axis=0>(p, q) }""",
    "CumSum": """g (float[ROWS,4] x) => (float[ROWS,4] y) {
        a = Constant<value_int=0>() y = CumSum(x, a) }""",
    "Range": """g (float[ROWS,4] x) => (float[ROWS,4] y) {
        s = Shape(x) z = Constant<value_int=0>() n = Gather(s, z) o = Constant<value_int=1>()
        r = Range(z, n, o) f = Cast<to=1>(r) a = Constant<value_ints=[1]>()
        u = Unsqueeze(f, a) y = Add(x, u) }""",
    "EyeLike": "g (float[ROWS,4] x) => (float[ROWS,4] y) { e = EyeLike(x) y = Add(x, e) }",
    "Trilu": "g (float[ROWS,4] x) => (float[ROWS,4] y) { y = Trilu(x) }",
    "Size": """g (float[ROWS,4] x) => (float[ROWS,4] y) {
        s = Size(x) f = Cast<to=1>(s) y = Div(x, f) }""",
    "Pad": """g (float[ROWS,4] x) => (float[padded,4] y) {
        p = Constant<value_ints=[1,0,2,0]>() y = Pad(x, p) }""",
    "Reshape": """g (float[ROWS,4] x) => (float[a,b] y) {
        s = Constant<value_ints=[4,-1]>() r = Reshape(x, s) y = Transpose(r) }""",
    "LpNormalization": """g (float[ROWS,4] x) => (float[ROWS,4] y) {
        y = LpNormalization<axis=0>(x) }""",
    "MeanVarianceNormalization": """g (float[ROWS,4] x) => (float[ROWS,4] y) {
        y = MeanVarianceNormalization<axes=[0,1]>(x) }""",
    "InstanceNormalization": """g (float[ROWS,4] x) => (float[ROWS,4] y) {
        t = Transpose(x) a = Constant<value_ints=[0]>() u = Unsqueeze(t, a)
        s = Constant<value_floats=[1.0,2.0,3.0,4.0]>() i = InstanceNormalization(u, s, s)
        v = Squeeze(i, a) y = Transpose(v) }""",
    "ReverseSequence": """g (float[ROWS,4] x) => (float[ROWS,4] y) {
        s = Shape(x) i = Constant<value_int=0>() n = Gather(s, i)
        c = Constant<value_ints=[4]>() l = Expand(n, c)
        y = ReverseSequence<time_axis=0, batch_axis=1>(x, l) }""",
    "DynamicQuantizeLinear": """g (float[ROWS,4] x) => (uint8[ROWS,4] y, float s, uint8 z) {
        y, s, z = DynamicQuantizeLinear(x) }""",
    "Gram matrix": """g (float[ROWS,4] x) => (float[ROWS,ROWS] y) {
        t = Transpose(x) y = MatMul(x, t) }""",
    "Loop": """g (float[ROWS,4] x) => (float[4] y) {
        s = Shape(x) i = Constant<value_int=0>() n = Gather(s, i)
        c = Constant<value: tensor = bool {1}>() z = Constant<value_floats=[0.0,0.0,0.0,0.0]>()
        y = Loop(n, c, z)<body = b (int64 k, bool p, float[4] v) => (bool q, float[4] w) {
            q = Identity(p) r = Gather(x, k) h = Constant<value_float=0.5>()
            m = Mul(v, h) w = Add(m, r) }> }""",
    "Scan": """g (float[ROWS,4] x) => (float[ROWS,4] y) {
        z = Constant<value_floats=[0.0,0.0,0.0,0.0]>()
        f, y = Scan<num_scan_inputs=1, body = b (float[4] v, float[4] r)
            => (float[4] w, float[4] o) { w = Add(v, r) o = Identity(w) }>(z, x) }""",
    "Col2Im": """g (float[ROWS,5,5] x) => (float[a,b,c,d] y) {
        i = Constant<value_ints=[5,5]>() k = Constant<value_ints=[1,5]>() y = Col2Im(x, i, k) }""",
    "sum of rows": """g (float[ROWS,4] x, float[ROWS,3] z) => (float[4,3] y) {
        t = Transpose(x) y = MatMul(t, z) }""",
}  # fmt: skip
NAMES = ["N", "n", "b", "bs", "rows", "batch_size", "points", "anything", "Batch"]
CASES = [
    pytest.param(text, NAMES[i % len(NAMES)], id=f"{kind}-{NAMES[i % len(NAMES)]}")
    for i, (kind, text) in enumerate(MIXED.items())
]


def model_of(text: str, name: str) -> onnx.ModelProto:
    return parser.parse_model(HEAD + text.replace("ROWS", name))


SOFTMAX = model_of(MIXED["Softmax"], "batch")
RELU = model_of("g (float[ROWS,4] x) => (float[ROWS,4] y) { y = Relu(x) }", "N")


def inputs_of(model: onnx.ModelProto, rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    shapes = {
        i.name: [d.dim_value or rows for d in i.type.tensor_type.shape.dim]
        for i in model.graph.input
    }
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def right(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)


def check(network, model: onnx.ModelProto, rows: int) -> None:
    inputs = inputs_of(model, rows)
    found = network(inputs)
    for output, wanted in zip(model.graph.output, right(model, inputs)):
        assert found[output.name].shape == wanted.shape
        np.testing.assert_allclose(found[output.name], wanted, 1e-4, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("text, name", CASES)
def test_mixed_rows_beyond_inferred_bounds_are_right(text, name):
    model = model_of(text, name)
    network = tvmrt.load(model, cache=False)
    for rows in (network.dims[name][1] + 3, 700, 5, 0 if "Instance" not in text else 1):
        if not rows and "Scan" in text:
            continue  # onnxruntime refuses it
        check(network, model, rows)


@pytest.mark.slow
@pytest.mark.parametrize("text, name", CASES)
def test_mixed_rows_beyond_compiled_bounds_are_an_error(text, name, tmp_path):
    model = model_of(text, name)
    library = tvmrt.compile(model, dims={name: (1, 8)})
    library.export_library(tmp_path / "net.so")
    networks = [
        tvmrt.load(tmp_path / "net.so"),
        tvmrt.load(library),
        tvmrt.load(model, dims={name: (1, 8)}, cache=False),
    ]
    for network in networks:
        check(network, model, 8)
        for rows in (9, 20, 513):
            with pytest.raises(ValueError, match=f"axis 0, dimension {name} has {rows} elements"):
                network(inputs_of(model, rows))


def test_rows_beyond_inferred_bounds_are_right_and_compiled_once(tmp_path):
    network = tvmrt.load(SOFTMAX, cache=tmp_path)
    with pytest.warns(TvmrtWarning, match=r'compiled again, for dims=\{"batch": \(1, 1024\)\}'):
        check(network, SOFTMAX, 600)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for rows in (1000, 3, 600, 1024):
            check(network, SOFTMAX, rows)
    assert len(network.variants.networks) == 1
    assert network.dims == {"batch": (1, 512)}


def test_no_rows_are_right_within_a_variant(tmp_path):
    network = tvmrt.load(RELU, cache=tmp_path)
    assert network(np.zeros((0, 4), np.float32)).shape == (0, 4)


REFUSED = {
    "declared": lambda model, folder: tvmrt.load(model, dims={"N": (1, 8)}, cache=False),
    "shapes": lambda model, folder: tvmrt.load(model, shapes={"x": ("N<=8", 4)}, cache=False),
    "library": lambda model, folder: tvmrt.load(tvmrt.compile(model)),
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(tvmrt.load(model, cache=False))),
    "file": lambda model, folder: tvmrt.load(
        tvmrt.compile(model).export_library(folder / "net.so") or folder / "net.so"
    ),
}


@pytest.mark.parametrize("entrance", REFUSED)
@pytest.mark.parametrize("rows", [9, 0])
def test_declared_or_compiled_bounds_are_kept(entrance, rows, tmp_path):
    network = REFUSED[entrance](RELU, tmp_path)
    with pytest.raises(ValueError) as failure:
        network(np.zeros((rows, 4), np.float32))
    text = str(failure.value)
    assert f"input x is float32 of N x 4: axis 0, dimension N has {rows} elements" in text
    assert "expected 1 to 8" in text
    assert f'load or compile it with dims={{"N": ({min(rows, 1)}, {max(rows, 8)})}}' in text


@pytest.mark.parametrize("rows", [0, 4])
def test_a_fixed_batch_is_not_split(rows):
    model = model_of("g (float[1,4] x) => (float[1,4] y) { y = Softmax<axis=1>(x) }", "")
    network = tvmrt.load(model, cache=False)
    option = r'"N<=4"' if rows else r'"N=0..1"'
    with pytest.raises(ValueError, match=rf"shape \({rows}, 4\) does not .*\({option}, 4\)"):
        network(np.zeros((rows, 4), np.float32))


def test_a_dimension_with_two_sizes_is_an_error(tmp_path):
    network = tvmrt.load(model_of(MIXED["sum of rows"], "N"), cache=tmp_path)
    with pytest.raises(ValueError, match="dimension N"):
        network(np.zeros((600, 4), np.float32), np.zeros((601, 3), np.float32))
    assert not network.variants.networks


def test_declared_dimensions_stay_while_others_widen(tmp_path):
    model = model_of("g (float[N,M,2] x) => (float[N,M,2] y) { y = Neg(x) }", "")
    network = tvmrt.load(model, dims={"M": (1, 3)}, cache=tmp_path)
    assert network(np.ones((20, 3, 2), np.float32)).shape == (20, 3, 2)
    with pytest.raises(ValueError, match="dimension M has 4 elements, expected 1 to 3"):
        network(np.ones((20, 4, 2), np.float32))


def test_sizes_that_only_one_variant_fits_are_compiled_for_it(tmp_path):
    """The total stride is 4, so tvmrt first compiles multiples of 4."""
    model = model_of(
        """g (float[1,1,H,W] x) => (float[1,a,b,c] y) {
            y = MaxPool<kernel_shape=[4,4], strides=[4,4]>(x) }""",
        "",
    )
    network = tvmrt.load(model, cache=tmp_path)
    for size in (1000, 1003, 3 + 4):
        x = {"x": np.random.default_rng(size).standard_normal((1, 1, size, 8)).astype(np.float32)}
        np.testing.assert_array_equal(network(x)["y"], right(model, x)[0])


def test_concurrent_calls_share_one_compilation(tmp_path):
    network = tvmrt.load(SOFTMAX, cache=False)
    inputs = inputs_of(SOFTMAX, 600)
    (wanted,) = right(SOFTMAX, inputs)
    found: list[np.ndarray] = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        threads = [
            threading.Thread(target=lambda: found.append(network(**inputs))) for _ in "12345"
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        found.append(asyncio.run(network.acall(**inputs)))
    assert sum("compiled again" in str(each.message) for each in seen) == 1
    assert len(found) == 6
    for each in found:
        np.testing.assert_allclose(each, wanted, 1e-4, 1e-6)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_compiles_although_a_thread_of_the_parent_does(tmp_path):
    code = """if True:
        import os, sys, warnings, numpy as np, tvmrt
        warnings.simplefilter("ignore")
        network = tvmrt.load(sys.argv[1], cache=sys.argv[2])
        network.variants._lock.acquire()  # as a thread that compiles
        if os.fork() == 0:
            assert network(np.ones((600, 4), np.float32)).shape == (600, 4)
            os._exit(7)
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    onnx.save(SOFTMAX, tmp_path / "net.onnx")
    command = [sys.executable, "-c", code, tmp_path / "net.onnx", tmp_path / "cache"]
    assert subprocess.run(command, timeout=100, check=False).returncode == 7


def test_a_file_that_has_changed_is_not_mixed_with_the_loaded_network(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(RELU, path)
    network = tvmrt.load(path, cache=False)
    onnx.save(SOFTMAX, path)
    with pytest.raises(ValueError, match=r"net\.onnx has changed since it was loaded"):
        network(np.ones((20, 4), np.float32))
    onnx.save(RELU, path)
    assert (network(np.ones((20, 4), np.float32)) == 1).all()


def test_threads_and_the_kept_executors_hold_for_variants(tmp_path):
    network = tvmrt.load(SOFTMAX, cache=tmp_path, threads=1)
    network.max_idle = 5
    check(network, SOFTMAX, 600)
    (variant,) = network.variants.networks
    assert variant._loaded.threads == 1
    assert variant.max_idle == 5


def test_a_failure_is_remembered(tmp_path):
    """The table has 9 rows, so no variant takes 10."""
    table = "t = Constant<value: tensor = float[9,1] {1,2,3,4,5,6,7,8,9}>()"
    model = model_of(f"g (float[ROWS,4] x) => (float[ROWS,4] y) {{ {table} y = Add(x, t) }}", "b")
    network = tvmrt.load(model, cache=tmp_path)
    assert network(np.ones((9, 4), np.float32)).shape == (9, 4)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"x is float32 of .*does not compile for this size: "):
            network(np.ones((10, 4), np.float32))


def test_a_burst_of_calls_keeps_few_executors(tmp_path):
    network = tvmrt.load(RELU, dims={"N": 4}, cache=tmp_path)
    together = threading.Barrier(12)
    original = network.new_executor

    def call() -> None:
        together.wait()
        for _ in range(50):
            network(np.ones((2, 4), np.float32))

    for count in (3, 0):
        network.max_idle = count
        threads = [threading.Thread(target=call) for _ in range(12)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(network._idle) <= count
    assert original() is not None
    with pytest.raises(ValueError, match="max_idle: give a number"):
        network.max_idle = -1

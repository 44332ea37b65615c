"""Calls of networks whose file leaves sizes open, compared with onnxruntime."""

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
from tvmrt.error import SizeConditionError

pytestmark = pytest.mark.filterwarnings("error::tvmrt.error.TvmrtWarning")

HEAD = '<ir_version: 9, opset_import: ["" : 18]>\n'
# Networks whose rows depend on each other or on their number; ROWS is the name of the dimension.
MIXED = {
    "Softmax": "g (float[ROWS,4] x) => (float[ROWS,4] y) { y = Softmax<axis=0>(x) }",
    "Slice reversed": """g (float[ROWS,4] x) => (float[ROWS,4] y) {
        s = Constant<value_ints=[-1]>() e = Constant<value_ints=[-2147483648]>()
        a = Constant<value_ints=[0]>() y = Slice(x, s, e, a, s) }""",
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
    "MeanVarianceNormalization": """g (float[ROWS,4] x) => (float[ROWS,4] y) {
        y = MeanVarianceNormalization<axes=[0,1]>(x) }""",
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
    "sum of rows": """g (float[ROWS,4] x, float[ROWS,3] z) => (float[4,3] y) {
        t = Transpose(x) y = MatMul(t, z) }""",
}  # fmt: skip
NAMES = ["N", "n", "b", "rows", "batch_size", "anything"]
CASES = [
    pytest.param(text, NAMES[i % len(NAMES)], id=f"{kind}-{NAMES[i % len(NAMES)]}")
    for i, (kind, text) in enumerate(MIXED.items())
]


def model_of(text: str, name: str = "N") -> onnx.ModelProto:
    return parser.parse_model(HEAD + text.replace("ROWS", name))


SOFTMAX = model_of(MIXED["Softmax"], "batch")
RELU = model_of("g (float[ROWS,4] x) => (float[ROWS,4] y) { y = Relu(x) }")
IMAGE = model_of(
    """g (float[N,1,H,W] x) => (float[N,1,a,b] y) {
        p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) q = GlobalAveragePool(p)
        y = Sub(p, q) }"""
)
# The elements of a row and of a column together are a multiple of 30.
PARTS = model_of(
    """g (float[N,W] x) => (float[k,30] y) {
        s = Constant<value_ints=[-1,30]>() r = Reshape(x, s) y = Softmax<axis=0>(r) }"""
)
# The cache is empty in the first call.
CACHE = model_of(
    """g (float[1,past,4] c, float[1,seq,4] x) => (float[1,total,4] all, float[1,seq,4] y) {
        all = Concat<axis=1>(c, x) a = Constant<value_ints=[1]>()
        s = ReduceSum<keepdims=1>(all, a) y = Add(x, s) }"""
)
# The compiler assumes that both inputs are equally wide; one may also be 3 wide.
WINDOWS = model_of(
    """g (float[1,1,H,W] x, float[1,1,H,V] z) => (float[1,1,a,b] y) {
        p = AveragePool<kernel_shape=[3,3]>(x) q = MaxPool<kernel_shape=[3,3]>(z) y = Add(p, q) }"""
)
PAIRS = model_of(
    """g (float[N,3] x) => (float[pairs,6] y) {
        s = Constant<value_ints=[-1,6]>() r = Reshape(x, s) y = Softmax<axis=0>(r) }"""
)


def arrays(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.standard_normal(s).astype(np.float32) for name, s in shapes.items()}


def rows_of(model: onnx.ModelProto, rows: int) -> dict[str, np.ndarray]:
    shapes = {
        i.name: tuple(d.dim_value or rows for d in i.type.tensor_type.shape.dim)
        for i in model.graph.input
    }
    return arrays(**shapes)


def check(network, model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> None:
    found = network(inputs)
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)
    for output, value in zip(model.graph.output, wanted):
        assert found[output.name].shape == value.shape
        np.testing.assert_allclose(found[output.name], value, 1e-4, 1e-4)


def test_any_size_is_right_without_a_variant():
    network = tvmrt.load(IMAGE, cache=False)
    assert {name: high for name, (_, high) in network.dims.items()}.popitem()[1] is None
    for shape in [(1, 1, 8, 8), (3, 1, 2, 31), (2, 1, 640, 480), (1, 1, 2000, 3000)]:
        check(network, IMAGE, arrays(x=shape))
    assert not network.variants.networks


@pytest.mark.slow
@pytest.mark.parametrize("text, name", CASES)
def test_networks_that_mix_rows_are_right_at_any_number(text, name):
    model = model_of(text, name)
    network = tvmrt.load(model, cache=False)
    assert network.dims == {name: (1, None)}
    for rows in (3, 700, 1, 5, 20_000 if "ROWS,ROWS" not in text else 1100):
        check(network, model, rows_of(model, rows))
    assert not network.variants.networks


@pytest.mark.slow
@pytest.mark.parametrize("text, name", CASES)
def test_numbers_of_rows_beyond_declared_bounds_are_an_error(text, name, tmp_path):
    model = model_of(text, name)
    library = tvmrt.compile(model, dims={name: (1, 8)})
    library.export_library(tmp_path / "net.so")
    networks = [
        tvmrt.load(tmp_path / "net.so"),
        tvmrt.load(library),
        tvmrt.load(model, dims={name: (1, 8)}, cache=False),
    ]
    for network in networks:
        check(network, model, rows_of(model, 8))
        for rows in (9, 20, 513):
            with pytest.raises(ValueError, match=f"axis 0, dimension {name} has {rows} elements"):
                network(rows_of(model, rows))


def test_the_description_has_no_maximum():
    network = tvmrt.load(SOFTMAX, cache=False)
    assert network.dims == {"batch": (1, None)}
    assert "  batch >= 1\n  memory is planned in each run, 0 B of weights" in repr(network)
    assert network.example_inputs()["x"].shape == (32, 4)
    assert network.memory.planned_in_runs
    assert "2147483647" not in network._repr_html_()
    assert network.benchmark(seconds=0.01).calls >= 5
    assert network.profile().calls


def test_an_empty_cache_needs_no_variant(tmp_path):
    network = tvmrt.load(CACHE, cache=tmp_path)
    for past, new in [(0, 5), (5, 1), (0, 3), (0, 700), (700, 1)]:
        check(network, CACHE, arrays(c=(1, past, 4), x=(1, new, 4)))
    assert network.variants.networks == ()
    assert network.dims == {"past": (0, None), "seq": (0, None)}


def test_no_rows_are_right(tmp_path):
    network = tvmrt.load(RELU, cache=tmp_path)
    assert network(np.zeros((0, 4), np.float32)).shape == (0, 4)


def test_a_condition_of_a_run(tmp_path):
    network = tvmrt.load(PARTS, cache=tmp_path)
    for shape in [(1, 30), (4, 15), (7, 60), (300, 400)]:
        check(network, PARTS, arrays(x=shape))
    for _ in range(2):
        with pytest.raises(ValueError) as failure:
            network(**arrays(x=(2, 7)))
        text = str(failure.value)
        assert "the run has [2, 7]" in text
        assert "(N * W) is a multiple of 30" in text
        assert "axis 0 (N) is 2, axis 1 (W) is 7 of input x" in text
        assert "does not compile for these sizes: node Reshape_r (Reshape)" in text
    check(network, PARTS, arrays(x=(2, 15)))


COMPILED = {
    "library": lambda model, folder: tvmrt.load(tvmrt.compile(model)),
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(tvmrt.load(model, cache=False))),
    "file": lambda model, folder: tvmrt.load(
        tvmrt.compile(model).export_library(folder / "net.so") or folder / "net.so"
    ),
}


@pytest.mark.parametrize("entrance", COMPILED)
def test_compiled_networks_take_any_size_and_compile_no_variant(entrance, tmp_path):
    network = COMPILED[entrance](PARTS, tmp_path)
    check(network, PARTS, arrays(x=(90, 1000)))
    with pytest.raises(SizeConditionError, match=r"multiple of 30; axis 0 \(N\) is 2, axis 1"):
        network(**arrays(x=(2, 7)))
    with pytest.raises(ValueError) as failure:
        network(**arrays(x=(0, 30)))
    text = str(failure.value)
    assert "input x is float32 of N x W: axis 0, dimension N has 0 elements" in text
    assert 'expected 1 or more; load or compile it with dims={"N": (0, 1024)}' in text


REFUSED = {
    "declared": lambda model: tvmrt.load(model, dims={"N": (1, 8)}, cache=False),
    "shapes": lambda model: tvmrt.load(model, shapes={"x": ("N<=8", 4)}, cache=False),
}


@pytest.mark.parametrize("entrance", REFUSED)
@pytest.mark.parametrize("rows", [9, 0])
def test_declared_bounds_are_kept(entrance, rows):
    network = REFUSED[entrance](RELU)
    assert network.dims == {"N": (1, 8)}
    with pytest.raises(ValueError) as failure:
        network(np.zeros((rows, 4), np.float32))
    text = str(failure.value)
    assert f"input x is float32 of N x 4: axis 0, dimension N has {rows} elements" in text
    assert "expected 1 to 8" in text
    assert f'load or compile it with dims={{"N": ({min(rows, 1)}, {max(rows, 8)})}}' in text


def test_declared_dimensions_stay_while_others_are_open(tmp_path):
    model = model_of("g (float[N,M,2] x) => (float[N,M,2] y) { y = Neg(x) }")
    network = tvmrt.load(model, dims={"M": (1, 3)}, cache=tmp_path)
    assert network.dims == {"N": (1, None), "M": (1, 3)}
    assert network(np.ones((20, 3, 2), np.float32)).shape == (20, 3, 2)
    assert network(np.ones((0, 3, 2), np.float32)).shape == (0, 3, 2)
    for rows in (0, 20):
        with pytest.raises(ValueError, match="dimension M has 4 elements, expected 1 to 3"):
            network(np.ones((rows, 4, 2), np.float32))


@pytest.mark.parametrize("rows", [0, 4])
def test_a_fixed_batch_is_not_split(rows):
    model = model_of("g (float[1,4] x) => (float[1,4] y) { y = Softmax<axis=1>(x) }")
    network = tvmrt.load(model, cache=False)
    option = r'"N<=4"' if rows else r'"N=0..1"'
    with pytest.raises(ValueError, match=rf"shape \({rows}, 4\) does not .*\({option}, 4\)"):
        network(np.zeros((rows, 4), np.float32))


def test_a_dimension_with_two_sizes_is_an_error(tmp_path):
    network = tvmrt.load(model_of(MIXED["sum of rows"]), cache=tmp_path)
    with pytest.raises(ValueError, match="dimension N"):
        network(np.zeros((600, 4), np.float32), np.zeros((601, 3), np.float32))
    assert not network.variants.networks


def test_sizes_that_the_network_excludes_get_a_variant(tmp_path):
    network = tvmrt.load(WINDOWS, cache=tmp_path)
    for height, width, other in [(5, 9, 9), (40, 700, 700), (5, 9, 3), (5, 3, 9), (5, 9, 3)]:
        shapes = {"x": (1, 1, height, width), "z": (1, 1, height, other)}
        check(network, WINDOWS, arrays(**shapes))
    assert len(network.variants.networks) == 2
    with pytest.raises(ValueError, match="does not compile for these sizes: node AveragePool_p"):
        network(**arrays(x=(1, 1, 1, 9), z=(1, 1, 1, 9)))
    check(network, WINDOWS, arrays(x=(1, 1, 2, 9), z=(1, 1, 2, 9)))  # no window, an empty result


def test_sizes_are_rounded_before_they_are_checked():
    """1 - (n + 3) / 7 has no element for 5 rows, and without rounding less than none."""
    model = model_of(
        """g (float[ROWS] x, float[K] w) => (float[m] z, float[K] y) {
        o = Constant<value_ints=[1]>() h = Constant<value_ints=[3]>() q = Constant<value_ints=[7]>()
        n = Shape(x) a = Add(n, h) d = Div(a, q) e = Sub(o, d) z = ConstantOfShape(e)
        y = Relu(w) }"""
    )
    network = tvmrt.load(model, dims={"N": (1, 8)}, cache=False)
    for n, wanted in ((3, 1), (4, 0), (5, 0), (8, 0)):
        assert network(np.ones(n, np.float32), np.ones(n, np.float32))[0].shape == (wanted,)


def test_a_size_that_must_be_a_multiple(tmp_path):
    network = tvmrt.load(PAIRS, cache=tmp_path)
    for rows in (2, 4, 1000):
        check(network, PAIRS, rows_of(PAIRS, rows))
    with pytest.raises(ValueError) as failure:
        network(**arrays(x=(7, 3)))
    assert str(failure.value).startswith(
        "input 'x': axis 0 has 7 elements, expected a multiple of 2; the network does not compile "
        "for these sizes: node Reshape_r"
    )
    library = tvmrt.load(tvmrt.compile(PAIRS))
    with pytest.raises(SizeConditionError, match="axis 0 has 7 elements, expected a multiple of 2"):
        library(**arrays(x=(7, 3)))


def test_a_failure_is_remembered(tmp_path, monkeypatch):
    network = tvmrt.load(PARTS, cache=tmp_path)
    compile_for, tried = network.variants._compile_for, []
    monkeypatch.setattr(
        network.variants, "_compile_for", lambda dims: tried.append(dims) or compile_for(dims)
    )
    for _ in range(3):
        with pytest.raises(ValueError, match="does not compile for these sizes"):
            network(**arrays(x=(2, 7)))
    assert tried == [{"N": (2, 2), "W": (7, 7)}]


def test_concurrent_calls_of_different_sizes_are_right():
    network = tvmrt.load(CACHE, cache=False)
    session = onnxruntime.InferenceSession(CACHE.SerializeToString())
    sizes = [(0, 5), (3, 9), (0, 400), (64, 1), (0, 1)]
    wrong: list[object] = []

    def call(past: int, new: int) -> None:
        inputs = arrays(c=(1, past, 4), x=(1, new, 4))
        wanted = session.run(None, inputs)
        for _ in range(20):
            for found, value in zip(network(**inputs), wanted):
                if found.shape != value.shape or not np.allclose(found, value, 1e-4, 1e-4):
                    wrong.append((past, new))

    threads = [threading.Thread(target=call, args=each) for each in sizes]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong
    assert network.variants.networks == ()
    inputs = arrays(c=(1, 0, 4), x=(1, 2, 4))
    assert asyncio.run(network.acall(**inputs))[1].shape == (1, 2, 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_compiles_although_a_thread_of_the_parent_does(tmp_path):
    code = """if True:
        import os, sys, numpy as np, tvmrt
        network = tvmrt.load(sys.argv[1], cache=sys.argv[2])
        network.variants._lock.acquire()  # as a thread that compiles
        if os.fork() == 0:
            assert network(np.ones((0, 4), np.float32)).shape == (0, 4)
            os._exit(7)
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    onnx.save(RELU, tmp_path / "net.onnx")
    command = [sys.executable, "-c", code, tmp_path / "net.onnx", tmp_path / "cache"]
    assert subprocess.run(command, timeout=100, check=False).returncode == 7


def test_a_file_that_has_changed_is_not_mixed_with_the_loaded_network(tmp_path):
    path = tmp_path / "net.onnx"
    onnx.save(RELU, path)
    network = tvmrt.load(path, cache=False)
    onnx.save(SOFTMAX, path)
    with pytest.raises(ValueError, match=r"net\.onnx has changed since it was loaded"):
        network(np.ones((0, 4), np.float32))
    onnx.save(RELU, path)
    assert network(np.ones((0, 4), np.float32)).shape == (0, 4)


def test_threads_and_the_kept_executors_hold_for_variants(tmp_path):
    network = tvmrt.load(RELU, cache=tmp_path, threads=1)
    network.max_idle = 5
    check(network, RELU, rows_of(RELU, 0))
    (variant,) = network.variants.networks
    assert variant._loaded.threads == 1
    assert variant.max_idle == 5


def test_an_error_about_memory_names_bytes_and_sizes():
    model = model_of("g (float[N,1000] x) => (float[N,1000] y) { t = Tanh(x) y = Softmax(t) }")
    network = tvmrt.load(model, cache=False, max_memory=1_000_000)
    assert network(np.zeros((50, 1000), np.float32)).shape == (50, 1000)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"N.* 500\b.*bytes.*1000000") as failure:
            network(np.zeros((500, 1000), np.float32))
        assert "2147483647" not in str(failure.value)
    assert network(np.zeros((1, 1000), np.float32)).shape == (1, 1000)


def test_no_warning_is_given_for_open_dimensions(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tvmrt.load(PARTS, cache=tmp_path)(**arrays(x=(1, 30)))


def test_no_warning_is_given_for_sizes_that_a_run_finds():
    model = model_of("""g (float[ROWS] x) => (int64[pairs,2] y) {
        s = Constant<value_ints=[-1,2]>() i = NonZero(x) y = Reshape(i, s) }""")
    network = tvmrt.load(model, cache=False)  # a warning is an error in this file
    assert network(np.ones(4, np.float32)).tolist() == [[0, 1], [2, 3]]
    with pytest.raises(ValueError, match="multiple of 2"):
        network(np.ones(3, np.float32))


def test_a_burst_of_calls_keeps_few_executors(tmp_path):
    network = tvmrt.load(RELU, cache=tmp_path)
    together = threading.Barrier(12)

    def call() -> None:
        together.wait()
        for rows in range(1, 50):
            network(np.ones((rows, 4), np.float32))

    for count in (3, 0):
        network.max_idle = count
        threads = [threading.Thread(target=call) for _ in range(12)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        assert len(network._idle) <= count
    with pytest.raises(ValueError, match="max_idle: give a number"):
        network.max_idle = -1

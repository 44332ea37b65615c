"""One library for all sizes within its bounds, compared with onnxruntime and fixed shapes."""

from __future__ import annotations

import ctypes
import json
import subprocess

import numpy as np
import pytest
from any_size_case import EXECUTORS, assert_close, loaded, results
from dynamic_networks import CASES, FLOAT, INT64, Draft, quantised

import tvmrt
from tvmrt.compiler.ir.rounding import round_up

runtime = pytest.importorskip("onnxruntime")

FLOATS = ctypes.POINTER(ctypes.c_float)


@pytest.mark.everyday(2)
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", CASES)
def test_every_size_matches_onnxruntime(name, executor, tmp_path):
    """Larger and smaller sizes alternate, so that stale values of a run would show."""
    case = CASES[name]
    model, rng = case.make(), np.random.default_rng(7)
    network = loaded(tvmrt.compile(model, dims=case.dims, executor=executor), tmp_path, executor)
    session = runtime.InferenceSession(model.SerializeToString())
    for sizes in case.sizes(rng, 20):
        inputs = case.inputs(rng, sizes)
        assert_close(results(network, inputs), session.run(None, inputs))


@pytest.mark.slow
@pytest.mark.parametrize("executor", EXECUTORS)
def test_integer_results_equal_fixed_shapes(executor, tmp_path):
    """Results are bit-identical at sizes around those of tiles."""
    case = CASES["convolutions"]
    model, rng = quantised(), np.random.default_rng(9)
    network = loaded(tvmrt.compile(model, dims=case.dims, executor=executor), tmp_path, executor)
    for i, sizes in enumerate(case.sizes(rng, 2)):
        inputs = case.inputs(rng, sizes)
        fixed = tvmrt.compile(model, shapes={"x": inputs["x"].shape}, executor=executor)
        folder = tmp_path / str(i)
        folder.mkdir()
        (expected,) = results(loaded(fixed, folder, executor), inputs)
        (found,) = results(network, inputs)
        np.testing.assert_array_equal(found, expected)
        assert len(np.unique(found)) > 5


@pytest.mark.parametrize("name", CASES)
def test_memory_is_planned_for_maximum_sizes(name):
    """Memory and its lower bound equal those of a fixed shape to the byte. The causal mask, a
    constant of a fixed shape, is one more tensor of open sizes."""
    case = CASES[name]
    model = case.make()
    library = tvmrt.compile(model, dims=case.dims)
    largest = case.inputs(np.random.default_rng(0), case.most())
    fixed = tvmrt.compile(model, shapes={n: a.shape for n, a in largest.items()})
    computed = round_up(33 * 33 * 4, 64) if name == "causal" else 0
    assert library.summary.arena_bytes == fixed.summary.arena_bytes + computed
    assert library.program.lower_bound_bytes == fixed.program.lower_bound_bytes + computed


@pytest.mark.parametrize("name", ["causal", "decoder"])
def test_kernels_equal_those_of_a_fixed_shape(name):
    """A transposed result is written in place for its reader, without a copy."""
    case = CASES[name]
    model = case.make()
    largest = case.inputs(np.random.default_rng(0), case.most())
    found = [
        [step.group.root.op for step in tvmrt.compile(model, **options).program.steps]
        for options in ({"dims": case.dims}, {"shapes": {n: a.shape for n, a in largest.items()}})
    ]
    assert found[0].count("matmul") == found[1].count("matmul") > 0
    assert found[0].count("identity") == found[1].count("identity")


def test_softmax_of_every_length(tmp_path):
    """Lengths around every number of lanes; -inf gives 0, and NaN affects its row only."""
    d = Draft()
    y = d.node("Softmax", ["x"], axis=-1)
    model = d.model({"x": (FLOAT, [3, "n"])}, {y: FLOAT})
    network = loaded(tvmrt.compile(model, dims={"n": 70}), tmp_path, "graph")
    rng = np.random.default_rng(3)
    for n in range(1, 71):
        x = rng.normal(scale=9, size=(3, n)).astype(np.float32)
        x[1, n // 2 :] = -np.inf
        x[1, 0] = 80
        x[2, -1] = np.nan if n > 1 else 0
        powers = np.exp(x.astype(np.float64) - np.nanmax(x, axis=1, keepdims=True))
        expected = powers / powers.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(results(network, {"x": x})[0], expected, rtol=1e-5, atol=1e-30)


def test_int8_matmul_of_every_length(tmp_path):
    """Attention scores with dynamic rows and columns, and a matmul over a dynamic axis."""
    d, zero = Draft(), np.int8(4)

    def rounded(x: str) -> str:
        step = d.constant(0.03, np.float32), d.constant(zero)
        return d.node("DequantizeLinear", [d.node("QuantizeLinear", [x, *step]), *step])

    x, by = rounded("x"), rounded("by")
    scores = d.node("MatMul", [x, d.node("Transpose", [x], perm=[0, 2, 1])])
    outputs = {scores: FLOAT, d.node("MatMul", [by, x]): FLOAT}
    outputs[d.node("MatMul", [x, rounded("each")])] = FLOAT  # only the rows are dynamic
    inputs = {"x": (FLOAT, [2, "n", 24]), "by": (FLOAT, [2, "n", "n"]), "each": (FLOAT, [24, 8])}
    model = d.model(inputs, outputs)
    network = loaded(tvmrt.compile(model, dims={"n": 40}, target="native"), tmp_path, "graph")
    session, rng = runtime.InferenceSession(model.SerializeToString()), np.random.default_rng(5)
    for n in (40, 1, 3, 33, 40):
        feed = {"x": rng.normal(size=(2, n, 24)), "by": rng.normal(size=(2, n, n))}
        feed["each"] = rng.normal(size=(24, 8))
        feed = {name: value.astype(np.float32) for name, value in feed.items()}
        assert_close(results(network, feed), session.run(None, feed))


def _gathered(d):
    return d.node("Gather", [d.weight(50, 64), "ids"], axis=0)


def _softmax(d):
    return d.node("Softmax", ["x"], axis=-1)


def _sampled(d):
    grid = d.constant(np.random.default_rng(1).uniform(-1, 1, (1, 40, 40, 2)), np.float32)
    wide = d.node("Reshape", ["x", d.constant([1, -1, 8, 8], np.int64)])
    return d.node("GridSample", [wide, grid])


def _bytes_added(d):
    scale, zero = d.constant(0.05, np.float32), d.constant(3, np.uint8)
    bytes_ = d.node("QuantizeLinear", ["x", scale, zero])
    back = d.node("DequantizeLinear", [bytes_, scale, zero])
    sums = d.node("Add", [back, back])
    wider = d.constant(0.1, np.float32)
    again = d.node("QuantizeLinear", [sums, wider, zero])
    return d.node("DequantizeLinear", [again, wider, zero])


def _mean(d):
    return d.node("ReduceMean", ["x"], axes=[0], keepdims=0)


@pytest.mark.everyday(2)
@pytest.mark.parametrize(
    "make", [_gathered, _softmax, _sampled, _bytes_added, _mean],
    ids=["gather", "softmax", "grid sample", "bytes", "mean"],
)  # fmt: skip
def test_threads_are_used_for_large_sizes_only(make, tmp_path):
    """The maximum size decides whether threads are used."""
    d, rng = Draft(), np.random.default_rng(4)
    y = make(d)
    inputs = {"ids": (INT64, ["n"])} if make is _gathered else {"x": (FLOAT, ["n", 64])}
    model = d.model(inputs, {y: FLOAT})
    session = runtime.InferenceSession(model.SerializeToString())
    for maximum in (800, 6000):
        library = tvmrt.compile(model, dims={"n": (1, maximum)}, target="native")
        network = loaded(library, tmp_path, "graph")
        for n in (maximum, 1, 37):
            x = rng.integers(0, 50, n) if make is _gathered else rng.normal(size=(n, 64))
            feed = {name: x.astype("int64" if name == "ids" else "float32") for name in inputs}
            assert_close(results(network, feed), session.run(None, feed))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["perceptron", "encoder", "decoder"])
def test_code_size_is_close_to_a_fixed_shape(name, tmp_path, monkeypatch):
    """At most a quarter more, in networks of little more than their tiles."""
    monkeypatch.delenv("TVMRT_CFLAGS", raising=False)
    case = CASES[name]
    model = case.make()
    largest = case.inputs(np.random.default_rng(0), case.most())
    found = []
    for options in ({"dims": case.dims}, {"shapes": {n: a.shape for n, a in largest.items()}}):
        path = tmp_path / f"{len(found)}.so"
        tvmrt.compile(model, executor="aot", **options).export_library(str(path))
        sections = subprocess.run(["size", "-A", path], capture_output=True, text=True, check=True)
        lines = map(str.split, sections.stdout.splitlines())
        found.append(next(int(line[1]) for line in lines if line and line[0] == ".text"))
    assert found[0] <= 1.25 * found[1]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
def test_threads_change_nothing(threads, tmp_path, monkeypatch):
    case = CASES["encoder"]
    model, rng = case.make(), np.random.default_rng(3)
    network = loaded(tvmrt.compile(model, dims=case.dims), tmp_path, "graph")
    session = runtime.InferenceSession(model.SerializeToString())
    tvmrt.get_global_func("runtime.config_threadpool")(1, threads)
    try:
        for sizes in case.sizes(rng, 3):
            inputs = case.inputs(rng, sizes)
            assert_close(results(network, inputs), session.run(None, inputs))
    finally:
        tvmrt.get_global_func("runtime.config_threadpool")(1, 1)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_small_results_are_not_overrun(executor, tmp_path):
    """A caller-provided output of the maximum size keeps its bytes past the result."""
    case = CASES["perceptron"]
    network = loaded(
        tvmrt.compile(case.make(), dims=case.dims, executor=executor), tmp_path, executor
    )
    output = tvmrt.nd.array(np.full((8, 10), 77, np.float32))
    memory = np.ctypeslib.as_array(ctypes.cast(output.data_address, FLOATS), (80,))
    network.set_output_zero_copy(0, output)
    network.set_input("x", np.ones((3, 16), np.float32))
    network.run()
    assert output.shape == network.get_output(0).shape == (3, 10)
    assert (memory[:30] != 77).all() and (memory[30:] == 77).all()
    network.set_input("x", np.ones((8, 16), np.float32))
    network.run()  # the buffer is as large as before
    assert output.shape == (8, 10) and (memory != 77).all()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_too_small_output_is_refused(executor, tmp_path):
    """Nothing is written to such an output."""
    case = CASES["perceptron"]
    library = tvmrt.compile(case.make(), dims=case.dims, executor=executor)
    network = loaded(library, tmp_path, executor)
    output = tvmrt.nd.array(np.full((4, 10), 77, np.float32))
    network.set_output_zero_copy(0, output)
    network.set_input("x", np.ones((5, 16), np.float32))
    with pytest.raises(
        ValueError, match=r"output '\w+': axis 0 has 4 elements, the result 5; pass"
    ):
        network.run()
    assert (output.numpy() == 77).all()
    network.set_input("x", np.ones((4, 16), np.float32))
    network.run()
    assert (output.numpy() != 77).all()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_inputs_without_a_copy(executor, tmp_path):
    case = CASES["perceptron"]
    model, rng = case.make(), np.random.default_rng(5)
    network = loaded(tvmrt.compile(model, dims=case.dims, executor=executor), tmp_path, executor)
    session = runtime.InferenceSession(model.SerializeToString())
    for batch in (8, 2, 5):
        inputs = case.inputs(rng, {"batch": batch})
        network.set_input_zero_copy("x", tvmrt.nd.array(inputs["x"]))
        network.run()
        assert_close([network.get_output(0).numpy()], session.run(None, inputs))


def test_network_reports_its_dimensions(tmp_path):
    case = CASES["decoder"]
    network = loaded(tvmrt.compile(case.make(), dims=case.dims), tmp_path, "graph")
    dims = network.get_dims()
    assert dims["dims"] == {"batch": [1, 2], "seq": [1, 5], "past": [0, 24]}
    assert dims["inputs"]["ids"] == ["batch", "seq"]
    assert dims["inputs"]["mask"][3] == "(past + seq)"
    assert network.get_input_info()[0]["past_k"] == (2, 4, 24, 8)
    cache = {"past_k": (1, 4, 1, 8), "past_v": (1, 4, 1, 8)}
    fixed = tvmrt.compile(case.make(), shapes={"ids": (1, 1), "mask": (1, 1, 1, 2), **cache})
    assert loaded(fixed, tmp_path, "graph").get_dims() == {}


def test_fixed_shape_steps_are_unchanged():
    """In a network with a dynamic resize branch, the other C equals that of a fixed network."""
    d = Draft()
    fixed = d.node("MatMul", [d.node("Relu", ["still"]), d.weight(16, 8)])
    open_ = d.node("MatMul", [d.node("Relu", ["x"]), d.weight(16, 8)])
    model = d.model(
        {"still": (FLOAT, [4, 16]), "x": (FLOAT, ["n", 16])}, {fixed: FLOAT, open_: FLOAT}
    )

    def functions(library):
        (text,) = [t for n, t in library.sources.files.items() if n.endswith("_lib1.c")]
        return set(text.split("/*\n * "))

    shared = functions(tvmrt.compile(model, dims={"n": 4})) & functions(
        tvmrt.compile(model, shapes={"x": (4, 16)})
    )
    assert sum("MatMul: MatMul1_0" in text or "matmul: MatMul1_0" in text for text in shared) == 1


def test_concurrent_steps_wait_for_the_sizes(tmp_path):
    """Regions of a device in the same network wait for the sizes as well."""
    d = Draft()
    fixed = d.node("Add", [d.node("Mul", ["still", d.weight(4, 16)]), d.weight(4, 16)])
    open_ = d.node("MatMul", [d.node("Relu", ["x"]), d.weight(16, 8)])
    shapes = {"still": (FLOAT, [4, 16]), "x": (FLOAT, ["n", 16])}
    model = d.model(shapes, {fixed: FLOAT, open_: FLOAT})
    library = tvmrt.compile(model, dims={"n": 6}, devices=["ccompiler"], schedule="async")
    nodes = json.loads(library.get_graph_json())["nodes"]
    (sizes,) = [i for i, node in enumerate(nodes) if node["name"] == "tvmrt_sizes"]
    waiting = [json.loads(n["attrs"]["after"]) for n in nodes if [sizes, 0, 0] in n["inputs"]]
    assert waiting and all(sizes in after for after in waiting)
    network = loaded(library, tmp_path, "graph")
    network.set_scheduler("async")
    session = runtime.InferenceSession(model.SerializeToString())
    rng = np.random.default_rng(2)
    for rows in (6, 1, 4):
        inputs = {"still": rng.normal(size=(4, 16)), "x": rng.normal(size=(rows, 16))}
        inputs = {name: array.astype(np.float32) for name, array in inputs.items()}
        assert_close(results(network, inputs), session.run(None, inputs))


def test_small_bounds_start_no_threads(tmp_path):
    """No parallel code is generated, so that kernels can be inlined."""
    found = {}
    for maximum in (8, 100000):
        path = tmp_path / f"{maximum}.so"
        tvmrt.compile(CASES["perceptron"].make(), dims={"batch": maximum}).export_library(str(path))
        words = subprocess.run(["nm", "-D", path], capture_output=True, text=True, check=True)
        found[maximum] = "TVMBackendParallelLaunch" in words.stdout
    assert found == {8: False, 100000: True}

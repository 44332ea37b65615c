"""Networks as functions, compared with onnxruntime: input and output types, concurrent calls."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import pickle
import platform
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import tvmrt
from tvmrt import cli
from tvmrt.plugin import network_suffixes
from tvmrt.runtime.executor.base import Executor

rng = np.random.default_rng(4)
OTHER = "riscv64-linux" if platform.machine() == "aarch64" else "aarch64-linux"
WEIGHTS = rng.standard_normal((6, 4)).astype(np.float32)


def _model(rows: int | str, second: bool = True) -> onnx.ModelProto:
    """Return x @ w + b and, on request, the index of the largest column."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["xw"]),
        helper.make_node("Add", ["xw", "b"], ["y"]),
        helper.make_node("ArgMax", ["y"], ["best"], axis=1, keepdims=0),
    ]
    graph = helper.make_graph(
        nodes if second else nodes[:2],
        "two",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 6]),
            helper.make_tensor_value_info("b", TensorProto.FLOAT, [rows, 4]),
        ],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 4])]
        + [helper.make_tensor_value_info("best", TensorProto.INT64, [rows])] * second,
        [onnx.numpy_helper.from_array(WEIGHTS, "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _inputs(rows: int) -> dict[str, np.ndarray]:
    return {
        "x": rng.standard_normal((rows, 6)).astype(np.float32),
        "b": rng.standard_normal((rows, 4)).astype(np.float32),
    }


def _right(model: onnx.ModelProto, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    return onnxruntime.InferenceSession(model.SerializeToString()).run(None, inputs)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def net(folder):
    return tvmrt.load(_model(1), cache=folder)


@pytest.fixture(scope="module")
def batched(folder):
    return tvmrt.load(_model("batch"), dims={"batch": 5}, cache=folder)


def _check(found, right) -> None:
    assert len(found) == len(right)
    for got, wanted in zip(found, right):
        np.testing.assert_allclose(np.asarray(got), wanted, 1e-5, 1e-6)


WAYS = {
    "by position": lambda net, i: net(i["x"], i["b"]),
    "by name": lambda net, i: net(b=i["b"], x=i["x"]),
    "mixed": lambda net, i: net(i["x"], b=i["b"]),
    "dictionary": lambda net, i: tuple(net(i)[name] for name in ("y", "best")),
    "lists": lambda net, i: net(i["x"].tolist(), i["b"].tolist()),
    "doubles": lambda net, i: net(i["x"].astype(np.float64), i["b"].astype(np.float64)),
    "not contiguous": lambda net, i: net(np.asfortranarray(i["x"]), i["b"][:, ::-1][:, ::-1]),
    "asynchronous": lambda net, i: asyncio.run(net.acall(i["x"], i["b"])),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rows", [1, 3])
def test_each_way_to_give_inputs_gives_the_same_outputs(net, batched, way, rows):
    inputs = _inputs(rows)
    found = WAYS[way](net if rows == 1 else batched, inputs)
    _check(found, _right(_model(rows), inputs))


def test_results_have_the_type_of_the_inputs(net):
    inputs = _inputs(1)
    y, best = net(tvmrt.nd.array(inputs["x"]), tvmrt.nd.array(inputs["b"]))
    assert isinstance(y, tvmrt.nd.NDArray)
    assert isinstance(best, tvmrt.nd.NDArray)
    _check([y.numpy(), best.numpy()], _right(_model(1), inputs))
    assert type(net(inputs["x"], inputs["b"])[0]) is np.ndarray


def test_tensors_of_torch_give_tensors_of_torch(net):
    torch = pytest.importorskip("torch")
    inputs = _inputs(1)
    x = torch.from_numpy(inputs["x"]).requires_grad_()
    y, best = net(x, torch.from_numpy(inputs["b"]).t().contiguous().t())
    assert isinstance(y, torch.Tensor)
    _check([y, best], _right(_model(1), inputs))


def test_caller_owns_the_results(net):
    first = net(**_inputs(1))[0]
    before = first.copy()
    first_again = net(**_inputs(1))[0]
    assert not np.shares_memory(first, first_again)
    assert (first == before).all()


def test_concurrent_threads_get_their_own_results(net):
    cases = [_inputs(1) for _ in range(8)]
    right = [_right(_model(1), case) for case in cases]
    wrong, together = [], threading.Barrier(8)

    def call(number: int) -> None:
        case = cases[number]
        together.wait()
        for _ in range(2000):
            y, best = net(case["x"], case["b"])
            if not np.allclose(y, right[number][0], 1e-5, 1e-6) or best != right[number][1]:
                wrong.append(number)

    threads = [threading.Thread(target=call, args=[i]) for i in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_asyncio_tasks_may_run_concurrently(net):
    cases = [_inputs(1) for _ in range(20)]

    async def all_of_them():
        return await asyncio.gather(*(net.acall(**case) for case in cases))

    for found, case in zip(asyncio.run(all_of_them()), cases):
        _check(found, _right(_model(1), case))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_parent_and_forked_child_may_both_call(net):
    inputs = _inputs(1)
    read, write = multiprocessing.get_context("fork").Pipe(False)
    child = multiprocessing.get_context("fork").Process(target=lambda: write.send(net(inputs)["y"]))
    child.start()
    _check([net(inputs)["y"]], _right(_model(1, False), inputs))
    assert read.poll(20)
    _check([read.recv()], _right(_model(1, False), inputs))
    child.join()


IGNORES_CHILDREN = """
import signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
import tvmrt
print(tvmrt.load(sys.argv[1], cache=False).inputs[0].name)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGCHLD"), reason="a signal of POSIX")
def test_a_program_that_ignores_the_ends_of_its_children_may_compile(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    onnx.save(helper.make_model(graph), tmp_path / "net.onnx")
    command = [sys.executable, "-c", IGNORES_CHILDREN, tmp_path / "net.onnx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "x\n"), done.stderr


def test_pickle_to_another_process(batched):
    inputs = _inputs(4)
    _check(pickle.loads(pickle.dumps(batched))(**inputs), _right(_model(4), inputs))


def test_arrays_of_the_exact_type_are_passed_without_conversion(net, monkeypatch):
    """Also read-only and unaligned arrays."""
    inputs = _inputs(1)
    right = _right(_model(1), inputs)

    def refuse(*_args):
        raise AssertionError("an array is converted")

    monkeypatch.setattr(Executor, "set_input", refuse)
    fixed = {name: value.copy() for name, value in inputs.items()}
    for value in fixed.values():
        value.flags.writeable = False
    _check(net(*fixed.values()), right)
    odd = [
        np.frombuffer(b"\0" + value.tobytes(), np.uint8)[1:].view(np.float32).reshape(value.shape)
        for value in inputs.values()
    ]
    _check(net(*odd), right)


MISTAKES = {
    "missing": (lambda i: ((i["x"],), {}), TypeError, "input 'b' is missing; the inputs are x, b"),
    "unknown": (lambda i: ((i["x"],), {"c": 1}), KeyError, "no input 'c'; its inputs are x, b"),
    "twice": (lambda i: ((i["x"],), {"x": i["x"]}), TypeError, "input 'x' is given twice"),
    "too many": (lambda i: ((1, 2, 3), {}), TypeError, "3 inputs are given; the network has 2"),
    "shape": (
        lambda i: ((i["x"][:, :5], i["b"]), {}), ValueError, "input x is float32 of 1 x 6: .*1, 5",
    ),
    "ragged": (lambda i: (([[1, 2], [3]], i["b"]), {}), ValueError, "input x: "),
    "complex": (lambda i: ((i["x"] * 1j, i["b"]), {}), TypeError, "the network needs float32"),
    "masked": (
        lambda i: ((np.ma.masked_greater(i["x"], -9), i["b"]), {}), ValueError, "x: .* masked elem",
    ),
    "masked in a list": (
        lambda i: (([[1, 2, 3, 4, 5, np.ma.masked]], i["b"]), {}), ValueError, "x: .* masked elem",
    ),
    "text": (lambda i: (("word", i["b"]), {}), TypeError, "input x: the elements are strings"),
    "objects": (lambda i: ((np.array([print]), i["b"]), {}), TypeError, "elements are Python obj"),
    "texts": (
        lambda i: ((np.array(["a"], object), i["b"]), {}), TypeError, "elements are strings",
    ),
    "object": (lambda i: ((print, i["b"]), {}), TypeError, "input x: .* is not a tensor"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_wrong_call_is_reported_and_the_next_works(net, mistake):
    make, kind, text = MISTAKES[mistake]
    inputs = _inputs(1)
    given, named = make(inputs)
    with pytest.raises(kind, match=text):
        net(*given, **named)
    _check(net(**inputs), _right(_model(1), inputs))


def test_integers_keep_their_value_or_are_refused(folder):
    node = helper.make_node("Add", ["a", "a"], ["y"])
    about = [helper.make_tensor_value_info(n, TensorProto.INT8, [3]) for n in ("a", "y")]
    graph = helper.make_graph([node], "bytes", about[:1], about[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    net = tvmrt.load(model, cache=folder)
    assert net([1, -2, 3]).tolist() == [2, -4, 6]
    for wrong, words in (
        ([1, 2, 300], "the element 300 is not within -128 to 127, the numbers of int8"),
        (np.array([1, 2, 200], np.uint8), "the element 200 is not within -128 to 127"),
        ([1, 2, 2**70], f"the integer {2**70} needs more than 64 bits"),
        ([0.5, 1, 2], "the elements are float64, but the network needs int8"),
    ):
        with pytest.raises(TypeError, match=f"input a: {words}"):
            net(wrong)
    with pytest.raises(ValueError, match=r"input a is int8 of 3: .*shape \(0,\)"):
        net([])


def test_any_name_is_an_input(folder):
    names = ["self", "x:0", "class", "inputs"]
    node = helper.make_node("Sum", names, ["y"])
    about = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in (*names, "y")]
    graph = helper.make_graph([node], "names", about[:-1], about[-1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    net = tvmrt.load(model, cache=folder)
    assert net(**{name: np.ones(2, np.float32) for name in names}).tolist() == [4, 4]


def test_integers_that_are_no_floats_are_refused(net):
    x, b = np.zeros((1, 6), np.int64), np.zeros((1, 4), np.float32)
    net(x + 2**60, b)  # a float32
    for wrong in (x + (2**60 + 1), x + (2**63 - 1), x.astype(np.uint64) + np.uint64(2**64 - 1)):
        with pytest.raises(TypeError, match=r"input x: .*int64, but the network needs float32"):
            net(wrong, b)


def test_repr_and_attributes(net, batched):
    assert [(e.name, e.dtype, e.shape) for e in batched.inputs] == [
        ("x", "float32", ("batch", 6)), ("b", "float32", ("batch", 4)),
    ]  # fmt: skip
    assert batched.dims == {"batch": (1, 5)}
    assert net.memory.weights_bytes >= WEIGHTS.nbytes
    assert net.memory.output_bytes == 4 * 4 + 8
    for text in (repr(net), net._repr_html_()):
        assert "best" in text
        assert "float32" in text
    assert "1..5" in repr(batched)
    for each in (net, batched, pickle.loads(pickle.dumps(net))):
        shown = each._repr_html_()
        assert re.search(r"a run takes [\d.]+ [um]?s", shown)
    assert net.benchmark(seconds=0.01).calls >= 5
    assert batched.benchmark(**_inputs(2), seconds=0.01).median > 0
    assert len(net.profile().calls) >= 2
    # inputs are given as in a call: by name, in a dictionary, in order, as lists
    inputs = _inputs(2)
    lists = {name: value.tolist() for name, value in inputs.items()}
    for report in (batched.profile(inputs), batched.profile(**inputs), batched.profile(lists)):
        assert len(report.calls) >= 2
    assert len(batched.profile(*inputs.values()).calls) >= 2
    with pytest.raises(TypeError, match=r"input '.*' is missing"):
        batched.profile({})


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_the_name_of_a_module_is_free(net, tmp_path, executor):
    options = {"module_name": "my_net", "executor": executor}
    tvmrt.compile(_model(1), **options).export(tmp_path / "net.so")
    feeds = {each.name: np.ones(each.shape, each.dtype) for each in net.inputs}
    for other in (tvmrt.load(tmp_path / "net.so"), tvmrt.load(_model(1), **options)):
        for name, found in other(feeds).items():
            np.testing.assert_allclose(found, net(feeds)[name], 1e-5, 1e-6)


def test_folder_is_rejected(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder; give the library in it"):
        tvmrt.load(tmp_path)


@pytest.mark.parametrize("model", [object(), lambda x: x, 7, [1, 2], np.zeros(3)], ids=type)
def test_object_of_another_library_is_refused_with_advice(model):
    name = type(model).__name__
    for function in (tvmrt.load, tvmrt.compile):
        with pytest.raises(
            TypeError, match=f"object of type {name} is not a network .* export it to ONNX"
        ):
            function(model)


@pytest.fixture
def other_files(tmp_path, monkeypatch):
    """Save a network, a text, an archive of C sources and a file named like a library."""
    monkeypatch.chdir(tmp_path)
    onnx.save(_model(1), "net.onnx")
    (tmp_path / "README.md").write_text("a text")
    (tmp_path / "net.so").write_bytes(b"\x7fELF")
    tvmrt.compile("net.onnx", target="cortex-m4").export("net.tar")


@pytest.mark.parametrize(
    "action, error",
    [
        (lambda: tvmrt.load("README.md"), r"README.md is neither a network \(\.onnx.*compiled l"),
        (lambda: tvmrt.load("net.tar"), r"net.tar is an archive of C sources .* to a \.so file"),
        (lambda: tvmrt.compile("net.so"), r"net.so is a compiled network; give the \.onnx "),
        (lambda: tvmrt.load("https://a.example/net.onnx"), "is an address; download the file"),
        (lambda: tvmrt.load("net.onnx", board="nrf52"), r'and board="nrf52" is for another place'),
        (
            lambda: tvmrt.load("net.onnx", target=OTHER),
            rf'and target="{OTHER}" is for another processor; .* with its method export\(\)',
        ),
        (
            lambda: tvmrt.load(tvmrt.compile("net.onnx", target=OTHER)),
            rf'was compiled for the target {OTHER}; write it with .* without target="{OTHER}"',
        ),
        (
            lambda: tvmrt.load("net.onnx", target="x86_64-macos"),
            r'tvmrt\.compile\(model, target="x86_64-macos"\), and write it with its method export',
        ),
    ],
)
def test_what_does_not_run_here_is_named(other_files, action, error):
    with pytest.raises(ValueError, match=error):
        action()


POOL = """
import multiprocessing, sys, numpy as np, tvmrt

def call(network):
    return network(**network.example_inputs())

if __name__ == "__main__":
    network = tvmrt.load(sys.argv[1], cache=False)
    with multiprocessing.get_context(sys.argv[2]).Pool(2) as pool:
        for result in pool.map(call, [network] * 4, chunksize=1):
            np.testing.assert_array_equal(result, call(network))
"""


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_networks_in_pools_leave_no_files(start, tmp_path):
    """Workers of a pool are killed or end without finalizers."""
    program, temporary = tmp_path / "program.py", tmp_path / "temporary"
    program.write_text(POOL)
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    model = Path(__file__).parents[3] / "examples" / "digits" / "digits_f32.onnx"
    subprocess.run([sys.executable, program, model, start], env=environment, check=True)
    assert not list(temporary.iterdir())


@pytest.mark.everyday(1)
@pytest.mark.parametrize("function", [tvmrt.load, tvmrt.compile])
@pytest.mark.parametrize("suffix", network_suffixes())
def test_a_path_without_a_file_is_one_sentence(function, suffix, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir(f"d{suffix}")
    with pytest.raises(FileNotFoundError) as caught:
        function(f"none{suffix}")
    assert str(caught.value) == f"none{suffix} does not exist; check the path"
    with pytest.raises(IsADirectoryError) as caught:
        function(f"d{suffix}")
    assert str(caught.value) == f"d{suffix} is a folder; give the path of a network file"


@pytest.mark.parametrize(
    ("output", "files"),
    [
        ("B.TAR", ["B.TAR"]),
        ("B.C", ["B.C", "B.h"]),
        pytest.param("B.SO", ["B.SO"], marks=pytest.mark.slow),
        pytest.param("B.WASM", ["B.WASM", "B.d.mts", "B.d.ts", "B.mjs"], marks=pytest.mark.slow),
    ],
)
def test_suffixes_of_files_may_be_in_capitals(output, files, tmp_path, monkeypatch):
    if output == "B.WASM":
        pytest.importorskip("ziglang")
    monkeypatch.chdir(tmp_path)
    onnx.save(_model(1), "A.ONNX", "protobuf")
    assert cli.main(["inspect", "A.ONNX"]) == 0
    assert cli.main(["compile", "A.ONNX", "-o", output]) == 0
    assert sorted(os.listdir()) == ["A.ONNX", *files]
    if output == "B.SO":
        x = _inputs(1)
        for network in ("A.ONNX", output):
            _check(list(tvmrt.load(network, cache=False)(x).values()), _right(_model(1), x))

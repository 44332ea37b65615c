"""Test the example device ``examplejson``: its module kind and its code generator."""

from __future__ import annotations

import importlib
import subprocess
import threading

import example_devices
import numpy as np
import pytest
from region_programs import call_with_strides
from sample_devices import run_library
from test_guide_devices import FEEDS, golden, guide_network

import tvmrt
from tvmrt.compiler.devices.base import as_code
from tvmrt.compiler.export.blob import aot_library, blob_source
from tvmrt.error import TVMError

GUIDE = """\
subgraph_0
input 0 10 10
input 1 10 10
input 2 10 10
input 3 10 10
add 4 inputs: 0 1 shape: 10 10
sub 5 inputs: 4 2 shape: 10 10
mul 6 inputs: 5 3 shape: 10 10
"""
TWO = GUIDE + "my_subgraph_1\ninput 0 3\nmul 1 inputs: 0 0 shape: 3\n"


@pytest.fixture(scope="module")
def create():
    """Return the function of the guide, which the loaded plug-in has registered."""
    example_devices.load("examplejson")
    return tvmrt.get_global_func("module.examplejson_module_create")


@pytest.fixture(scope="module")
def device(create):
    """Return the code generator."""
    return importlib.import_module("tvmrt_examplejson.device").ExampleJson()


def run(function, *arrays):
    tensors = [tvmrt.nd.array(np.asarray(a, np.float32)) for a in arrays]
    out = tvmrt.nd.empty(tensors[0].shape)
    function(*tensors, out)
    return out.numpy()


def test_the_graph_of_the_guide(create):
    a, b, c, d = np.random.default_rng(0).standard_normal((4, 10, 10), np.float32)
    np.testing.assert_array_equal(run(create(GUIDE)["subgraph_0"], a, b, c, d), (a + b - c) * d)


def test_a_module_holds_several_subgraphs_and_shows_its_text(create):
    module = create(TWO)
    assert module.type_key == "examplejson"
    assert module.get_source() == TWO
    np.testing.assert_array_equal(run(module["my_subgraph_1"], [1, 2, 3]), [1, 4, 9])
    with pytest.raises(AttributeError):
        module["subgraph_2"]


def test_a_file_is_loaded_by_its_suffix(create, tmp_path):
    (tmp_path / "net.examplejson").write_text(TWO)
    module = tvmrt.runtime.load_module(tmp_path / "net.examplejson")
    np.testing.assert_array_equal(run(module["my_subgraph_1"], [2, 3, 4]), [4, 9, 16])


def test_several_threads_run_one_subgraph(create):
    function = create(GUIDE)["subgraph_0"]
    a, b, c, d = np.random.default_rng(1).standard_normal((4, 10, 10), np.float32)
    wrong = []

    def work():
        for _ in range(200):
            if not np.array_equal(run(function, a, b, c, d), (a + b - c) * d):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no subgraph"),
        ("input 0 1\n", "line 1: expected a subgraph_"),
        ("subgraph_0\n", "no operator in 'subgraph_0'"),
        (GUIDE + GUIDE, "line 9: a second 'subgraph_0'"),
        ("subgraph_0\ninput 1 4\n", "line 2: ids must count up by one; expected '0'"),
        ("subgraph_0\ninput 0 4\ndiv 1 inputs: 0 0 shape: 4\n", "line 3: unknown operator"),
        (
            "subgraph_0\ninput 0 4\nadd 1 inputs: 0 7 shape: 4\n",
            "line 3: no earlier line defines an input",
        ),
        (
            "subgraph_0\ninput 0 4\nadd 1 inputs: 0 1 shape: 4\n",
            "line 3: no earlier line defines an input",
        ),
        ("subgraph_0\ninput 0 4\nadd 1 inputs: 0 0 shape: 5\n", "line 3: inputs and result"),
        ("subgraph_0\ninput 0 4\nadd 1 inputs: 0 shape: 4\n", "line 3: not a number: 'shape:'"),
        ("subgraph_0\ninput 0 4\nadd 1 shape: 4\n", "line 3: expected 'inputs:'"),
        ("subgraph_0\ninput 0 -4\n", "line 2: not a number"),
        ("subgraph_0\ninput 0 99999999999999\n", "line 2: number too large"),
        ("subgraph_0\ninput 0 2000000 2000000\n", "line 2: a tensor too large"),
        ("subgraph_0\ninput 0 1 1 1 1 1 1 1 1 1\n", "line 2: too many extents"),
        ("subgraph_0\ninput 0 4\nadd 1 inputs: 0 0 shape: 4\ninput 2 4\n", "line 4: inputs must"),
    ],
)
def test_a_damaged_text_is_refused_with_its_line(create, text, message):
    with pytest.raises(TVMError, match=f"examplejson: .*{message}"):
        create(text)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda x: (x, x), "arguments must be the inputs, then one output"),
        (lambda x: (x, x, x, x, 1), "every argument must be a tensor"),
        (lambda x: (x, x, x, x, tvmrt.nd.empty((10, 11))), "shape differs"),
        (lambda x: (x, x, x, x, tvmrt.nd.empty((10, 10), "float64")), "float32"),
    ],
    ids=["count", "kind", "shape", "dtype"],
)
def test_wrong_arguments_are_refused(create, arguments, message):
    x = tvmrt.nd.empty((10, 10))
    with pytest.raises((TypeError, ValueError), match=message):
        create(GUIDE)["subgraph_0"](*arguments(x))


def test_text_may_come_as_bytes(create):
    a, b, c, d = np.random.default_rng(2).standard_normal((4, 10, 10), np.float32)
    made = create(bytearray(GUIDE.encode()))
    np.testing.assert_array_equal(run(made["subgraph_0"], a, b, c, d), (a + b - c) * d)


def test_module_is_saved_into_a_library_and_read_back(create, tmp_path):
    tree = aot_library("net", [as_code(create(TWO), "examplejson")])
    (tmp_path / "lib.c").write_text(blob_source(tree.data))
    includes = [f"-I{path}" for path in tvmrt.libinfo.find_include_path()]
    command = ["cc", "-shared", "-fPIC", *includes, tmp_path / "lib.c", "-o", tmp_path / "lib.so"]
    subprocess.run(command, check=True)
    modules = [tvmrt.runtime.load_module(tmp_path / "lib.so")]
    while modules[-1].imported_modules:
        modules.append(modules[-1].imported_modules[0])
    assert modules[-1].get_source() == TWO
    np.testing.assert_array_equal(run(modules[-1]["my_subgraph_1"], [1, 2, 3]), [1, 4, 9])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("module.examplejson_module_create", "the text of a graph"),
        ("module.loadbinary_examplejson", "a stream"),
        ("module.loadfile_examplejson", "the path of a file"),
    ],
)
@pytest.mark.parametrize("arguments", [(), (7,)], ids=["none", "number"])
def test_makers_refuse_other_arguments(create, name, text, arguments):
    with pytest.raises(TypeError, match=text):
        tvmrt.get_global_func(name)(*arguments)


def test_missing_file_is_named(create, tmp_path):
    with pytest.raises(OSError, match="cannot be opened"):
        tvmrt.get_global_func("module.loadfile_examplejson")(str(tmp_path / "absent"))


def test_example_takes_strides_without_gaps_only(create, tmp_path):
    path = tmp_path / "net.examplejson"
    path.write_text("subgraph_0\ninput 0 2 3\nmul 1 inputs: 0 0 shape: 2 3\n")
    function = tvmrt.runtime.load_module(path)["subgraph_0"]
    x, y = np.full((2, 3), 3, np.float32), np.zeros((2, 3), np.float32)
    call_with_strides(function, x, y)
    np.testing.assert_array_equal(y, x * x)
    with pytest.raises(TVMError, match="every tensor must be a contiguous CPU tensor"):
        call_with_strides(function, np.ones((3, 2), np.float32).T, y)


def test_examplejson_writes_the_guides_text(device):
    library = tvmrt.compile(guide_network(), devices=[device])
    (module,) = library.sources.modules
    assert module.type_key == "examplejson"
    assert module.payload[8:].decode().splitlines() == [
        "subgraph_tvmgen_default_examplejson_main_0",
        "input 0 10 10",
        "input 1 10 10",
        "input 2 10 10",
        "input 3 10 10",
        "add 4 inputs: 0 1 shape: 10 10",
        "sub 5 inputs: 4 2 shape: 10 10",
        "mul 6 inputs: 5 3 shape: 10 10",
    ]


@pytest.mark.parametrize("executor", ["graph", "aot"])
@pytest.mark.parametrize("shared", [False, True], ids=["one-result", "several-subgraphs"])
def test_examplejson_computes_the_guides_network(tmp_path, device, executor, shared):
    library = tvmrt.compile(guide_network(shared), executor=executor, devices=[device])
    library.export(tmp_path / "net.so")
    assert len(library.summary.regions) == (2 if shared else 1)
    for found, wanted in zip(run_library(tmp_path / "net.so", executor, FEEDS), golden(shared)):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)

"""Runs allocate nothing, take no lock and do not call the system: counted, and seen by strace."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import libraries
import numpy as np
import onnx
import pytest
from onnx import parser

import tvmrt
from tvmrt import libinfo
from tvmrt.cli import main
from tvmrt.custom import C, Kernel, Tensor
from tvmrt.error import UnsupportedError

DATA = Path(__file__).parent / "data"
MODELS = sorted(Path(os.environ.get("TVMRT_MODELS") or DATA).glob("*.onnx"))
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="functions are put in front of others by Linux"
)


def network(body, inputs="float[1,8,12,12] x", outputs="float[N,C,H,W] y", weights=""):
    text = f"({inputs}) => ({outputs}) {weights} {{ {body} }}"
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21, "a" : 1]> g {text}')


def convolutions():
    """A convolution and a matmul that take workspaces, and a sum that threads share."""
    x = "float[1,64,40,40] x"
    body = """t = Transpose<perm=[0,1,3,2]>(x) m = MatMul(x, t) r = Relu(m) w = Slice(x, a, b)
              v = Reshape(w, s) y = Conv<pads=[1,1,1,1]>(r, v)"""
    weights = """<int64[4] a = {0,0,0,0}, int64[4] b = {1,36,8,40}, int64[4] s = {2,64,9,10}>"""
    return network(body, x, weights=weights)


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """The program that runs a network, and the library that counts its calls."""
    folder = tmp_path_factory.mktemp("real_time")
    flags = ["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]
    library = Path(libinfo.find_lib_path()[0])
    runtime = [f"-I{each}" for each in libinfo.find_include_path()]
    runtime += [str(library), f"-Wl,-rpath,{library.parent}", "-pthread"]
    for name, more in (("count_calls", ["-shared", "-fPIC"]), ("count_runs", runtime)):
        command = ["cc", *flags, str(DATA / f"{name}.c"), *more, "-ldl", "-o", str(folder / name)]
        subprocess.run(command, check=True)
    return folder


def counted(programs, library, threads="1", runs=2):
    """Return the calls of the first runs after load, and their functions."""
    environment = {
        **os.environ,
        "LD_PRELOAD": str(programs / "count_calls"),
        "TVM_NUM_THREADS": threads,
    }
    command = [str(programs / "count_runs"), str(library), str(runs)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    number, _, names = done.stdout.strip().partition(" ")
    return int(number), names


def system_calls(programs, library, threads="1"):
    """Return what strace sees between the marks around the runs, except of the main thread if it
    only waits for the one that makes the marks."""
    trace = programs / "trace"
    command = ["strace", "-f", "-o", str(trace), str(programs / "count_runs"), str(library), "2"]
    environment = {**os.environ, "TVM_NUM_THREADS": threads}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    lines = trace.read_text().splitlines()
    (begin,) = [i for i, line in enumerate(lines) if "getpgid(-77)" in line]
    (end,) = [i for i, line in enumerate(lines) if "getpgid(-78)" in line]
    main, marking = lines[0].split()[0], lines[begin].split()[0]
    waits = main != marking
    return [line for line in lines[begin + 1 : end] if not (waits and line.split()[0] == main)]


def exported(model, path, **options):
    library = tvmrt.compile(model, target="native", **options)
    library.export_library(path)
    return path


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_the_first_run_on_a_new_thread_calls_nothing(executor, programs, tmp_path):
    path = exported(convolutions(), tmp_path / "net.so", executor=executor)
    assert counted(programs, path) == (0, "")
    assert system_calls(programs, path) == []


def test_real_time_networks_stay_on_their_thread(programs, tmp_path):
    plain = exported(convolutions(), tmp_path / "plain.so")
    number, names = counted(programs, plain, threads="3")
    assert number > 0 and "pthread_create" in names  # so the counter sees what it should
    path = exported(convolutions(), tmp_path / "net.so", real_time=True)
    assert counted(programs, path, threads="3") == (0, "")


def test_workspaces_may_be_released_in_any_order(tmp_path):
    """Also more of them than the library states, and some released twice."""
    blob = libraries.graph_blob()
    path = libraries.compile_library(DATA / "workspaces.c", tmp_path / "net.so", blob)
    for _ in range(2):
        net = tvmrt.load(path)
        for found in net(net.example_inputs()).values():
            np.testing.assert_array_equal(found, 1)


@pytest.mark.slow
@pytest.mark.skipif(not MODELS, reason="TVMRT_MODELS is not set")
@pytest.mark.parametrize("number", range(len(MODELS)), ids=lambda n: MODELS[n].stem)
def test_runs_of_networks_call_nothing(number, programs, tmp_path):
    executor = ("graph", "aot")[number % 2]
    options = {"executor": executor, "real_time": number % 4 < 2}
    path = exported(MODELS[number], tmp_path / "net.so", **options)
    assert counted(programs, path) == (0, "")
    assert system_calls(programs, path) == []


def operator_tests():
    """One test network of the onnx package for each set of operators."""
    from onnx.backend.test.loader import load_model_tests

    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in load_model_tests(kind="node"):
            model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
            found.setdefault(frozenset(n.op_type for n in model.graph.node), model)
    return list(found.values())


@pytest.mark.slow
def test_operators_are_accepted_or_refused_with_a_reason(programs, tmp_path):
    """The check passes all operators but the listed ones; a sample of the others is counted."""
    accepted, refused = [], []
    for model in operator_tests():
        try:
            tvmrt.compile(model, target="native")
        except (UnsupportedError, ValueError):
            continue
        try:
            tvmrt.compile(model, target="native", real_time=True)
            accepted.append(model)
        except UnsupportedError as error:
            assert re.search(r"layers: \S.*: \w+\(\) ", str(error))
            refused.append(model)
    assert len(accepted) > 250 and len(refused) < 5
    runs = 0
    for i, model in enumerate(accepted[::14]):
        path = exported(model, tmp_path / f"{i}.so", executor="aot", real_time=True, cc="cc -O0")
        try:
            assert counted(programs, path) == (0, ""), model.graph.name
            runs += 1
        except AssertionError as problem:
            if "TVMError" in str(problem) or "ValueError" in str(problem):
                continue  # zeros are no valid inputs
            raise
    assert runs > 10


@pytest.mark.slow
@pytest.mark.skipif(not MODELS, reason="TVMRT_MODELS is not set")
@pytest.mark.parametrize("name", ["kws_dscnn_int8", "gtcrn_f32", "silero_vad_16k_f32"])
def test_code_for_boards_calls_only_arithmetic(name, tmp_path):
    (model,) = [each for each in MODELS if each.stem == name]
    options = {"target": "cortex-m4", "interface_api": "c", "real_time": True}
    tvmrt.compile(model, **options).export_sources(tmp_path)
    folders = tmp_path, tmp_path / "include", *libinfo.find_include_path()
    includes = [f"-I{each}" for each in folders]
    for source in tmp_path.rglob("tvmgen*.c"):
        command = ["cc", "-O1", "-c", *includes, str(source), "-o", str(source.with_suffix(".o"))]
        subprocess.run(command, check=True)
    objects = [str(each) for each in tmp_path.rglob("tvmgen*.o")]
    listed = subprocess.run(["nm", *objects], check=True, capture_output=True, text=True).stdout
    needed = {line.split()[-1] for line in listed.splitlines() if " U " in line}
    defined = {line.split()[-1] for line in listed.splitlines() if re.search(r" [TDBRVW] ", line)}
    allowed = (
        r"mem(cpy|set|move)|_GLOBAL_OFFSET_TABLE_|(exp|log|tanh|sqrt|rint|pow|floor|sin|cos)f?"
    )
    assert objects and all(re.fullmatch(allowed, each) for each in needed - defined), needed


def kernel(body):
    text = f"""{body}
static int32_t f(const float *x, const tvmrt_shape *x_shape, float *y,
                 const tvmrt_shape *y_shape) {{
  (void)y_shape;
  return helper(x, y, x_shape->size);
}}"""
    operands = {"inputs": [Tensor("x", "float32")], "outputs": [Tensor("y", "float32")]}
    return Kernel("Twice", domain="a", **operands, c=C(text, "f"))


HEAD = "static int32_t helper(const float *x, float *y, int64_t size)"
ALLOCATES = f"#include <stdlib.h>\n{HEAD} {{ free(malloc(size)); *y = *x; return 0; }}"
UNKNOWN = f"int32_t other(const float *);\n{HEAD} {{ *y = 0; return other(x); }}"
REFUSED = {
    "text": ({}, "y = Cast<to=8>(x)", r"Cast_y: snprintf\(\) may allocate"),
    "malloc": (
        {"operators": [ALLOCATES]},
        "y = a.Twice(x)",
        r"Twice_y: (free|malloc)\(\) allocates memory",
    ),
    "unknown": (
        {"operators": [UNKNOWN]},
        "y = a.Twice(x)",
        r"Twice_y: other\(\) is not part of the operator's code",
    ),
    "schedule": ({"schedule": "async"}, "y = Relu(x)", 'choose schedule="sync"'),
    "tvm-ffi": ({"abi": "tvm-ffi"}, "y = Relu(x)", 'abi="packed"'),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_layer_and_reason(case):
    options, body, words = REFUSED[case]
    if "operators" in options:
        options = {"operators": [kernel(each) for each in options["operators"]]}
    result = "string[N] y" if case == "text" else "float[N] y"
    model = network(body, "float[4] x", result)
    with pytest.raises(UnsupportedError, match=words):
        tvmrt.compile(model, real_time=True, **options)


def test_a_device_states_that_its_regions_only_compute(tmp_path):
    class Doubler(tvmrt.devices.Device):
        name = "doubler"

        def supports(self, node):
            return None if node.op == "relu" else "not supported"

        def codegen(self, regions, context):
            (region,) = regions
            head = f"#include <stdint.h>\nint32_t {region.symbol}(const float *x, float *y)"
            return tvmrt.devices.CSource(f"{head} {{ y[0] = 2 * x[0]; return 0; }}\n")

    device = Doubler()
    model = network("y = Relu(x)", "float[1] x", "float[1] y")
    with pytest.raises(UnsupportedError, match="Relu_y: device doubler does not state"):
        tvmrt.compile(model, devices=[device], executor="aot", real_time=True)
    device.real_time = True
    tvmrt.compile(model, devices=[device], executor="aot", real_time=True)


def test_the_command_refuses(tmp_path, capsys):
    onnx.save(network("y = Cast<to=8>(x)", "float[4] x", "string[4] y"), tmp_path / "net.onnx")
    command = ["compile", str(tmp_path / "net.onnx"), "-o", str(tmp_path / "net.so"), "--real-time"]
    assert main(command) == 2
    assert "--real-time does not support these layers: Cast_y" in capsys.readouterr().err
